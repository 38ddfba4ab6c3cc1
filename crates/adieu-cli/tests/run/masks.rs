//! Started by a parent process that has signals blocked, which every process below inherits.

use adieu_testkit::ChildProcess;
use rustix::process::Signal;
use tokio::time::timeout;

use crate::support::{ADIEU, PATIENCE, built, kill};

/// Becomes the command, with all signals blocked that can be.
const BLOCKED: &str = "import os, signal, sys\n\
                       signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\n\
                       os.execv(sys.argv[1], sys.argv[1:])";

fn start(words: &[&str]) -> ChildProcess {
    let launcher = ["-c", BLOCKED];
    let words = launcher.iter().chain(words);
    ChildProcess::start("/usr/bin/python3", words).expect("it starts")
}

async fn line(subject: &mut ChildProcess, beginning: &str) -> String {
    let line = timeout(PATIENCE, subject.line(beginning)).await;
    line.expect("in time").expect("a line")
}

async fn code(subject: ChildProcess) -> Option<i32> {
    let end = timeout(PATIENCE, subject.end()).await;
    end.expect("in time").expect("an end").status.code()
}

#[tokio::test]
async fn the_end_of_the_command_is_seen() {
    let subject = start(&[ADIEU, "run", "--", "sh", "-c", "exit 7"]);
    assert_eq!(code(subject).await, Some(7));
}

#[tokio::test]
async fn the_command_hears_the_stop() {
    let script = "grep SigBlk /proc/self/status; trap 'exit 4' TERM; echo ready; while :; do sleep 0.01; done";
    let mut subject = start(&[ADIEU, "run", "--", "sh", "-c", script]);
    let blocked = line(&mut subject, "SigBlk:\t").await;
    assert_eq!(blocked, "0000000000000000", "the command has none blocked");
    line(&mut subject, "ready").await;
    kill(subject.pid(), Signal::TERM);
    assert_eq!(code(subject).await, Some(4));
}

/// Without `adieu run` above it.
#[tokio::test]
async fn a_service_of_the_library_hears_the_stop() {
    let mut subject = start(&[&built("example-web"), "--listen", "127.0.0.1:0"]);
    line(&mut subject, "listening on ").await;
    kill(subject.pid(), Signal::TERM);
    assert_eq!(code(subject).await, Some(0));
}
