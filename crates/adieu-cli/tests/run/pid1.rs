//! As a real PID 1, in a PID namespace of its own.

use std::process::Command;

use adieu_testkit::ChildProcess;
use rustix::process::Signal;
use tokio::time::timeout;

use crate::support::{ADIEU, PATIENCE, children, kill};

pub(crate) fn may_unshare() -> bool {
    let tried = Command::new("unshare")
        .args(["--pid", "--fork", "--mount-proc", "true"])
        .output();
    let may = tried.is_ok_and(|output| output.status.success());
    if !may {
        fixture_skip::not_possible("no PID namespace can be made");
    }
    may
}

async fn first(options: &[&str], script: &str) -> ChildProcess {
    first_with(&["--pid", "--fork", "--mount-proc"], options, script)
}

fn first_with(namespace: &[&str], options: &[&str], script: &str) -> ChildProcess {
    let mut words = namespace.to_vec();
    words.extend([ADIEU, "run"]);
    words.extend(options);
    words.extend(["--", "sh", "-c", script]);
    ChildProcess::start("unshare", words).expect("it starts")
}

/// The kernel protects PID 1 from signals that it has no handler for, and a shell that is busy swallows them.
#[tokio::test]
async fn a_shell_that_swallows_sigterm_is_ended_on_time() {
    if !may_unshare() {
        return;
    }
    let script = "trap '' TERM; (setsid sh -c 'while :; do sleep 0.05; done' &); echo ready; while :; do sleep 0.05; done";
    let mut subject = first(&["--grace", "300ms"], script).await;
    let ready = timeout(PATIENCE, subject.line("ready")).await;
    ready.expect("in time").expect("a line");
    let [wrapper] = children(subject.pid())[..] else {
        panic!("unshare has one child");
    };
    kill(wrapper, Signal::TERM);
    let end = timeout(PATIENCE, subject.end()).await;
    let end = end.expect("in time").expect("an end");
    assert_eq!(end.status.code(), Some(137), "{}", end.errors);
}

/// A /proc of other processes says nothing of ours: no process of it is named, and none of ours is left.
#[tokio::test]
async fn a_foreign_proc_is_not_believed() {
    if !may_unshare() {
        return;
    }
    let script = "trap '' TERM; (setsid sh -c 'trap \"\" TERM; while :; do sleep 0.05; done' &); echo ready; \
                  while :; do sleep 0.05; done";
    let mut subject = first_with(&["--pid", "--fork"], &["--grace", "300ms"], script);
    let ready = timeout(PATIENCE, subject.line("ready")).await;
    ready.expect("in time").expect("a line");
    let [wrapper] = children(subject.pid())[..] else {
        panic!("unshare has one child");
    };
    kill(wrapper, Signal::TERM);
    let end = timeout(PATIENCE, subject.end()).await;
    let end = end.expect("in time").expect("an end");
    assert_eq!(end.status.code(), Some(137), "{}", end.errors);
    for words in [
        "300ms are over: sending SIGKILL to every descendant\n",
        // At the start, with what to do.
        "/proc shows other processes than those of this namespace",
        "unshare --mount-proc",
    ] {
        assert!(end.errors.contains(words), "{words}: {}", end.errors);
    }
}

#[tokio::test]
async fn orphans_are_reaped_and_the_code_is_the_commands() {
    if !may_unshare() {
        return;
    }
    // Each ends when it has come to PID 1. A zombie can still be sent a signal; one that was reaped cannot.
    let script = r#"
        orphan='until grep -q "^PPid:.1$" /proc/$$/status; do :; done; exit 1'
        echo parent $PPID
        for i in 1 2 3; do orphans="$orphans $(sh -c "$orphan" > /dev/null & echo $!)"; done
        for it in $orphans; do while kill -0 $it 2> /dev/null; do :; done; done
        echo none left
        exit 6"#;
    let mut subject = first(&[], script).await;
    let parent = timeout(PATIENCE, subject.line("parent ")).await;
    assert_eq!(
        parent.expect("in time").expect("a line"),
        "1",
        "we are PID 1"
    );
    let none = timeout(PATIENCE, subject.line("none left")).await;
    none.expect("in time").expect("a line");
    let end = timeout(PATIENCE, subject.end()).await;
    let end = end.expect("in time").expect("an end");
    assert_eq!(end.status.code(), Some(6), "{}", end.errors);
    assert!(end.errors.contains("3 orphans reaped"), "{}", end.errors);
}
