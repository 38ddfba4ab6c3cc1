//! Text of strangers on a terminal and in the log of a CI job.

#![cfg(unix)]

use crate::support::{BLOCKS, Test};

/// Names that move a cursor, turn the direction, or start a line with a workflow command.
const NAMES: &[&str] = &[
    "a\u{1b}[2J.py",
    "b\u{9b}31m.py",
    "c\u{202e}yp.py",
    "d\u{2066}.py",
    "e\n::notice::pwned.py",
    "f\r::error::pwned.py",
    "::warning::pwned.py",
    "g\u{7f}/##[group]x.py",
];

fn is_plain(text: &str) {
    for char in text.chars().filter(|char| *char != '\n') {
        assert!(!char.is_control(), "{char:?} in {text:?}");
        let code = u32::from(char);
        let turns = (0x202a..=0x202e).contains(&code) || (0x2066..=0x2069).contains(&code);
        assert!(!turns, "{char:?} in {text:?}");
    }
    for line in text.lines() {
        assert!(!line.trim_start().starts_with("::"), "{line}");
        assert!(!line.contains("##["), "{line}");
    }
}

#[test]
fn names_of_files_are_spelled_out_in_text() {
    let test = NAMES
        .iter()
        .fold(Test::new(), |test, name| test.file(name, BLOCKS));
    let ran = test.run(&[]);
    assert_eq!(ran.code(), 1);
    is_plain(&ran.out());
    is_plain(&ran.err());
    for shown in [
        "a\\u{1b}[2J.py:8:5: ADP101",
        "b\\u{9b}31m.py:9:5: ADP101",
        "e\\n::notice::pwned.py:8:5: ADP101",
        "./::warning::pwned.py:8:5: ADP101",
    ] {
        assert!(ran.out().contains(shown), "{shown}: {}", ran.out());
    }
}

#[test]
fn notes_and_errors_are_spelled_out() {
    let test = Test::new()
        .file("x\n::notice::y/Dockerfile", "FROM {{ base }}\n")
        .file("adieu.toml", "ignore = [\"A\\u001B\\n::notice::pwned\"]\n");
    let ran = test.run(&["--ignore", "b\u{1b}", "no\u{1b}where", "."]);
    is_plain(&ran.err());
    assert!(
        ran.err()
            .contains("x\\n::notice::y/Dockerfile: is a template"),
        "{}",
        ran.err()
    );
    assert!(
        ran.err()
            .contains("`A\\u{1b}\\n::notice::pwned` is not a rule"),
        "{}",
        ran.err()
    );
    let test = Test::new().file("adieu.toml", "\"k\\n::notice::\\u001Bpwned\" = 1\n");
    let ran = test.run(&[]);
    assert_eq!(ran.code(), 2);
    is_plain(&ran.err());
    assert_eq!(ran.err().lines().count(), 1, "{}", ran.err());
    assert!(
        ran.err()
            .contains("adieu.toml: line 1, column 1: unknown field"),
        "{}",
        ran.err()
    );
    let test = Test::new().file("b\u{1b}.json", "{\"version\": \"\\u001b\\n::notice::\"}");
    let ran = test.run(&["--baseline", "b\u{1b}.json"]);
    is_plain(&ran.err());
}

#[test]
fn messages_that_quote_a_file_are_spelled_out() {
    let test = Test::new().file(
        "Dockerfile",
        "FROM python:3.13\nCMD py\u{1b}[2Jthon \u{202e}app.py ##[group]\n",
    );
    let ran = test.run(&[]);
    assert!(ran.out().contains("ADD101"), "{}", ran.out());
    is_plain(&ran.out());
}

#[test]
fn annotations_and_sarif_keep_their_own_escapes() {
    let test = Test::new().file("e\n::notice::pwned,x.py", BLOCKS);
    let ran = test.run(&["--format", "github"]);
    assert!(
        ran.out()
            .lines()
            .all(|line| line.starts_with("::warning file=e%0A%3A%3Anotice%3A%3Apwned%2Cx.py,line=")),
        "{}",
        ran.out()
    );
    let ran = test.run(&["--format", "sarif"]);
    let location = &ran.json()["runs"][0]["results"][0]["locations"][0]["physicalLocation"];
    let uri = location["artifactLocation"]["uri"]
        .as_str()
        .expect("a place");
    assert!(!uri.contains('\n'), "{uri}");
}
