//! `adieu demo`, the real program with the real service.
#![cfg(unix)]

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

fn demo(directory: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_adieu"))
        .arg("demo")
        .args(words)
        .current_dir(directory)
        .output()
        .expect("the command runs")
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_demo_service_passes_and_the_page_is_written() {
    let directory = TempDir::new().expect("a directory");
    let page = directory.path().join("adieu-demo.html");
    // One of an earlier demo is replaced.
    fs::write(
        &page,
        "<!DOCTYPE html><meta name=\"generator\" content=\"adieu drill\">",
    )
    .expect("written");
    let output = demo(directory.path(), &[]);
    let out = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{out}\n{}", err(&output));
    for expected in [
        "✓ inflight-finishes",
        "✓ keepalive-race",
        "in flight",
        "signal ",
        "exit code 0",
        "PASSED the demo service",
    ] {
        assert!(out.contains(expected), "no {expected} in\n{out}");
    }
    assert!(!out.contains('\x1b'), "no colour in a pipe");
    assert!(
        err(&output).contains("for a browser: adieu-demo.html"),
        "{}",
        err(&output)
    );
    let page = fs::read_to_string(page).expect("the page");
    assert!(adieu_drill::render::is_report(&page));
    assert!(
        page.contains("What demo says of its stop"),
        "its own report is laid over"
    );
    assert!(
        !page.contains(env!("CARGO_BIN_EXE_adieu")),
        "no path of this machine"
    );
}

#[test]
fn a_file_of_another_user_is_left_alone() {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("adieu-demo.html");
    fs::write(&path, "my thesis").expect("written");
    let output = demo(directory.path(), &[]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        err(&output),
        "error: adieu-demo.html exists and is not a drill report, so it is left alone; name another with --html FILE\n"
    );
    assert_eq!(fs::read(&path).expect("there"), b"my thesis");
}

#[test]
fn a_place_that_cannot_be_written_is_said_before_the_drill() {
    let directory = TempDir::new().expect("a directory");
    let output = demo(directory.path(), &["--html", "no/such/page.html"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        err(&output),
        "error: cannot write no/such/page.html: its directory does not exist\n"
    );
    let output = demo(directory.path(), &["--html", "."]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(err(&output), "error: cannot write .: it is a directory\n");
}

/// Ctrl-C in a terminal, with the service up and a check running.
#[test]
fn ctrl_c_leaves_no_service_behind() {
    let directory = TempDir::new().expect("a directory");
    let mark = format!("ADIEU_DEMO_TEST={}", directory.path().display());
    let (name, value) = mark.split_once('=').expect("a pair");
    let demo = format!("{} demo", env!("CARGO_BIN_EXE_adieu"));
    let mut terminal = Command::new("script")
        .args(["--quiet", "--return", "--command", &demo, "/dev/null"])
        .current_dir(directory.path())
        .env(name, value)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script runs");
    let mut screen = terminal.stdout.take().expect("a screen");
    let (mut seen, mut piece) = (Vec::new(), [0; 4_096]);
    // The first check is shown once the service has been looked at.
    while !String::from_utf8_lossy(&seen).contains("inflight-finishes") {
        let count = screen.read(&mut piece).expect("something is shown");
        assert!(count > 0, "{}", String::from_utf8_lossy(&seen));
        seen.extend(&piece[..count]);
    }
    let keyboard = terminal.stdin.as_mut().expect("a keyboard");
    keyboard.write_all(b"\x03").expect("a key");
    keyboard.flush().expect("a key");
    let mut rest = Vec::new();
    // A terminal whose program is gone says so with an error.
    let _ = screen.read_to_end(&mut rest);
    let rest = String::from_utf8_lossy(&rest);
    let status = terminal.wait().expect("it ends");
    assert_eq!(status.code(), Some(130), "{rest}");
    assert!(
        rest.contains("everything that was started is ended"),
        "{rest}"
    );
    assert!(!directory.path().join("adieu-demo.html").exists());
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let left = processes.filter(|process| {
        let environ = fs::read(process.path().join("environ")).unwrap_or_default();
        let mut pairs = environ.split(|byte| *byte == 0);
        pairs.any(|pair| pair == mark.as_bytes())
    });
    assert_eq!(left.count(), 0);
}

/// Every number as `#`: the rest of what is printed is the same in each run.
#[cfg(target_os = "linux")]
fn without_numbers(text: &str) -> Vec<String> {
    let line = |line: &str| {
        let mut shown = String::new();
        for character in line.chars() {
            match character {
                '0'..='9' | '.' if shown.ends_with('#') => {}
                '0'..='9' => shown.push('#'),
                // A number of one digit is indented.
                ' ' if shown.ends_with(' ') => {}
                other => shown.push(other),
            }
        }
        shown
    };
    text.lines().map(line).collect()
}

/// What the guide shows is what is printed.
#[cfg(target_os = "linux")]
#[test]
fn a_counter_goes_on_through_every_deploy() {
    let directory = TempDir::new().expect("a directory");
    let output = demo(directory.path(), &["--deploys", "3"]);
    let out = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{out}\n{}", err(&output));
    let printed = without_numbers(&out);
    assert_eq!(printed.len(), 4, "{out}");
    assert!(
        out.contains("0 closed; ") && out.contains(" 0 lost, 0 twice"),
        "{out}"
    );
    let guide = include_str!("../../../docs/handoff.md");
    let (_, shown) = guide
        .split_once("$ adieu demo --deploys 20\n")
        .expect("the guide shows it");
    let (shown, _) = shown.split_once("```").expect("an end");
    let shown = without_numbers(shown);
    assert_eq!(shown.first(), printed.first());
    assert_eq!(shown.last(), printed.last());
    let page = fs::read_to_string(directory.path().join("adieu-demo.html")).expect("the page");
    assert!(
        adieu_drill::render::is_report(&page),
        "the next demo may replace it"
    );
    assert_eq!(page.matches("class=\"deploy\"").count(), 3);
    assert_eq!(page.matches("<tr><td>").count(), 3);
    // Five messages of each of the four processes on each of the three connections.
    assert!(page.matches("from process").count() >= 60, "{page}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_number_of_deploys_has_bounds() {
    let directory = TempDir::new().expect("a directory");
    for number in ["0", "1001", "many"] {
        let output = demo(directory.path(), &["--deploys", number]);
        assert_eq!(output.status.code(), Some(2));
        assert!(err(&output).contains("--deploys"), "{}", err(&output));
    }
}
