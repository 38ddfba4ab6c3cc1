//! `--compare`: two reports, and which way each check went.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::support::{HELLO, Test, URL};

/// Drills a program that ends with this code, and leaves the report in a file.
fn report(test: &Test, code: i32, name: &str) {
    let program = HELLO.replace("sys.exit(0)", &format!("sys.exit({code})"));
    fs::write(test.path().join("program.py"), program).expect("a file");
    let words = ["--http", URL, "--check", "exit-code,port-free", "--json"];
    let command = ["--seed", "1", "--", "python3", "program.py", "{port}"];
    let ran = test.run(&[&words[..], &command].concat());
    fs::write(test.path().join(name), ran.out()).expect("a file");
}

#[test]
fn which_way_it_went() {
    let test = Test::new();
    report(&test, 0, "good.json");
    report(&test, 9, "bad.json");

    let worse = test.run(&["--compare", "good.json", "bad.json"]);
    assert_eq!(worse.code(), Some(1), "{}", worse.err());
    for words in [
        "✗ worse   exit-code: passed before, failed after",
        "exit code 9, stopped while idle by SIGTERM",
        "= 1 still passed",
        "WORSE: what passed fails now",
    ] {
        assert!(worse.out().contains(words), "{}", worse.out());
    }

    let better = test.run(&["--compare", "bad.json", "good.json"]);
    assert_eq!(better.code(), Some(0), "{}", better.err());
    assert!(
        better.out().contains("✓ better  exit-code"),
        "{}",
        better.out()
    );

    let json = test.run(&["--compare", "good.json", "bad.json", "--json"]);
    assert_eq!(json.code(), Some(1));
    let json: Value = serde_json::from_str(&json.out()).expect("one object");
    assert_eq!(
        (&json["version"], &json["worse"]),
        (&1.into(), &true.into())
    );
    assert_eq!(json["checks"][0]["direction"], "worse");
}

#[test]
fn targets_of_a_file_are_compared_by_name() {
    let target = |name: &str, program: &str| {
        format!(
            "[[target]]\nname = \"{name}\"\ncommand = [\"python3\", \"{program}\", \"{{port}}\"]\n\
             http = \"{URL}\"\ncheck = [\"exit-code\"]\n"
        )
    };
    let test = Test::new()
        .file("nine.py", &HELLO.replace("sys.exit(0)", "sys.exit(9)"))
        .file(
            "one.toml",
            &(target("api", "hello.py") + &target("old", "hello.py")),
        )
        .file(
            "two.toml",
            &(target("new", "hello.py") + &target("api", "nine.py")),
        );
    for name in ["one", "two"] {
        let ran = test.run(&["--file", &format!("{name}.toml"), "--json"]);
        fs::write(test.path().join(format!("{name}.json")), ran.out()).expect("a file");
    }
    let ran = test.run(&["--compare", "one.json", "two.json"]);
    assert_eq!(ran.code(), Some(1), "{}", ran.err());
    for words in [
        "api\n",
        "✗ worse   exit-code",
        "new: only after",
        "old: only before",
    ] {
        assert!(ran.out().contains(words), "{}", ran.out());
    }
    let json = test.run(&["--compare", "one.json", "two.json", "--json"]);
    let json: Value = serde_json::from_str(&json.out()).expect("one object");
    assert_eq!(json["worse"], true);
    assert_eq!(
        json["targets"][0]["comparison"]["checks"][0]["direction"],
        "worse"
    );
}

/// What does not even start fails everything that passed.
#[test]
fn a_target_that_no_longer_starts_is_worse() {
    let target = |name: &str, program: &str| {
        format!(
            "[[target]]\nname = \"{name}\"\ncommand = [\"python3\", \"{program}\", \"{{port}}\"]\n\
             http = \"{URL}\"\ncheck = [\"exit-code\"]\n"
        )
    };
    let test = Test::new().file("broken.py", "import sys; sys.exit(7)");
    for (name, second) in [("before", "hello.py"), ("after", "broken.py")] {
        let targets = target("api", "hello.py") + &target("jobs", second);
        fs::write(test.path().join("drill.toml"), targets).expect("a file");
        let ran = test.run(&["--file", "drill.toml", "--json"]);
        fs::write(test.path().join(format!("{name}.json")), ran.out()).expect("a file");
    }
    let worse = test.run(&["--compare", "before.json", "after.json"]);
    assert_eq!(worse.code(), Some(1), "{}", worse.out());
    for words in ["jobs\n", "cannot be drilled after", "exit code 7"] {
        assert!(worse.out().contains(words), "{}", worse.out());
    }
    assert!(!worse.out().contains("only before"), "{}", worse.out());
    let json = test.run(&["--compare", "before.json", "after.json", "--json"]);
    let json: Value = serde_json::from_str(&json.out()).expect("one object");
    assert_eq!(
        (&json["worse"], &json["broken"][0]["name"]),
        (&true.into(), &"jobs".into())
    );
    let better = test.run(&["--compare", "after.json", "before.json"]);
    assert_eq!(better.code(), Some(0), "{}", better.out());
}

/// A target that has no name of its own is called the same whether it starts or not.
#[test]
fn a_single_program_that_no_longer_starts_is_worse() {
    let test = Test::new();
    let program = test.path().join("server");
    for (name, script) in [("before", "exec python3 hello.py $1"), ("after", "exit 7")] {
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).expect("a file");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("ours");
        let words = ["--http", URL, "--check", "exit-code", "--json"];
        let ran = test.run(&[&words[..], &["--", "./server", "{port}"]].concat());
        fs::write(test.path().join(format!("{name}.json")), ran.out()).expect("a file");
    }
    let worse = test.run(&["--compare", "before.json", "after.json"]);
    assert_eq!(worse.code(), Some(1), "{}", worse.out());
    for words in ["server\n", "cannot be drilled after", "exit code 7"] {
        assert!(worse.out().contains(words), "{}", worse.out());
    }
    assert!(!worse.out().contains("only before"), "{}", worse.out());
}

#[test]
fn what_is_no_report_is_two() {
    let test = Test::new()
        .file("html.json", "<!DOCTYPE html>")
        .file("later.json", "{\"version\": 2, \"verdict\": \"passed\"}");
    for (before, words) in [
        ("nowhere.json", "error: nowhere.json: No such file"),
        ("html.json", "error: html.json: not a drill report"),
        (
            "later.json",
            "error: later.json: a drill report of version 2",
        ),
    ] {
        // Both are read, so that both are named at once.
        let ran = test.run(&["--compare", before, "html.json"]);
        ran.refuses(2, &[words, "error: html.json: not a drill report"]);
    }
    test.run(&["--compare", "one.json"])
        .refuses(2, &["--compare"]);
}
