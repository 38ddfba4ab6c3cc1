//! For a badge in a README: the JSON that shields.io reads from an address of yours.

use serde_json::json;

use crate::report::{Outcome, Report, Verdict};

/// The endpoint object of shields.io for these reports: how many checks passed of those that were judged.
#[must_use]
pub fn badge(reports: &[Report]) -> String {
    let count = |outcome| {
        let counts = reports.iter().map(|report| report.count(outcome));
        counts.sum::<usize>()
    };
    let (passed, failed) = (count(Outcome::Passed), count(Outcome::Failed));
    let verdict = match reports {
        [] => Verdict::NotJudged,
        some => Verdict::of_all(some.iter().map(|report| report.verdict)),
    };
    let (message, colour) = match verdict {
        Verdict::Passed => (format!("{passed}/{passed}"), "brightgreen"),
        Verdict::Failed => (format!("{passed}/{}", passed + failed), "red"),
        Verdict::NotJudged => ("not judged".to_owned(), "lightgrey"),
    };
    let badge = json!({
        "schemaVersion": 1,
        "label": "shutdown",
        "message": message,
        "color": colour,
    });
    format!("{badge:#}\n")
}
