//! A project on disk for the length of a test, and its check.

#![allow(dead_code, reason = "each test binary uses its own part of it")]

use std::fs;
use std::path::PathBuf;

use adieu_check::{Budget, Config, Finding, Outcome, Request, Selection, check, report};
use tempfile::TempDir;

/// Files in a directory of their own.
#[must_use]
pub(crate) struct Project {
    folder: TempDir,
    config: Config,
    selection: Selection,
}

impl Project {
    /// An empty project.
    pub(crate) fn new() -> Project {
        Project {
            folder: TempDir::new().expect("a temporary directory"),
            config: Config::default(),
            selection: Selection::default(),
        }
    }

    /// A project with one Python file.
    pub(crate) fn python(text: &str) -> Project {
        Project::new().file("app.py", text)
    }

    /// A project with one Rust package that depends on tokio.
    pub(crate) fn rust(text: &str) -> Project {
        Project::new()
            .file(
                "Cargo.toml",
                "[package]\nname = \"app\"\nversion = \"0.1.0\"\n",
            )
            .file("src/lib.rs", text)
    }

    /// Adds a file.
    pub(crate) fn file(self, name: &str, text: &str) -> Project {
        self.bytes(name, text.as_bytes())
    }

    /// Adds a file of any bytes.
    pub(crate) fn bytes(self, name: &str, bytes: &[u8]) -> Project {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, bytes).expect("a file");
        self
    }

    /// Changes the settings.
    pub(crate) fn config(mut self, config: Config) -> Project {
        self.config = config;
        self
    }

    /// Has new rules run as well.
    pub(crate) fn preview(mut self) -> Project {
        self.selection = Selection::new(&[], &[], true).0;
        self
    }

    /// Where it is.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// Runs the check.
    pub(crate) fn outcome(&self) -> Outcome {
        let request = Request {
            paths: vec![self.path()],
            config: self.config.clone(),
            selection: self.selection.clone(),
            ..Request::default()
        };
        check(&request, &|_, _| {})
    }

    /// The worst-case shutdown times, and what is wrong with them.
    pub(crate) fn budgeted(&self) -> Outcome {
        let request = Request {
            paths: vec![self.path()],
            config: self.config.clone(),
            budget: true,
            ..Request::default()
        };
        check(&request, &|_, _| {})
    }

    /// The worst-case shutdown times as people read them, with paths below the project.
    pub(crate) fn budgets(&self) -> String {
        let mut out = Vec::new();
        report::budgets(&self.budgeted(), &mut out).expect("a report");
        let text = String::from_utf8(out).expect("text");
        text.replace(&format!("{}/", self.path().display()), "")
    }

    /// The codes of what is wrong with them.
    pub(crate) fn budget_codes(&self) -> Vec<&'static str> {
        let findings = self.budgeted().findings;
        findings
            .iter()
            .map(|finding| finding.code.as_str())
            .collect()
    }

    /// The only budget of the project.
    pub(crate) fn budget(&self) -> Budget {
        let mut budgets = self.budgeted().budgets;
        assert_eq!(budgets.len(), 1, "{budgets:?}");
        budgets.remove(0)
    }

    /// The findings as people read them, with paths below the project and without their severity.
    pub(crate) fn text(&self) -> String {
        let mut out = Vec::new();
        report::write(&self.outcome(), report::Format::Text, &mut out).expect("a report");
        let text = String::from_utf8(out).expect("text");
        text.replace(&format!("{}/", self.path().display()), "")
            .replace(" warning: ", " ")
            .replace(" note: ", " ")
    }

    /// Where each finding stands, its rule and how much it matters: `app.py:3 ADP101 error`.
    pub(crate) fn severities(&self) -> Vec<String> {
        let root = format!("{}/", self.path().display());
        let told = |finding: &Finding| {
            let path = finding.path.strip_prefix(&*root).unwrap_or(&finding.path);
            let (line, code) = (finding.place.line, finding.code);
            format!("{path}:{line} {code} {}", finding.severity)
        };
        self.outcome().findings.iter().map(told).collect()
    }

    /// Where each finding stands, and its rule: `app.py:3 ADP101`.
    pub(crate) fn told(&self) -> Vec<String> {
        let root = format!("{}/", self.path().display());
        let told = |finding: &Finding| {
            let path = finding.path.strip_prefix(&*root).unwrap_or(&finding.path);
            format!("{path}:{} {}", finding.place.line, finding.code.as_str())
        };
        self.outcome().findings.iter().map(told).collect()
    }

    /// The codes found, in order, each once.
    pub(crate) fn codes(&self) -> Vec<&'static str> {
        let mut codes: Vec<&'static str> = self
            .outcome()
            .findings
            .iter()
            .map(|f: &Finding| f.code.as_str())
            .collect();
        codes.sort_unstable();
        codes.dedup();
        codes
    }
}
