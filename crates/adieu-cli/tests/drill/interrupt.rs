//! Ctrl-C in the middle of it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::support::{HELLO, Test, URL};

/// Interrupted in the middle of it, the drill leaves neither the program nor what the program started.
#[test]
fn interrupted_it_leaves_nobody_behind() {
    let forks = "import os\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        os.execvp('sleep', ['sleep', '300'])\n    os._exit(0)\nos.wait()\n";
    let test = Test::new().file("forks.py", &format!("{forks}{HELLO}"));
    for (signal, expected) in [("INT", 130), ("TERM", 143), ("QUIT", 131)] {
        // The program says when it runs; by then its daemon runs too.
        let script =
            "python3 forks.py {port} | while read -r line; do echo \"$line\" > running; done";
        assert!(
            Command::new("mkfifo")
                .arg(test.path().join("running"))
                .status()
                .expect("mkfifo")
                .success()
        );
        let mut child = test
            .command(&[
                "--http",
                URL,
                "--check",
                "hung-handler,exit-in-time",
                "--slow",
                "/x?{ms}",
                "--",
                "sh",
                "-c",
                script,
            ])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the command runs");
        let mut line = String::new();
        let running = fs::File::open(test.path().join("running")).expect("a pipe");
        BufReader::new(running)
            .read_line(&mut line)
            .expect("a line");
        assert_eq!(line, "listening\n");
        let killed = Command::new("kill")
            .args([&format!("-{signal}"), &child.id().to_string()])
            .status();
        assert!(killed.expect("kill").success());
        let status = child.wait().expect("it ends");
        assert_eq!(status.code(), Some(expected));
        assert_eq!(test.left(), Vec::<String>::new());
        fs::remove_file(test.path().join("running")).expect("a pipe");
    }
}

/// Also what a command of the user's has started, which outlives the shell it was started by.
#[test]
fn interrupted_it_leaves_nobody_that_the_ledger_started() {
    let test = Test::new();
    let made = Command::new("mkfifo")
        .arg(test.path().join("running"))
        .status();
    assert!(made.expect("mkfifo").success());
    let ledger = "echo begun > running; sleep 654; echo a";
    let words = ["--http", URL, "--check", "resume", "--ledger", ledger];
    let mut child = test
        .command(&[&words[..], &["--", "python3", "hello.py", "{port}"]].concat())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the command runs");
    let running = fs::read_to_string(test.path().join("running")).expect("a pipe");
    assert_eq!(running, "begun\n");
    let killed = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(killed.expect("kill").success());
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    // Killed, but the kernel takes a moment to end it.
    let begun = std::time::Instant::now();
    while !test.left().is_empty() {
        assert!(begun.elapsed().as_secs() < 10, "{:?}", test.left());
        std::thread::yield_now();
    }
}
