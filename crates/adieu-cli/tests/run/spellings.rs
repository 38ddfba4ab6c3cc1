//! The options of tini and dumb-init, and the platforms that stop with another signal than SIGTERM.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::support::{ADIEU, Wrapper, run, run_in};

/// A line that was written for either of them works as it is.
#[test]
fn the_options_of_tini_and_dumb_init_are_accepted() {
    for options in [
        &["-s", "-g", "-w", "-vvv", "-p", "SIGTERM", "-e", "143"][..],
        &["-vg"],
        &["-c", "-v", "--rewrite", "15:3"],
        &[
            "--single-child",
            "--rewrite",
            "2:15",
            "--rewrite",
            "SIGHUP:0",
        ],
    ] {
        let (code, out, said) = run(options, &["echo", "hello"]);
        assert_eq!((code, out.as_str()), (0, "hello\n"), "{options:?}: {said}");
    }
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    for (options, words) in [
        (&["-c", "-g"][..], "cannot be used with '--group'"),
        (&["-v", "-q"], "cannot be used with '--quiet'"),
        (&["-e", "256"], "256 is not in 0..=255"),
        (
            &["-p", "soon"],
            "--parent-death-signal: unknown signal `soon`",
        ),
        (&["--rewrite", "15"], "expected FROM:TO, as in 15:3"),
        (&["--rewrite", "15:0"], "would never be asked to stop"),
        (&["--rewrite", "9:15"], "SIGKILL cannot be passed on"),
        (
            &["--rewrite", "15:2", "--signal", "term=quit"],
            "SIGTERM was mapped before",
        ),
        (
            &["--platform", "heroku"],
            "unknown platform; one of plain, terminal, systemd",
        ),
    ] {
        let (code, out, said) = run(options, &["echo", "hello"]);
        assert_eq!((code, out.as_str()), (2, ""), "{options:?}: {said}");
        assert!(said.contains(words), "{options:?}: {said}");
    }
}

#[test]
fn an_exit_code_may_count_as_success() {
    let ended_by_term = ["sh", "-c", "kill -TERM $$"];
    assert_eq!(run(&[], &ended_by_term).0, 143);
    assert_eq!(run(&["-e", "143"], &ended_by_term).0, 0);
    assert_eq!(run(&["-e", "7", "-e", "143"], &ended_by_term).0, 0);
    assert_eq!(run(&["-e", "142"], &ended_by_term).0, 143);
    // And as an end after which --restart on-failure does not start it again.
    let again = ["--restart", "on-failure", "--success-code", "143"];
    let (code, _, said) = run(&again, &ended_by_term);
    assert_eq!(code, 0, "{said}");
    assert!(!said.contains("start number"), "{said}");
}

#[test]
fn reaped_orphans_are_logged_when_asked_for() {
    let leaves_an_orphan = ["sh", "-c", "(sh -c 'exit 3' &)"];
    let (code, _, said) = run(&["-w"], &leaves_an_orphan);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("reaped an orphan: pid "), "{said}");
    assert!(said.contains("ended with exit code 3"), "{said}");
    let (_, _, said) = run(&[], &leaves_an_orphan);
    assert!(!said.contains("reaped an orphan"), "{said}");
}

/// Ends with 7 for SIGTERM and with 8 for SIGINT. It waits for one child, as the signals may come at any moment.
const TELLS: &str = "trap 'exit 7' TERM; trap 'exit 8' INT; sleep 1000 & echo ready; wait";

async fn code_after(options: &[&str], signal: Signal) -> i32 {
    let mut wrapper = Wrapper::start(options, &["sh", "-c", TELLS]);
    wrapper.line("ready").await;
    wrapper.signal(signal);
    wrapper.code().await.0
}

#[tokio::test]
async fn a_rewritten_signal_reaches_the_command_as_the_other() {
    assert_eq!(code_after(&["--rewrite", "15:2"], Signal::TERM).await, 8);
}

/// Fly and Nomad stop with SIGINT, which tells nginx and gunicorn to drop what they have in flight.
#[tokio::test]
async fn where_the_platform_stops_with_sigint_the_command_gets_sigterm() {
    for platform in ["fly", "nomad"] {
        let options = ["--platform", platform];
        assert_eq!(code_after(&options, Signal::INT).await, 7, "{platform}");
    }
    let chosen = ["--platform", "fly", "--signal", "int=int"];
    assert_eq!(code_after(&chosen, Signal::INT).await, 8);
    assert_eq!(code_after(&["--platform", "ecs"], Signal::INT).await, 8);
}

/// The grace period that the command gets: a second less, or half of a short one.
#[test]
fn the_grace_fits_the_platform() {
    for (platform, told) in [
        ("cloud-run", "7000ms"),
        ("fly", "3000ms"),
        ("nomad", "3000ms"),
        ("ecs", "24000ms"),
    ] {
        let options = ["--platform", platform];
        let (code, out, said) = run(&options, &["sh", "-c", "echo $ADIEU_GRACE"]);
        assert_eq!((code, out.trim_end()), (0, told), "{platform}: {said}");
        let long = ["--platform", platform, "--grace", "60s"];
        let (_, _, said) = run(&long, &["true"]);
        assert!(said.contains(&format!("{platform} kills after")), "{said}");
        let configured = [("ADIEU_KILL_AFTER", "120s")];
        let (_, _, said) = run_in(&configured, &long, &["true"]);
        assert!(!said.contains("kills after"), "{said}");
    }
}

/// `-p SIGTERM`: adieu ends its command when the process that started it is gone.
#[test]
fn the_end_of_the_parent_process_is_a_signal() {
    let script = format!("'{ADIEU}' run -p SIGTERM -- sh -c 'echo ready; exec sleep 1000' & wait");
    let mut parent = Command::new("sh")
        .args(["-c", &script])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("a shell");
    let mut out = BufReader::new(parent.stdout.take().expect("its output"));
    let mut line = String::new();
    out.read_line(&mut line).expect("a line");
    assert_eq!(line, "ready\n");
    parent.kill().expect("killed");
    parent.wait().expect("its end");
    // Adieu and its command hold the other end until they have ended.
    let mut rest = String::new();
    out.read_to_string(&mut rest).expect("the end");
    assert_eq!(rest, "");
}
