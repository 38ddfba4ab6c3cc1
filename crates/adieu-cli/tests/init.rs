//! `adieu-init`: the commands `run` and `health` alone, in place of tini.
#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

const INIT: &str = env!("CARGO_BIN_EXE_adieu-init");

fn output(words: &[&str]) -> (Option<i32>, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = Command::new(INIT)
        .args(words)
        .stdin(Stdio::null())
        .output()
        .expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (status.code(), text(stdout), text(stderr))
}

/// `tini -g -- server` becomes `adieu-init -g -- server`.
#[test]
fn the_word_run_may_be_left_out() {
    for words in [
        &["run", "--quiet", "--", "echo", "hello"][..],
        &["--quiet", "--", "echo", "hello"],
        &["-q", "-g", "-s", "echo", "hello"],
        &["-q", "--", "echo", "hello"],
    ] {
        let (code, out, said) = output(words);
        assert_eq!((code, &*out, &*said), (Some(0), "hello\n", ""), "{words:?}");
    }
    assert_eq!(output(&["--", "sh", "-c", "exit 7"]).0, Some(7));
    // A command of this name is still to be had.
    let (code, out, _) = output(&["-q", "--", "sh", "-c", "echo run"]);
    assert_eq!((code, &*out), (Some(0), "run\n"));
}

#[test]
fn it_says_what_it_is() {
    let (code, out, _) = output(&["--help"]);
    assert_eq!(code, Some(0));
    assert!(out.contains("the word `run` may be left out"), "{out}");
    let version = concat!("adieu-init ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(output(&["--version"]).1, version);
    let (code, _, said) = output(&[]);
    assert_eq!(code, Some(2));
    assert!(said.starts_with("error: no command is given"), "{said}");
    let (code, _, said) = output(&["--grac", "5s", "--", "true"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("--grace"), "{said}");
}

#[test]
fn it_asks_for_health() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    assert_eq!(output(&["health", "--tcp", &address]).0, Some(0));
    drop(listener);
    assert_eq!(output(&["health", "--tcp", &address]).0, Some(1));
}

#[test]
fn the_command_gets_the_signal() {
    let script = "trap 'exit 7' TERM; sleep 1000 & echo ready; wait";
    let mut init = Command::new(INIT)
        .args(["--", "sh", "-c", script])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut line = String::new();
    let mut out = BufReader::new(init.stdout.take().expect("its output"));
    out.read_line(&mut line).expect("a line");
    assert_eq!(line, "ready\n");
    kill_process(Pid::from_child(&init), Signal::TERM).expect("signalled");
    assert_eq!(init.wait().expect("its end").code(), Some(7));
}
