//! What GitHub Actions shows beside a run: an annotation for each check that failed, and a table in the summary.

use std::env;
use std::fs::OpenOptions;
use std::io::Write as _;

use adieu_drill::render;
use adieu_drill::report::{Outcome, Report};

/// Annotates the workflow run, if GitHub runs the drill. A failure to write annotations does not change the verdict.
pub(super) fn annotate(report: &Report) {
    if env::var_os("GITHUB_ACTIONS").is_some_and(|it| it == "true") {
        // Standard output may be an object, and GitHub reads both.
        let _ = std::io::stderr()
            .lock()
            .write_all(annotations(report).as_bytes());
    }
    if let Some(path) = env::var_os("GITHUB_STEP_SUMMARY") {
        let file = OpenOptions::new().append(true).create(true).open(path);
        let _ = file.and_then(|mut file| {
            let summary = render::markdown(std::slice::from_ref(report));
            file.write_all(format!("{summary}\n").as_bytes())
        });
    }
}

fn annotations(report: &Report) -> String {
    let failed = report
        .checks
        .iter()
        .filter(|it| it.outcome == Outcome::Failed);
    let lines = failed.map(|check| {
        format!(
            "::error title={}::{}\n",
            property(&format!("{}: {}", report.target.name, check.id)),
            message(&check.reason)
        )
    });
    lines.collect()
}

/// As GitHub reads the text of a command: what would end its line is spelled out.
fn message(text: &str) -> String {
    let text = text.replace('%', "%25");
    text.replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    message(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use adieu_drill::report::{Check, Group, Level, Target};

    use super::*;

    #[test]
    fn what_failed_is_annotated_and_nothing_ends_a_line_early() {
        let target = Target {
            name: "a,b".to_owned(),
            ..Target::default()
        };
        let mut report = Report::new(target, 1, Level::Quick);
        for (id, outcome) in [("one", Outcome::Passed), ("two", Outcome::Failed)] {
            report.checks.push(Check {
                id: id.to_owned(),
                group: Group::Drain,
                why: String::new(),
                outcome,
                reason: "50 % lost\n::error::forged | <b>".to_owned(),
                evidence: Vec::new(),
                threshold: None,
                measured: None,
                hint: None,
                duration_ms: 1,
                repeats: 1,
            });
        }
        report.judge();
        assert_eq!(
            annotations(&report),
            "::error title=a%2Cb%3A two::50 %25 lost%0A::error::forged | <b>\n"
        );
    }
}
