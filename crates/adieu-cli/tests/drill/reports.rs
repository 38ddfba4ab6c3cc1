//! What it prints and writes.

use std::fs;

use boon::{Compiler, Schemas};
use serde_json::Value;

use crate::support::{HELLO, Test, URL};

#[test]
fn a_program_that_stops_well_passes_and_json_is_all_there_is() {
    let test = Test::new();
    let words = [
        "--http",
        URL,
        "--check",
        "exit-code,port-free,keepalive-race",
        "--json",
        "--seed",
        "7",
        "--clients",
        "2",
    ];
    let ran = test.run(
        &[
            &words[..],
            &[
                "--threshold",
                "keepalive-race=1000",
                "--",
                "python3",
                "hello.py",
                "{port}",
            ],
        ]
        .concat(),
    );
    assert_eq!(ran.code(), Some(0), "{} {}", ran.out(), ran.err());
    let report: Value = serde_json::from_str(&ran.out()).expect("one object");
    assert_eq!(report["version"], 1);
    assert_eq!(report["verdict"], "passed");
    assert_eq!(report["seed"], 7);
    let checks = report["checks"].as_array().expect("checks");
    let ids: Vec<_> = checks
        .iter()
        .map(|check| check["id"].as_str().unwrap_or(""))
        .collect();
    assert_eq!(ids, ["keepalive-race", "exit-code", "port-free"]);
    for check in checks {
        assert!(
            check["reason"].is_string() && check["evidence"].is_array(),
            "{check}"
        );
    }
}

#[test]
fn a_check_that_fails_is_one_and_the_reports_are_written() {
    let test = Test::new().file("wrong.py", &HELLO.replace("sys.exit(0)", "sys.exit(9)"));
    let words = [
        "--tcp",
        "127.0.0.1:{port}",
        "--check",
        "exit-code",
        "--html",
        "a.html",
        "--junit",
        "a.xml",
        "--markdown",
        "a.md",
        "--badge",
        "a.json",
    ];
    let ran = test.run(&[&words[..], &["--", "python3", "wrong.py", "{port}"]].concat());
    assert_eq!(ran.code(), Some(1), "{}", ran.err());
    assert!(
        ran.out()
            .contains("exit code 9, stopped while idle by SIGTERM"),
        "{}",
        ran.out()
    );
    for (name, words) in [
        ("a.html", "exit code 9"),
        ("a.xml", "<failure"),
        ("a.md", "| ❌ failed | exit-code |"),
        ("a.json", "\"message\": \"0/1\""),
    ] {
        let text = fs::read_to_string(test.path().join(name)).expect("a report");
        assert!(text.contains(words), "{name}");
    }
}

/// What is printed is what the command itself says is printed.
#[test]
fn the_schema_is_printed_and_real_reports_fit_it() {
    let test = Test::new();
    let ran = test.run(&["--schema"]);
    assert_eq!(ran.code(), Some(0), "{}", ran.err());
    let schema: Value = serde_json::from_str(&ran.out()).expect("a schema");
    let address = schema["$id"].as_str().expect("an address").to_owned();
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    compiler.add_resource(&address, schema).expect("a resource");
    let index = compiler.compile(&address, &mut schemas).expect("a schema");
    let url = ["--http", URL, "--json", "--check"];
    let hello = ["--", "python3", "hello.py", "{port}"];
    for words in [
        [&url[..], &["exit-code,keepalive-race"], &hello].concat(),
        // Interrupted by nothing, and no report all the same.
        vec!["--http", URL, "--json", "--", "no-such-program", "{port}"],
    ] {
        let ran = test.run(&words);
        let report: Value = serde_json::from_str(&ran.out()).expect("one object");
        let held = schemas.validate(&report, index);
        assert!(
            held.is_ok(),
            "{}",
            held.err().map_or_else(String::new, |it| it.to_string())
        );
    }
}

#[test]
fn a_file_holds_several_targets() {
    let test = Test::new().file(
        "drill.toml",
        "[defaults]\ncheck = [\"exit-code\"]\n\
         [[target]]\nname = \"one\"\ncommand = [\"python3\", \"hello.py\", \"{port}\"]\nhttp = \"http://127.0.0.1:{port}/\"\n\
         [[target]]\nname = \"two\"\ncommand = [\"sh\", \"-c\", \"exec python3 hello.py $PORT\"]\ntcp = \"127.0.0.1:{port}\"\n\
         env = { PORT = \"{port}\" }\n",
    );
    let ran = test.run(&["--file", "drill.toml", "--json"]);
    assert_eq!(ran.code(), Some(0), "{}", ran.err());
    let all: Value = serde_json::from_str(&ran.out()).expect("one object");
    assert_eq!(
        (&all["version"], &all["verdict"]),
        (&Value::from(1), &Value::from("passed"))
    );
    assert_eq!(all["reports"][1]["target"]["name"], "two");
    assert_eq!(all["checks"].as_array().map(Vec::len), Some(2));
    test.run(&["--file", "drill.toml", "--target", "three"])
        .refuses(2, &["no target is named `three`"]);
}

/// A build server knows one name, and so it finds one file, which another user can read.
#[test]
fn several_targets_share_one_file_of_each_kind() {
    use std::os::unix::fs::PermissionsExt as _;

    let two = "[defaults]\nhttp = \"http://127.0.0.1:{port}/\"\ncheck = [\"port-free\"]\n\
               command = [\"python3\", \"hello.py\", \"{port}\"]\n\
               [[target]]\nname = \"one\"\n[[target]]\nname = \"two\"\n";
    let test = Test::new().file("two.toml", two);
    let ran = test.run(&["--file", "two.toml", "--junit", "j.xml", "--html", "d.html"]);
    assert_eq!(ran.code(), Some(0), "{}", ran.err());
    let mode = |name: &str| {
        let found = fs::metadata(test.path().join(name)).expect("there");
        found.permissions().mode() & 0o777
    };
    for name in ["j.xml", "d.html"] {
        assert!(ran.err().contains(name), "{}", ran.err());
        assert_eq!(mode(name), mode("two.toml"), "{name}");
        let text = fs::read_to_string(test.path().join(name)).expect("a report");
        assert!(text.contains("one") && text.contains("two"), "{name}");
    }
    let xml = fs::read_to_string(test.path().join("j.xml")).expect("a report");
    assert_eq!(xml.matches("<testsuite ").count(), 2, "{xml}");
}

/// Nearly all of an object are its requests, which few readers want.
#[test]
fn a_slim_object_has_the_stops_and_not_their_requests() {
    let test = Test::new();
    let words = [
        "--http",
        URL,
        "--check",
        "fresh-connections",
        "--quick",
        "--json",
    ];
    let loss = ["--threshold", "fresh-connections=100000", "--slim"];
    let ran = test.run(&[&words[..], &loss, &["--", "python3", "hello.py", "{port}"]].concat());
    let report: Value = serde_json::from_str(&ran.out()).expect("one object");
    let stop = &report["stops"][0];
    assert!(
        !stop["marks"].as_array().expect("marks").is_empty(),
        "{stop}"
    );
    assert_eq!(stop["requests"], Value::Array(Vec::new()));
    assert!(stop["omitted"].as_u64().is_some_and(|it| it > 0), "{stop}");
}

/// A log shows where the time goes, and GitHub what failed.
#[test]
fn without_a_terminal_each_check_is_a_line_and_github_is_told() {
    let test = Test::new().file("wrong.py", &HELLO.replace("sys.exit(0)", "sys.exit(9)"));
    let words = ["--http", URL, "--check", "port-free,exit-code", "--json"];
    let ran = test
        .command(&[&words[..], &["--", "python3", "wrong.py", "{port}"]].concat())
        .env("GITHUB_ACTIONS", "true")
        .env("GITHUB_STEP_SUMMARY", test.path().join("summary.md"))
        .output()
        .expect("the command runs");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(said.contains("port-free passed in "), "{said}");
    assert!(
        said.contains("::error title=python3%3A exit-code::exit code 9"),
        "{said}"
    );
    let summary = fs::read_to_string(test.path().join("summary.md")).expect("a summary");
    assert!(
        summary.contains("| ❌ failed | exit-code | exit code 9"),
        "{summary}"
    );
    serde_json::from_slice::<Value>(&ran.stdout).expect("one object and nothing else");
}

#[test]
fn checks_are_listed_and_explained() {
    let test = Test::new();
    let list = test.run(&["--list"]);
    assert_eq!(list.code(), Some(0));
    assert!(
        list.out().contains("  keepalive-race       quick  "),
        "{}",
        list.out()
    );
    let page = test.run(&["--explain", "h2-goaway"]);
    for part in [
        "# h2-goaway",
        "## What is done",
        "## When it applies",
        "--threshold h2-goaway=VALUE",
        "**Go**",
    ] {
        assert!(page.out().contains(part), "{}", page.out());
    }
    test.run(&["--explain", "h2-gone"])
        .refuses(2, &["is not a check"]);
}

/// A target that cannot be drilled does not take the reports of those before it along.
#[test]
fn what_was_held_before_a_target_that_cannot_be_is_told() {
    let two = "[defaults]\nhttp = \"http://127.0.0.1:{port}/\"\ncheck = [\"port-free\"]\n\
               [[target]]\nname = \"good\"\ncommand = [\"python3\", \"hello.py\", \"{port}\"]\n\
               [[target]]\nname = \"gone\"\ncommand = [\"no-such-program\", \"{port}\"]\n";
    let ran = Test::new()
        .file("two.toml", two)
        .run(&["--file", "two.toml", "--json"]);
    assert_eq!(ran.code(), Some(4), "{}", ran.err());
    assert!(ran.err().contains("target gone: "), "{}", ran.err());
    let report: Value = serde_json::from_str(&ran.out()).expect("one object");
    assert_eq!(report["verdict"], "failed");
    assert_eq!(report["reports"][0]["target"]["name"], "good");
    assert_eq!(report["reports"][0]["verdict"], "passed");
    assert_eq!(report["errors"][0]["target"], "gone");
}

/// Standard output has an object also if nothing could be drilled.
#[test]
fn a_program_that_cannot_be_started_is_told_in_json_too() {
    let words = ["--http", URL, "--json", "--", "no-such-program", "{port}"];
    let ran = Test::new().run(&words);
    assert_eq!(ran.code(), Some(4), "{}", ran.err());
    assert!(ran.err().contains("no such command"), "{}", ran.err());
    let object: Value = serde_json::from_str(&ran.out()).expect("one object");
    assert_eq!(object["version"], 1);
    assert_eq!(object["verdict"], "failed");
    assert_eq!(object["checks"], Value::Array(Vec::new()));
    assert_eq!(object["errors"][0]["target"], "no-such-program");
    let error = object["errors"][0]["error"].to_string();
    assert!(error.contains("no such command"), "{error}");
}

/// A reader that has gone away is not an error, but half a report must not pass for a success.
#[cfg(target_os = "linux")]
#[test]
fn a_report_that_does_not_fit_on_the_disk_is_two() {
    let test = Test::new();
    for words in [
        &["--json"][..],
        &["--threshold", "exit-code=0"], // as text
    ] {
        let full = fs::File::options().write(true).open("/dev/full");
        let checks = ["--http", URL, "--check", "exit-code"];
        let command = ["--", "python3", "hello.py", "{port}"];
        let ran = test
            .command(&[&checks[..], words, &command].concat())
            .stdout(full.expect("a full disk"))
            .output()
            .expect("the command runs");
        let said = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(2), "{said}");
        assert!(said.contains("cannot write to standard output"), "{said}");
    }
}
