//! A wrapper around a command that does nothing does nothing itself.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use rustix::process::Signal;

use crate::support::{Wrapper, is_guardian, until};

/// How long it is looked at, and how long without a switch counts as settled.
const LOOK: Duration = Duration::from_secs(3);
const SETTLED: Duration = Duration::from_millis(700);

/// How often the threads of a process have gone to sleep or were put to it.
fn switches(pid: i32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("it lives");
    threads
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.path().join("status")).ok())
        .map(|status| {
            let counts = status
                .lines()
                .filter(|it| it.contains("voluntary_ctxt_switches"));
            let counts = counts.filter_map(|it| it.split_ascii_whitespace().nth(1));
            counts.filter_map(|it| it.parse::<u64>().ok()).sum::<u64>()
        })
        .sum()
}

async fn never_wakes(options: &[&str], command: &[&str], ready: &str) {
    let mut wrapper = Wrapper::start(options, command);
    wrapper.says(ready).await;
    let pid = wrapper.subject.pid();
    let below = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("it lives");
    let mut below = below
        .split_ascii_whitespace()
        .filter_map(|it| it.parse().ok());
    let guardian: i32 = below.find(|it| is_guardian(*it)).expect("a guardian");
    let count = || (switches(pid), switches(guardian));
    // What start-up has begun is over.
    until("it settles", || {
        let before = count();
        sleep(SETTLED);
        count() == before
    });
    let before = count();
    sleep(LOOK);
    assert_eq!(count(), before, "{options:?}: adieu run and its guardian");
    wrapper.signal(Signal::TERM);
    wrapper.end().await;
}

#[tokio::test]
async fn nothing_wakes_by_itself() {
    never_wakes(&[], &["sleep", "1000"], "started (pid").await;
}

/// Nor with all that could look from time to time: the health port, a probe, what is watched, a socket that is held.
#[tokio::test]
async fn nor_does_what_waits_for_others() {
    let folder = tempfile::TempDir::new().unwrap();
    // Not beside the directories of other tests: the one that a path lies in is watched, too.
    let watched = folder.path().join("watched");
    fs::create_dir(&watched).unwrap();
    let options = [
        "--health",
        "127.0.0.1:0",
        "--probe-command",
        "true",
        "--listen",
        "tcp:127.0.0.1:0",
        "--watch",
        watched.to_str().unwrap(),
        "--restart",
        "always",
    ];
    let server = "import socket\nsocket.socket(fileno=3).accept()";
    never_wakes(
        &options,
        &["/usr/bin/python3", "-c", server],
        " ready after ",
    )
    .await;
}
