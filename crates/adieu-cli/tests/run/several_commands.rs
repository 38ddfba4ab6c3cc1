//! `--file`: several commands, their order, and the time they share.

use std::fs;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::support::Wrapper;

/// Prints a line once it can be stopped, and exits with 0 at SIGTERM.
const BASE: &str = r#"
[[command]]
name = "base"
run = ["sh", "-c", "trap 'exit 0' TERM; echo base up; while :; do sleep 1 & wait; done"]
"#;

fn start(options: &[&str], text: &str) -> (Wrapper, TempDir) {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("run.toml");
    fs::write(&path, text).expect("a file");
    let path = path.to_str().expect("a path");
    let options = [&["--file", path], options].concat();
    (Wrapper::start::<&str>(&options, &[]), folder)
}

/// Waits for these lines of two commands, each of which prints its own when it gets a core.
async fn both_print(wrapper: &mut Wrapper, mut wanted: [&str; 2]) {
    let mut printed = [wrapper.line("").await, wrapper.line("").await];
    printed.sort();
    wanted.sort_unstable();
    assert_eq!(printed, wanted);
}

/// These stand in the log, one after the other.
fn in_order(log: &str, wanted: &[&str]) {
    let mut rest = log;
    for words in wanted {
        let found = rest.split_once(words);
        rest = found
            .unwrap_or_else(|| panic!("`{words}` is not where it should be:\n{log}"))
            .1;
    }
}

#[tokio::test]
async fn commands_start_in_order_and_stop_in_reverse() {
    let text = format!(
        r#"
        [[command]]
        name = "web"
        run = ["sh", "-c", "trap 'exit 0' TERM; echo $COLOR; while :; do sleep 1 & wait; done"]
        after = ["migrate"]
        env = {{ COLOR = "green" }}
        [[command]]
        name = "migrate"
        run = ["true"]
        after = ["base"]
        once = true
        {BASE}"#
    );
    let (mut wrapper, _folder) = start(&[], &text);
    both_print(&mut wrapper, ["base up", "green"]).await;
    wrapper.signal(Signal::TERM);
    let (code, log) = wrapper.code().await;
    assert_eq!(code, 0, "{log}");
    in_order(
        &log,
        &[
            "base started",
            "migrate started",
            "migrate (pid ",
            "web started",
            "SIGTERM to web",
            "web (pid ",
            "SIGTERM to base",
            "base (pid ",
        ],
    );
    assert!(!log.contains("SIGTERM to migrate"), "{log}");
}

/// What comes after a command that fails never starts, and what is there is stopped in order.
#[tokio::test]
async fn a_failed_step_ends_the_run_with_its_code() {
    let text = format!(
        r#"
        [[command]]
        name = "web"
        run = ["sh", "-c", "echo web up"]
        after = ["migrate"]
        [[command]]
        name = "migrate"
        run = ["sh", "-c", "read go < /dev/null; exit 3"]
        after = ["base"]
        once = true
        {BASE}"#
    );
    let (wrapper, _folder) = start(&[], &text);
    let (code, log) = wrapper.code().await;
    assert_eq!(code, 3, "{log}");
    assert!(!log.contains("web started"), "{log}");
    in_order(
        &log,
        &["migrate (pid ", "ended with exit code 3", "SIGTERM to base"],
    );
}

/// A command that ignores SIGTERM is killed when its share is over: the other one still has its own.
#[tokio::test]
async fn a_command_that_hangs_does_not_take_the_time_of_the_others() {
    let text = format!(
        r#"
        [[command]]
        name = "web"
        run = ["sh", "-c", "trap '' TERM; echo web up; while :; do sleep 1; done"]
        after = ["base"]
        {BASE}"#
    );
    let (mut wrapper, _folder) = start(&["--grace", "6s"], &text);
    both_print(&mut wrapper, ["base up", "web up"]).await;
    // The time is counted in the log only: what is asserted is the order.
    wrapper.signal(Signal::TERM);
    let (code, log) = wrapper.code().await;
    assert_eq!(code, 137, "{log}");
    in_order(
        &log,
        &[
            "SIGTERM to web",
            "1/2 of the time left of 6s are over: sending SIGKILL to web",
            "SIGTERM to base",
        ],
    );
    let base = log
        .lines()
        .find(|line| line.contains("adieu: base (pid ") && line.contains("ended"));
    assert!(
        base.is_some_and(|line| line.ends_with("ended with exit code 0")),
        "{log}"
    );
}

/// The end of one is the end of all: with its code, or with 0.
#[tokio::test]
async fn the_end_of_one_command_stops_the_others() {
    for (words, wanted) in [("exit 0", 0), ("exit 5", 5)] {
        let text = format!(
            r#"
            [[command]]
            name = "short"
            run = ["sh", "-c", "read go; {words}"]
            {BASE}"#
        );
        let (wrapper, _folder) = start(&[], &text);
        let (code, log) = wrapper.code().await;
        assert_eq!(code, wanted, "{log}");
        in_order(&log, &["short (pid ", "SIGTERM to base"]);
    }
}

#[tokio::test]
async fn a_command_that_is_not_there_stops_the_others_in_order() {
    let text = format!(
        r#"
        {BASE}
        [[command]]
        name = "typo"
        run = ["/no/such/program"]
        restart = "always"
        after = ["base"]
        "#
    );
    let (wrapper, _folder) = start(&[], &text);
    let (code, log) = wrapper.code().await;
    assert_eq!(code, 127, "{log}");
    in_order(
        &log,
        &[
            "cannot start /no/such/program: there is no such file",
            "SIGTERM to base",
        ],
    );
    assert_eq!(log.matches("cannot start").count(), 1, "{log}");
}

/// Readiness is that of all of them.
#[tokio::test]
async fn health_is_that_of_all_commands() {
    let text = format!(
        r#"
        {BASE}
        ready = "notify"
        "#
    );
    let (mut wrapper, _folder) = start(&["--health", "127.0.0.1:0"], &text);
    let address = wrapper.health().await;
    wrapper.line("base up").await;
    let (code, said) = crate::health::health(address, "/readyz");
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("check `base` fails"), "{said}");
    wrapper.signal(Signal::TERM);
    assert_eq!(wrapper.code().await.0, 0);
}

#[test]
fn what_belongs_to_a_command_is_written_into_the_file() {
    for (options, problem) in [
        (
            &["--file", "x.toml", "--ready", "2s"][..],
            "--ready belongs to one command",
        ),
        (
            &["--file", "/no/such.toml"][..],
            "--file /no/such.toml: No such file",
        ),
        (&["--workers", "0"][..], "--workers 0"),
    ] {
        let command: &[&str] = if options.contains(&"--workers") {
            &["true"]
        } else {
            &[]
        };
        let (code, _, said) = crate::support::run(options, command);
        assert_eq!(code, 2, "{said}");
        assert!(said.contains(problem), "{said}");
    }
    let (code, _, said) = crate::support::run(&["--file", "x.toml"], &["true"]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("--file has the commands"), "{said}");
}
