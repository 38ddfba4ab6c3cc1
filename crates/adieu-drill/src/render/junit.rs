//! For build servers: the XML that JUnit began and everyone reads.

use std::time::Duration;

use quick_junit::{NonSuccessKind, Report as Document, TestCase, TestCaseStatus, TestSuite};

use super::words;
use crate::report::{Check, Outcome, Report};

/// Reports as JUnit XML: a suite for each target, a case for each check with its group as the class.
#[must_use]
pub fn junit(reports: &[Report]) -> String {
    let tool = reports.first().map_or("adieu", |report| &report.tool);
    let mut document = Document::new(tool);
    let whole = reports.iter().map(|report| report.duration_ms).sum();
    document.set_time(Duration::from_millis(whole));
    document.add_test_suites(reports.iter().map(suite));
    // Writing to memory; the only error is one of a writer.
    document.to_string().unwrap_or_default()
}

fn suite(report: &Report) -> TestSuite {
    let mut suite = TestSuite::new(format!("adieu drill {}", words::tame(&report.target.name)));
    suite.set_time(Duration::from_millis(report.duration_ms));
    suite.add_property(("seed", report.seed.to_string().as_str()));
    suite.add_property(("level", report.level.name()));
    suite.add_property(("started", report.started.as_str()));
    suite.add_test_cases(report.checks.iter().map(case));
    suite
}

fn case(check: &Check) -> TestCase {
    let status = match check.outcome {
        Outcome::Passed => TestCaseStatus::success(),
        Outcome::Skipped => {
            let mut status = TestCaseStatus::skipped();
            status.set_message(words::tame(&check.reason));
            status
        }
        Outcome::Failed => {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            status.set_message(words::tame(&check.reason));
            status.set_type(check.id.as_str());
            status.set_description(evidence(check));
            status
        }
    };
    let mut case = TestCase::new(words::tame(&check.id), status);
    case.set_classname(format!("drill.{}", check.group));
    case.set_time(Duration::from_millis(check.duration_ms));
    case
}

fn evidence(check: &Check) -> String {
    let mut lines = vec![words::tame(&check.why)];
    if let (Some(measured), Some(threshold)) = (&check.measured, &check.threshold) {
        lines.push(words::tame(&format!(
            "measured {measured}, demanded {threshold}"
        )));
    }
    lines.extend(check.evidence.iter().map(|line| words::tame(line)));
    if let Some(hint) = &check.hint {
        lines.push(format!("how to fix it: {hint}"));
    }
    lines.join("\n")
}
