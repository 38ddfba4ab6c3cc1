//! `adieu check` as it is run: the real binary on real files.

mod budget;
mod hostile;
mod links;
mod lsp;
mod repairs;
mod spellings;
mod support;

use std::fs;
use std::path::Path;
use std::process::Command;

use support::{BLOCKS, Ran, Test};

#[test]
fn the_project_itself_and_its_examples_are_clean() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new(env!("CARGO_BIN_EXE_adieu"))
        .args(["check", "crates", "examples"])
        .current_dir(root)
        .output()
        .expect("the command runs");
    let ran = Ran(output);
    assert_eq!((ran.code(), ran.out()), (0, String::new()));
}

#[test]
fn clean_is_zero_and_silent() {
    let ran = Test::new().file("app.py", "x = 1\n").run(&[]);
    assert_eq!(
        (ran.code(), ran.out(), ran.err()),
        (0, String::new(), String::new())
    );
}

#[test]
fn findings_are_one_and_readable() {
    let ran = Test::new().file("app.py", BLOCKS).run(&[]);
    assert_eq!(ran.code(), 1);
    insta::assert_snapshot!(ran.out(), @r"
    app.py:8:5: ADP101 warning: `nap` blocks the event loop: it reaches `time.sleep`
      app.py:5:5: time.sleep
    app.py:9:5: ADP101 warning: `time.sleep` blocks the event loop; use `await asyncio.sleep(...)`
    ");
    insta::assert_snapshot!(ran.err(), @"note: 2 warnings in 1 file, 1 repairable with --fix --unsafe-fixes");
}

#[test]
fn json_has_its_contract() {
    let ran = Test::new()
        .file("app.py", BLOCKS)
        .run(&["--format", "json"]);
    assert_eq!(ran.code(), 1);
    insta::assert_snapshot!(ran.out());
    let report = ran.json();
    assert_eq!(report["version"], 1);
    assert_eq!(report["findings"][0]["line"], 8);
    assert_eq!(report["findings"][0]["trace"][1]["call"], "time.sleep");
    assert_eq!(report["findings"][1]["trace"], serde_json::json!([]));
}

#[test]
fn sarif_carries_rules_and_the_way_down() {
    let ran = Test::new()
        .file("app.py", BLOCKS)
        .run(&["--format", "sarif"]);
    let log = ran.json();
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    let result = &run["results"][0];
    let index = result["ruleIndex"].as_u64().expect("an index") as usize;
    assert_eq!(
        run["tool"]["driver"]["rules"][index]["id"],
        result["ruleId"]
    );
    assert_eq!(
        result["codeFlows"][0]["threadFlows"][0]["locations"]
            .as_array()
            .map(Vec::len),
        Some(2)
    );
}

const ONE_QUESTION: &str = "import os\n\nasync def f(path):\n    return os.stat(path)\n";

#[test]
fn notes_are_shown_and_counted_on_demand_only() {
    let test = Test::new().file("app.py", ONE_QUESTION);
    let ran = test.run(&[]);
    assert_eq!((ran.code(), ran.out()), (0, String::new()));
    insta::assert_snapshot!(ran.err(), @"note: 1 finding of less weight not shown; `--show notes` shows all");
    let ran = test.run(&["--show", "notes"]);
    assert_eq!(ran.code(), 1);
    assert!(
        ran.out().starts_with("app.py:4:12: ADP105 note: "),
        "{}",
        ran.out()
    );
}

#[test]
fn errors_alone_can_be_asked_for() {
    let test = Test::new().file("app.py", BLOCKS);
    assert_eq!(test.run(&["--show", "errors"]).code(), 0);
    let served = format!("import fastapi\n{BLOCKS}");
    let test = Test::new().file("app.py", &served);
    let ran = test.run(&["--show", "errors"]);
    assert_eq!(ran.code(), 1);
    assert!(
        ran.out().starts_with("app.py:9:5: ADP101 `nap`"),
        "{}",
        ran.out()
    );
}

#[test]
fn every_format_carries_the_severity() {
    let test = Test::new().file("app.py", ONE_QUESTION);
    let shown = |format| test.run(&["--show", "notes", "--format", format]);
    let sarif = &shown("sarif").json()["runs"][0]["results"][0];
    assert_eq!(sarif["level"], "note");
    let fingerprint = &shown("json").json()["findings"][0]["fingerprint"];
    assert_eq!(&sarif["partialFingerprints"]["adieu/v1"], fingerprint);
    assert_eq!(shown("json").json()["findings"][0]["severity"], "note");
    assert!(
        shown("github")
            .out()
            .starts_with("::notice file=app.py,line=4")
    );
}

#[test]
fn github_annotations_are_escaped() {
    let ran = Test::new()
        .file("a,b.py", BLOCKS)
        .run(&["--format", "github"]);
    insta::assert_snapshot!(ran.out());
}

#[test]
fn rules_are_selected_and_ignored() {
    let test = Test::new().file("app.py", BLOCKS);
    assert_eq!(test.run(&["--select", "ADP2,ADR"]).code(), 0);
    assert_eq!(test.run(&["--ignore", "blocking-sleep"]).code(), 0);
    assert_eq!(test.run(&["--select", "ADP101"]).code(), 1);
}

#[test]
fn an_unknown_rule_is_named_and_the_rest_is_checked() {
    let ran = Test::new()
        .file("app.py", BLOCKS)
        .run(&["--select", "ADP101,ADP999"]);
    assert_eq!(ran.code(), 2);
    assert!(ran.out().contains("app.py:9:5: ADP101"));
    insta::assert_snapshot!(ran.err().lines().next().unwrap_or(""), @"error: `ADP999` is not a rule; the other rules are checked");
}

#[test]
fn a_missing_path_is_named_and_the_rest_is_checked() {
    let ran = Test::new()
        .file("app.py", BLOCKS)
        .run(&["app.py", "nowhere"]);
    assert_eq!(ran.code(), 2);
    assert!(ran.out().contains("app.py:9:5: ADP101"));
    assert!(
        ran.err()
            .contains("error: nowhere: no such file or directory"),
        "{}",
        ran.err()
    );
}

#[test]
fn wrong_usage_is_two() {
    assert_eq!(Test::new().run(&["--format", "xml"]).code(), 2);
    assert_eq!(Test::new().run(&["--select", "NOPE"]).code(), 2);
    assert_eq!(
        Test::new()
            .file("adieu.toml", "colour = 1\n")
            .run(&[])
            .code(),
        2
    );
    assert_eq!(Test::new().run(&["--explain", "NOPE"]).code(), 2);
}

#[test]
fn explain_prints_the_page() {
    let ran = Test::new().run(&["--explain", "adp101"]);
    assert_eq!(ran.code(), 0);
    for part in [
        "# ADP101 blocking-sleep",
        "## Why",
        "## Bad",
        "## Good",
        "## Blind spots",
    ] {
        assert!(ran.out().contains(part), "{part}");
    }
}

#[test]
fn settings_come_from_either_file() {
    for (name, text) in [
        ("adieu.toml", "ignore = [\"ADP101\"]\n"),
        (
            "pyproject.toml",
            "[project]\nname = \"x\"\n[tool.adieu]\nignore = [\"ADP101\"]\n",
        ),
        ("adieu.toml", "exclude = [\"app.py\"]\n"),
        (
            "adieu.toml",
            "[per-file-ignores]\n\"app.py\" = [\"ADP1\"]\n",
        ),
    ] {
        let ran = Test::new().file("app.py", BLOCKS).file(name, text).run(&[]);
        assert_eq!(ran.code(), 0, "{text}: {}", ran.out());
    }
    let tests = Test::new().file("tests/test_app.py", BLOCKS);
    assert_eq!(tests.run(&[]).code(), 0);
    let tests = tests.file("adieu.toml", "tests = true\n");
    assert_eq!(tests.run(&[]).code(), 1);
}

#[test]
fn gitignore_is_respected() {
    let test = Test::new()
        .file("app.py", BLOCKS)
        .file(".gitignore", "app.py\n")
        .file("ok.py", "x = 1\n");
    assert_eq!(test.run(&[]).code(), 0);
    assert_eq!(
        test.run(&["app.py"]).code(),
        1,
        "a file that is named is checked"
    );
}

#[test]
fn a_baseline_keeps_the_old_quiet_and_the_new_loud() {
    let test = Test::new().file("app.py", BLOCKS);
    assert_eq!(test.run(&["--write-baseline"]).code(), 0);
    let with = ["--baseline", "adieu-baseline.json"];
    assert_eq!(test.run(&with).code(), 0);
    let moved = format!("# a line more\n{BLOCKS}");
    let test = test.file("app.py", &moved);
    assert_eq!(test.run(&with).code(), 0, "code may move");
    let test = test.file("app.py", &format!("{moved}    time.sleep(3)\n"));
    let ran = test.run(&with);
    assert_eq!(ran.code(), 1);
    assert_eq!(ran.out().lines().count(), 1);
    let test = test.file("adieu.toml", "baseline = \"adieu-baseline.json\"\n");
    assert_eq!(test.run(&[]).out().lines().count(), 1);
    assert_eq!(test.run(&["--baseline", "nowhere.json"]).code(), 2);
    let test = test.file("adieu-baseline.json", "{");
    let ran = test.run(&with);
    assert_eq!(ran.code(), 2);
    assert!(
        ran.err().contains("this cannot be read as a baseline"),
        "{}",
        ran.err()
    );
}

#[test]
fn settings_and_baseline_hold_wherever_it_is_started() {
    let test = Test::new()
        .file("app.py", BLOCKS)
        .file("gen/out.py", BLOCKS)
        .file("old/app.py", BLOCKS)
        .file("sub/ok.py", "x = 1\n")
        .file(
            "adieu.toml",
            "exclude = [\"/gen/\"]\nbaseline = \"adieu-baseline.json\"\n[per-file-ignores]\n\"old/*\" = [\"ADP1\"]\n",
        );
    let ran = test.run(&["--write-baseline"]);
    assert_eq!(ran.code(), 0);
    assert!(
        ran.err().starts_with("note: 2 findings now known in "),
        "{}",
        ran.err()
    );
    assert_eq!(test.run(&[]).code(), 0);
    let ran = test.run_in("sub", &[".."]);
    assert_eq!((ran.code(), ran.out()), (0, String::new()));
}

#[test]
fn a_file_that_is_no_kind_of_ours_is_said_when_it_is_named() {
    let test = Test::new().file("notes.md", "x\n");
    assert_eq!(test.run(&[]).err(), "");
    let ran = test.run(&["notes.md"]);
    assert_eq!(ran.code(), 0);
    insta::assert_snapshot!(ran.err(), @"note: notes.md: is not a kind of file that is checked");
}

#[test]
fn findings_that_meet_are_summed_up() {
    let many = "import time\n\ndef nap():\n    time.sleep(1)\n\nasync def f():\n    nap()\n    nap()\n    nap()\n";
    let ran = Test::new().file("app.py", many).run(&[]);
    insta::assert_snapshot!(ran.err(), @r"
    note: 1 warning in 1 file
    note: 3 ways end at app.py:4:5: time.sleep
    note: 2 findings of less weight not shown; `--show notes` shows all
    ");
}

#[test]
fn every_rule_is_explained() {
    let ran = Test::new().run(&["--explain", "NOPE"]);
    let codes: Vec<String> = ran
        .err()
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| word.len() == 6 && word.starts_with("AD"))
        .map(str::to_owned)
        .collect();
    assert!(codes.len() > 50, "{codes:?}");
    // Each is a run of the program: one of each family stands for the rest, whose pages are
    // tested where they are kept.
    for code in ["ADD501", "ADP604", "ADR503", "ADX103"] {
        assert!(codes.iter().any(|known| known == code));
        let page = Test::new().run(&["--explain", code]);
        assert!(page.out().starts_with(&format!("# {code} ")), "{code}");
    }
}

#[cfg(unix)]
#[test]
fn an_unreadable_file_and_a_template_are_said() {
    use std::os::unix::fs::PermissionsExt;
    let test = Test::new()
        .file("app.py", BLOCKS)
        .file("secret.py", "x = 1\n")
        .file(
            "chart/templates/web.yaml",
            "apiVersion: apps/v1\nkind: Deployment\nspec: {{ .Values.spec }}\n",
        );
    let secret = test.path().join("secret.py");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o000)).expect("permissions");
    let ran = test.run(&[]);
    assert!(
        ran.err()
            .contains("chart: 1 of 1 templates of this chart cannot be rendered here"),
        "{}",
        ran.err()
    );
    assert!(ran.out().contains("app.py:9:5: ADP101"));
    // Root reads everything.
    if fs::read(&secret).is_err() {
        assert!(
            ran.out().contains("secret.py:1:1: ADX002 cannot be read"),
            "{}",
            ran.out()
        );
    }
}
