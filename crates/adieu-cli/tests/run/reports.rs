//! The report, for programs that read it in the place of the exit code.

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Wrapper, run};

struct ReportFile(TempDir);

impl ReportFile {
    fn new() -> Self {
        Self(TempDir::new().expect("a directory"))
    }

    fn path(&self) -> String {
        self.0.path().join("report.json").display().to_string()
    }

    fn read(&self) -> Value {
        let text = std::fs::read(self.path()).expect("a report");
        serde_json::from_slice(&text).expect("JSON")
    }
}

/// Whatever it is made of: the command's, a signal's, our own.
#[test]
fn the_exit_code_is_the_one_that_the_process_has() {
    for (command, code, words) in [
        (&["true"][..], 0, "clean"),
        (
            &["sh", "-c", "exit 3"],
            3,
            "the command ended with exit code 3",
        ),
        (
            &["sh", "-c", "kill -9 $$"],
            137,
            "the command was ended by SIGKILL",
        ),
        (&["no-such-command"], 127, "there is no such command"),
    ] {
        let file = ReportFile::new();
        let (found, _, said) = run(&["--grace", "7s", "--report", &file.path()], command);
        assert_eq!(found, code, "{said}");
        let report = file.read();
        assert_eq!(report["exit_code"], code, "{report:#}");
        assert_eq!(report["exit"], words, "{report:#}");
        assert_eq!(report["grace_ms"], 7_000.0, "{report:#}");
        let text = report.to_string();
        assert!(!text.contains("src/run"), "whose source is that? {text}");
    }
}

#[tokio::test]
async fn a_stop_has_the_code_of_the_command() {
    let file = ReportFile::new();
    let options = ["--grace", "9s", "--report", &file.path()];
    let mut wrapper = Wrapper::start(&options, &["sh", "-c", "echo ready; exec sleep 1000"]);
    wrapper.line("ready").await;
    wrapper.signal(Signal::TERM);
    assert_eq!(wrapper.code().await.0, 143);
    let report = file.read();
    assert_eq!(report["exit_code"], 143, "{report:#}");
    assert_eq!(
        report["exit"], "the command was ended by SIGTERM",
        "{report:#}"
    );
    assert_eq!(report["grace_ms"], 9_000.0, "{report:#}");
    assert_eq!(report["cause"], "sigterm", "{report:#}");
}

/// A pipe without a reader does not hold up the exit.
#[tokio::test]
async fn a_report_that_no_process_reads_is_not_waited_for() {
    let folder = TempDir::new().expect("a directory");
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.is_ok_and(|it| it.success()));
    let options = ["--report", pipe.to_str().expect("a path")];
    let (code, said) = Wrapper::start(&options, &["true"]).code().await;
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("the report could not be written"), "{said}");
}

/// What the phases might have taken is part of the grace that was given, whatever the wrapper allows itself.
#[tokio::test]
async fn no_budget_is_longer_than_the_grace() {
    let file = ReportFile::new();
    let options = ["--grace", "2s", "--report", &file.path()];
    let command = [
        "sh",
        "-c",
        "trap '' TERM; echo up; while :; do sleep 0.05; done",
    ];
    let mut wrapper = Wrapper::start(&options, &command);
    wrapper.line("up").await;
    wrapper.signal(Signal::TERM);
    let (code, said) = wrapper.code().await;
    assert_eq!(code, 137, "{said}");
    let report = file.read();
    let phases = report["phases"].as_array().expect("phases");
    assert_eq!(phases.len(), 5, "{report:#}");
    for phase in phases {
        let budget = phase["budget_ms"].as_f64().expect("a time");
        assert!(budget <= 2_000.0, "{phase:#}");
    }
}
