//! The spellings of ruff, standard input, and the formats of other tools.

use crate::support::{BLOCKS, Test};

const POD: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\nspec:\n  template:\n    spec:\n      \
                   terminationGracePeriodSeconds: 10\n      containers:\n        - name: web\n          image: web\n          \
                   command: [gunicorn, app, --graceful-timeout, '60']\n";

#[test]
fn manifests_come_by_standard_input() {
    let ran = Test::new().given(POD, &["-"]);
    assert_eq!(ran.code(), 1, "{}", ran.err());
    assert!(ran.out().starts_with("-:8:1: ADD501 "), "{}", ran.out());
    let ran = Test::new().given(POD, &["-", "--budget"]);
    assert!(
        ran.out().starts_with("-:10: web: TOO LONG"),
        "{}",
        ran.out()
    );
}

#[test]
fn standard_input_is_called_as_said() {
    let test = Test::new().file("app.py", "import broken (\n");
    let ran = test.given(BLOCKS, &["-", "--stdin-filename", "app.py"]);
    assert_eq!(ran.code(), 1);
    assert!(ran.out().starts_with("app.py:8:5: ADP101"), "{}", ran.out());
    let ran = test.given("x", &["-", "--stdin-filename", "notes.txt"]);
    assert_eq!(ran.code(), 0);
    assert!(
        ran.err()
            .contains("notes.txt: is not a kind of file that is checked"),
        "{}",
        ran.err()
    );
}

#[test]
fn standard_input_goes_with_nothing_that_needs_a_file() {
    for (args, why) in [
        (&["-", "app.py"][..], "checked alone"),
        (&["-", "--fix"], "cannot be repaired"),
        (&["-", "--diff"], "cannot be repaired"),
        (&["--stdin-filename", "app.py"], "give `-` as the path"),
    ] {
        let ran = Test::new().given(BLOCKS, args);
        assert_eq!(ran.code(), 2, "{args:?}");
        assert!(ran.err().contains(why), "{args:?}: {}", ran.err());
    }
}

#[test]
fn what_is_no_text_is_said_of_standard_input() {
    let ran = Test::new().given_bytes(b"\xff\xfe", &["-", "--stdin-filename", "app.py"]);
    assert_eq!(ran.code(), 1);
    assert!(ran.out().starts_with("app.py:1:1: ADX002"), "{}", ran.out());
}

#[test]
fn options_of_ruff_are_understood() {
    let test = Test::new().file("app.py", BLOCKS);
    let long = test.run(&["--output-format", "concise"]);
    assert_eq!(long.out(), test.run(&[]).out());
    let zero = test.run(&["--exit-zero"]);
    assert_eq!((zero.code(), zero.out()), (0, long.out()));
    // A wrong word is still one.
    assert_eq!(test.run(&["--exit-zero", "--select", "XYZ9"]).code(), 2);
    let counts = test.run(&["--statistics"]);
    assert_eq!(counts.code(), 1);
    assert_eq!(
        counts.out(),
        "2  ADP101  blocking-sleep: blocking sleep on the event loop\n"
    );
    let counts = test.run(&["--statistics", "--format", "json"]).json();
    assert_eq!(counts[0]["count"], 2);
}

#[test]
fn extend_select_adds_to_what_is_selected() {
    let test = Test::new().file("app.py", BLOCKS);
    let none = test.run(&["--select", "ADD"]);
    assert_eq!(none.code(), 0);
    let more = test.run(&["--select", "ADD", "--extend-select", "ADP101"]);
    assert_eq!(more.code(), 1);
    let settings = Test::new().file("app.py", BLOCKS).file(
        "adieu.toml",
        "select = [\"ADD\"]\nextend-select = [\"ADP1\"]\n",
    );
    assert_eq!(settings.run(&[]).code(), 1);
    let unknown = test.run(&["--extend-select", "XYZ9"]);
    assert_eq!(unknown.code(), 2);
    assert!(
        unknown.err().contains("`XYZ9` is not a rule"),
        "{}",
        unknown.err()
    );
}

#[test]
fn noqa_with_a_rule_of_ours_is_understood() {
    let blocks = |comment: &str| {
        let text = format!("import time\n\nasync def f():\n    time.sleep(1){comment}\n");
        Test::new().file("app.py", &text).run(&[])
    };
    for comment in [
        "  # noqa: ADP101",
        "  # noqa: E501, ADP101",
        "  # type: ignore # noqa: ADP101",
    ] {
        let ran = blocks(comment);
        assert_eq!((ran.code(), ran.out()), (0, String::new()), "{comment}");
    }
    // Another rule, no rule, and a word that only looks like the comment.
    for comment in ["  # noqa: ADP102", "  # noqa", "  # see noqa: ADP101"] {
        assert_eq!(blocks(comment).code(), 1, "{comment}");
    }
    // One that forgives nothing is a matter of the tool whose word it is.
    let ran = Test::new()
        .file("app.py", "x = 1  # noqa: ADP101\n")
        .run(&[]);
    assert_eq!((ran.code(), ran.out()), (0, String::new()));
}

#[test]
fn junit_has_a_test_for_each_finding() {
    let test = Test::new().file("app.py", BLOCKS);
    insta::assert_snapshot!(test.run(&["--format", "junit"]).out(), @r#"
    <?xml version="1.0" encoding="UTF-8"?>
    <testsuites name="adieu check" tests="2" failures="2">
      <testsuite name="adieu check" tests="2" failures="2" errors="0">
        <testcase name="ADP101" classname="app.py" file="app.py" line="8">
          <failure type="warning" message="`nap` blocks the event loop: it reaches `time.sleep`">line 8, column 5
    app.py:5: time.sleep</failure>
        </testcase>
        <testcase name="ADP101" classname="app.py" file="app.py" line="9">
          <failure type="warning" message="`time.sleep` blocks the event loop; use `await asyncio.sleep(...)`">line 9, column 5</failure>
        </testcase>
      </testsuite>
    </testsuites>
    "#);
    let clean = Test::new()
        .file("app.py", "x = 1\n")
        .run(&["--format", "junit"]);
    assert!(
        clean.out().contains("tests=\"1\" failures=\"0\""),
        "{}",
        clean.out()
    );
}

#[test]
fn gitlab_and_reviewdog_have_their_formats() {
    let test = Test::new().file("app.py", BLOCKS);
    let issues = test.run(&["--format", "gitlab"]).json();
    assert_eq!(issues[0]["check_name"], "ADP101");
    assert_eq!(issues[0]["severity"], "minor");
    assert_eq!(issues[0]["location"]["positions"]["begin"]["line"], 8);
    assert_ne!(issues[0]["fingerprint"], issues[1]["fingerprint"]);
    let report = test.run(&["--format", "rdjson"]).json();
    let first = &report["diagnostics"][0];
    assert_eq!(first["code"]["value"], "ADP101");
    assert_eq!(first["location"]["range"]["start"]["line"], 8);
    assert_eq!(first["related_locations"][0]["message"], "time.sleep");
}

#[test]
fn every_finding_gets_an_ignore_comment_of_its_language() {
    let rust = "pub async fn f() {\n    std::thread::sleep(d());\n}\n";
    let test = Test::new()
        .file("app.py", BLOCKS)
        .file(
            "Cargo.toml",
            "[package]\nname = \"app\"\nversion = \"0.1.0\"\n",
        )
        .file("src/lib.rs", rust)
        .file("Dockerfile", "FROM python\nCMD python app.py\n");
    let shown = test.run(&["--add-noqa", "--diff"]);
    assert_eq!(shown.code(), 1);
    assert_eq!(test.read("src/lib.rs"), rust);
    let ran = test.run(&["--add-noqa"]);
    assert_eq!((ran.code(), ran.out()), (0, String::new()), "{}", ran.err());
    assert!(ran.err().contains("4 findings repaired"), "{}", ran.err());
    let app = test.read("app.py");
    assert!(
        app.contains("    nap()  # noqa: ADP101\n    time.sleep(2)  # noqa: ADP101\n"),
        "{app}"
    );
    assert_eq!(
        test.read("src/lib.rs"),
        rust.replace(
            "d());",
            concat!("d()); //", " adieu: ignore(ADR101) added by --add-noqa")
        )
    );
    assert_eq!(
        test.read("Dockerfile"),
        "FROM python\n# adieu: ignore[ADD101] added by --add-noqa\nCMD python app.py\n"
    );
    // Again there is nothing to do, and what is new is reported.
    assert_eq!(test.run(&["--add-noqa"]).err(), "");
    let test = test.file("new.py", BLOCKS);
    assert_eq!(test.run(&[]).code(), 1);
}

#[test]
fn what_has_no_place_for_a_comment_is_said() {
    let task = "{\n  \"containerDefinitions\": [{\"name\": \"a\", \"command\": [\"app\", \"--grace\", \"60\"]}]\n}\n";
    let test = Test::new().file("task-definition.json", task);
    let ran = test.run(&["--add-noqa"]);
    assert_eq!(ran.code(), 1);
    assert!(
        ran.err()
            .contains("task-definition.json: has no place for an ignore comment"),
        "{}",
        ran.err()
    );
    assert_eq!(test.read("task-definition.json"), task);
    assert_eq!(Test::new().given(BLOCKS, &["-", "--add-noqa"]).code(), 2);
}

#[test]
fn new_rules_run_with_preview() {
    let text = "async def rows(pool):\n    async with pool.get() as it:\n        yield it\n";
    let test = Test::new().file("app.py", text);
    assert_eq!(test.run(&["--show", "notes"]).code(), 0);
    let ran = test.run(&["--show", "notes", "--preview"]);
    assert_eq!(ran.code(), 1);
    assert!(ran.out().contains("ADP404"), "{}", ran.out());
    assert_eq!(
        test.run(&["--show", "notes", "--select", "ADP404"]).code(),
        1
    );
    let settings = Test::new()
        .file("app.py", text)
        .file("adieu.toml", "preview = true\n");
    assert_eq!(settings.run(&["--show", "notes"]).code(), 1);
}
