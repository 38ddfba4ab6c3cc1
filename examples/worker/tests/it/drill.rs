//! The whole drill: every check that applies to a program without an address.

use adieu_drill::report::{Level, Outcome, Verdict};
use adieu_drill::{Drill, Ready};

#[tokio::test]
async fn every_check_that_applies_passes() {
    let proving = std::env::var_os("ADIEU_PROVE").is_some();
    let level = if proving { Level::Full } else { Level::Default };
    let worker = env!("CARGO_BIN_EXE_example-worker");
    let report = Drill::command([worker, "--state", "{dir}", "--batch-ms", "5"])
        .ready(Ready::Line("resumed".to_owned()))
        .state_file("{dir}/importer.json")
        .ledger(r#"sed -n 's/.*"last_id":\([0-9]*\).*/\1/p' {dir}/importer.json | xargs seq"#)
        .level(level)
        .run()
        .await
        .expect("it can be drilled");
    assert_eq!(report.verdict, Verdict::Passed, "{report:#?}");
    let passed = |id: &str| {
        let check = report.checks.iter().find(|check| check.id == id);
        check.is_some_and(|check| check.outcome == Outcome::Passed)
    };
    for id in [
        "term-at-start",
        "term-twice",
        "signal-storm",
        "group-signal",
        "exit-code",
        "exit-in-time",
        "no-orphans",
        "under-shell",
        "state-intact",
        "resume",
    ] {
        assert!(passed(id), "{id}: {report:#?}");
    }
}
