//! The one word at the end: passed only if something was judged.

use serde_json::Value;

use crate::support::{HELLO, Test, URL};

const COMMAND: &[&str] = &["--", "python3", "hello.py", "{port}"];

#[test]
fn where_every_check_is_skipped_nothing_was_judged() {
    let test = Test::new();
    let words = ["--http", URL, "--check", "state-intact,rolling-restart"];
    let ran = test.run(&[&words[..], COMMAND].concat());
    assert_eq!(ran.code(), Some(3), "{}", ran.err());
    assert!(
        ran.out().contains("NOT JUDGED python3: 2 skipped"),
        "{}",
        ran.out()
    );
    let ran = test.run(&[&words[..], &["--json"], COMMAND].concat());
    assert_eq!(ran.code(), Some(3), "{}", ran.err());
    let report: Value = serde_json::from_str(&ran.out()).expect("one object");
    assert_eq!(report["verdict"], "not-judged");
    let ran = test.run(&[
        "--http",
        URL,
        "--check",
        "state-intact,port-free",
        "--",
        "python3",
        "hello.py",
        "{port}",
    ]);
    assert_eq!(
        ran.code(),
        Some(0),
        "one that passed is enough: {}",
        ran.err()
    );
}

/// A target of several of which nothing is known is not covered by the others.
#[test]
fn a_target_that_was_not_judged_shows_among_several() {
    let two = "[defaults]\nhttp = \"http://127.0.0.1:{port}/\"\ncommand = [\"python3\", \"hello.py\", \"{port}\"]\n\
               [[target]]\nname = \"good\"\ncheck = [\"port-free\"]\n\
               [[target]]\nname = \"unknown\"\ncheck = [\"state-intact\"]\n";
    let test = Test::new().file("two.toml", two);
    let ran = test.run(&["--file", "two.toml", "--json"]);
    assert_eq!(ran.code(), Some(3), "{}", ran.err());
    let all: Value = serde_json::from_str(&ran.out()).expect("one object");
    assert_eq!(all["verdict"], "not-judged");
    assert_eq!(all["reports"][0]["verdict"], "passed");
}

#[test]
fn a_required_check_must_not_be_skipped() {
    let test = Test::new();
    let words = [
        "--http",
        URL,
        "--check",
        "port-free",
        "--require",
        "state-intact,port-free",
        "--json",
    ];
    let ran = test.run(&[&words[..], COMMAND].concat());
    assert_eq!(ran.code(), Some(1), "{}", ran.err());
    let report: Value = serde_json::from_str(&ran.out()).expect("one object");
    let checks = report["checks"].as_array().expect("checks");
    let outcomes: Vec<_> = checks
        .iter()
        .map(|it| (&it["id"], &it["outcome"]))
        .collect();
    let (free, state) = (
        (&"port-free".into(), &"passed".into()),
        (&"state-intact".into(), &"failed".into()),
    );
    assert_eq!(outcomes, [free, state]);
    let said = checks[1]["reason"].to_string();
    assert!(
        said.contains("required, and not judged: no state to look at"),
        "{said}"
    );
    assert!(
        checks[1]["hint"].to_string().contains("--state-file"),
        "{}",
        checks[1]
    );
    test.run(&[&["--http", URL, "--require", "exit-cod"], COMMAND].concat())
        .refuses(2, &["did you mean `exit-code`?"]);
    test.run(
        &[
            &["--http", URL, "--require", "exit-code", "--skip", "exit"],
            COMMAND,
        ]
        .concat(),
    )
    .refuses(2, &["exit-code is required and left out"]);
}

/// What is said of a skipped check fits the way in which the program is spoken to.
#[test]
fn advice_fits_the_kind_of_program() {
    let test = Test::new();
    let tcp = [
        "--tcp",
        "127.0.0.1:{port}",
        "--json",
        "--check",
        "drain,keep-alive,int-twice-forces,hung-handler",
    ];
    let ran = test.run(&[&tcp[..], COMMAND].concat());
    for option in ["--slow", "--upload", "--ws", "--sse", "--stream", "--large"] {
        assert!(
            !ran.out().contains(&format!("{option} ")),
            "{option} in {}",
            ran.out()
        );
    }
    let worker = [
        "--ready-line",
        "listening",
        "--json",
        "--check",
        "drain,int-twice-forces",
        "--",
        "python3",
        "hello.py",
    ];
    let ran = test.run(&[&worker[..], &["{port}"]].concat());
    assert!(!ran.out().contains("--slow"), "{}", ran.out());
    assert!(ran.out().contains("--feed COMMAND"), "{}", ran.out());
}

/// Hints for other frameworks are noise, and so is a count that leaves stops out.
#[test]
fn an_exit_code_is_counted_in_all_stops_and_told_with_hints_that_fit() {
    let test = Test::new().file("wrong.py", &HELLO.replace("sys.exit(0)", "sys.exit(9)"));
    let words = [
        "--http",
        URL,
        "--check",
        "exit-code,idle-keepalive,silent-connection",
        "--json",
    ];
    let ran = test.run(&[&words[..], &["--", "python3", "wrong.py", "{port}"]].concat());
    let report: Value = serde_json::from_str(&ran.out()).expect("one object");
    let checks = report["checks"].as_array().expect("checks");
    let code = checks
        .iter()
        .find(|it| it["id"] == "exit-code")
        .expect("there");
    let evidence = code["evidence"].to_string();
    let (_, counted) = evidence
        .split_once("under load: exit code 9")
        .expect("a loaded stop");
    assert!(
        counted.contains(" stops that were seen ended like this"),
        "{evidence}"
    );
    let (of, all) = evidence
        .split_once(" stops that were seen")
        .expect("a count")
        .0
        .rsplit_once(" of ")
        .expect("a count");
    assert!(of.ends_with(all), "not all of {all}: {evidence}");
    let hint = code["hint"].to_string();
    assert!(
        hint.contains("Python: ") && !hint.contains("Node: ") && !hint.contains("Go: "),
        "{hint}"
    );
}
