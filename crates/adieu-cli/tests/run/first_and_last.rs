//! Signals in the first moment, before there are handlers, and in the last, when there are none any more.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::Command;

use adieu_testkit::ChildProcess;
use rustix::process::Signal;
use tokio::time::timeout;

use crate::faults::guardian_of;
use crate::pid1::may_unshare;
use crate::support::{ADIEU, PATIENCE, Wrapper, ends};

/// Becomes the command, to which a signal has come already: it is blocked, and stays where it is until that changes.
const SENT_BEFORE: &str = "import os, signal, sys\n\
                           signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})\n\
                           os.kill(os.getpid(), signal.SIGTERM)\n\
                           os.execv(sys.argv[1], sys.argv[1:])";

async fn code(subject: ChildProcess) -> Option<i32> {
    let end = timeout(PATIENCE, subject.end()).await;
    let end = end.expect("in time").expect("an end");
    println!("{}", end.errors);
    end.status.code()
}

const COMMAND: [&str; 7] = ["-c", SENT_BEFORE, ADIEU, "run", "--", "sleep", "5"];

#[tokio::test]
async fn a_stop_before_the_start_is_a_stop() {
    let subject = ChildProcess::start("/usr/bin/python3", COMMAND).expect("it starts");
    assert_eq!(code(subject).await, Some(143));
}

/// Where the kernel drops signals without a handler.
#[tokio::test]
async fn a_stop_before_the_start_of_process_1_is_a_stop() {
    if !may_unshare() {
        return;
    }
    let namespace = ["--pid", "--fork", "--mount-proc", "/usr/bin/python3"];
    let words = namespace.into_iter().chain(COMMAND);
    let subject = ChildProcess::start("unshare", words).expect("it starts");
    assert_eq!(code(subject).await, Some(143));
}

/// All have ended, and the report is being written: its reader has not read what is in the pipe before it.
#[tokio::test]
async fn a_signal_after_the_end_changes_nothing() {
    let folder = tempfile::TempDir::new().unwrap();
    let report = folder.path().join("report.json");
    let made = Command::new("mkfifo").arg(&report).status().unwrap();
    assert!(made.success());
    let mut pipe = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(&report)
        .unwrap();
    let before = vec![b'x'; usize::from(u16::MAX) + 1];
    pipe.write_all(&before).unwrap();
    let path = report.to_str().unwrap();
    let script = "trap 'exit 7' USR1; echo ready; while :; do sleep 0.01; done";
    let mut wrapper = Wrapper::start(&["--report", path], &["sh", "-c", script]);
    wrapper.line("ready").await;
    let guardian = guardian_of(wrapper.subject.pid());
    wrapper.signal(Signal::USR1);
    assert!(ends(guardian, PATIENCE), "the guardian goes with the last");
    for signal in [Signal::TERM, Signal::INT, Signal::USR1] {
        wrapper.signal(signal);
    }
    let written = tokio::task::spawn_blocking(move || {
        pipe.read_exact(&mut vec![0; before.len()])?;
        let mut written = String::new();
        BufReader::new(pipe).read_line(&mut written)?;
        Ok::<_, std::io::Error>(written)
    });
    let (code, said) = wrapper.code().await;
    assert_eq!(code, 7, "{said}");
    let written = written.await.unwrap().unwrap();
    assert!(written.starts_with('{'), "{written}");
}
