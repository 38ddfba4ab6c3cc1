//! Ctrl-C in the middle of it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::support::{HELLO, Test, URL};

/// Interrupted in the middle of it, the drill leaves neither the program nor what the program started.
#[test]
fn interrupted_it_leaves_no_process_behind() {
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

/// SIGKILL gives the drill no time for anything. What it started is gone all the same, also what hears no SIGTERM and what
/// has a session of its own.
#[test]
fn killed_it_leaves_no_process_behind() {
    let stubborn = "import os, signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)\n\
                    if os.fork() == 0:\n    os.setsid()\n    os.execvp('sleep', ['sleep', '300'])\n";
    let program = HELLO.replace("signal.signal(signal.SIGTERM, stop)", "");
    assert_ne!(program, HELLO);
    let test = Test::new().file("stubborn.py", &format!("{stubborn}{program}"));
    let script =
        "python3 stubborn.py {port} | while read -r line; do echo \"$line\" > running; done";
    let made = Command::new("mkfifo")
        .arg(test.path().join("running"))
        .status();
    assert!(made.expect("mkfifo").success());
    let words = ["--http", URL, "--check", "exit-code", "--grace", "60s"];
    let mut child = test
        .command(&[&words[..], &["--", "sh", "-c", script]].concat())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the command runs");
    let running = fs::read_to_string(test.path().join("running")).expect("a pipe");
    assert_eq!(running, "listening\n");
    assert!(!test.left().is_empty(), "it runs");
    child.kill().expect("it is there");
    child.wait().expect("it ends");
    let begun = std::time::Instant::now();
    while !test.left().is_empty() {
        assert!(begun.elapsed().as_secs() < 10, "{:?}", test.left());
        std::thread::yield_now();
    }
}

/// What was judged before Ctrl-C is printed and written.
#[test]
fn interrupted_it_tells_what_was_judged() {
    let test = Test::new();
    let made = Command::new("mkfifo")
        .arg(test.path().join("running"))
        .status();
    assert!(made.expect("mkfifo").success());
    let ledger = "echo begun > running; sleep 654; echo a";
    let words = [
        "--http",
        URL,
        "--check",
        "port-free,resume",
        "--ledger",
        ledger,
        "--junit",
        "j.xml",
    ];
    let child = test
        .command(&[&words[..], &["--", "python3", "hello.py", "{port}"]].concat())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command runs");
    // The check before this one is over when the ledger is asked for.
    let running = fs::read_to_string(test.path().join("running")).expect("a pipe");
    assert_eq!(running, "begun\n");
    let killed = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(killed.expect("kill").success());
    let ran = child.wait_with_output().expect("it ends");
    assert_eq!(ran.status.code(), Some(130));
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(
        said.contains("port-free") && !said.contains("resume"),
        "{said}"
    );
    let xml = fs::read_to_string(test.path().join("j.xml")).expect("a report");
    assert!(xml.contains("port-free"), "{xml}");
}

/// Also what a command of the user's has started, which outlives the shell it was started by.
#[test]
fn interrupted_it_leaves_no_process_that_the_ledger_started() {
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
