//! `adieu demo`, the real program with the real service.
#![cfg(unix)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

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
fn the_flagship_passes_and_the_page_is_written() {
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
        "PASSED the flagship service",
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
        page.contains("What flagship says of its stop"),
        "its own report is laid over"
    );
    assert!(
        !page.contains(env!("CARGO_BIN_EXE_adieu")),
        "no path of this machine"
    );
}

#[test]
fn a_file_of_somebody_else_is_left_alone() {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("adieu-demo.html");
    fs::write(&path, "my thesis").expect("written");
    let output = demo(directory.path(), &[]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        err(&output),
        "error: adieu-demo.html is there and is no drill report, so it is left alone; name another with --html FILE\n"
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
