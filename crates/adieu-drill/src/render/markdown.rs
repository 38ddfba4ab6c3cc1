//! For a comment or the summary of a build: Markdown as GitHub and GitLab show it.

use std::fmt::Write as _;

use super::jobs;
use super::words::{self, ROLLOUT_COLUMNS, rollout_cells};
use crate::report::{Check, Outcome, Report, Verdict};

/// Reports as Markdown: for each target the verdict, a table of its checks, and what failed with its evidence and how to
/// mend it.
#[must_use]
pub fn markdown(reports: &[Report]) -> String {
    reports.iter().map(one).collect::<Vec<_>>().join("\n")
}

fn one(report: &Report) -> String {
    let mut text = format!(
        "### adieu drill: {}\n\n{}\n\n",
        inline(&report.target.name),
        verdict(report)
    );
    text.push_str("| | check | what was seen |\n|---|---|---|\n");
    for check in &report.checks {
        let sign = match check.outcome {
            Outcome::Passed => "✅",
            Outcome::Failed => "❌",
            Outcome::Skipped => "⏭️",
        };
        let _ = writeln!(
            text,
            "| {sign} {} | {} | {} |",
            check.outcome,
            inline(&check.id),
            inline(&check.reason)
        );
    }
    for check in &report.checks {
        if check.outcome == Outcome::Failed {
            text.push_str(&failure(check));
        }
    }
    text.push_str(&numbers(report));
    text
}

fn verdict(report: &Report) -> String {
    let word = match report.verdict {
        Verdict::Passed => "✅ **passed**",
        Verdict::Failed => "❌ **failed**",
        Verdict::NotJudged => "⏭️ **not judged**",
    };
    let mut text = format!(
        "{word}: {} passed, {} failed, {} skipped in {}, seed {}",
        report.count(Outcome::Passed),
        report.count(Outcome::Failed),
        report.count(Outcome::Skipped),
        words::millis(report.duration_ms as f64),
        report.seed
    );
    if let Some(advice) = &report.recommendation {
        let _ = write!(
            text,
            "; the slowest stop took {}{}",
            words::millis(advice.worst_ms),
            words::endless(advice)
        );
    }
    text
}

fn failure(check: &Check) -> String {
    let mut text = format!(
        "\n<details><summary>{}: how to fix it</summary>\n\n",
        inline(&check.id)
    );
    let _ = writeln!(text, "{}\n", inline(&check.why));
    for line in &check.evidence {
        let _ = writeln!(text, "- {}", inline(line));
    }
    if let (Some(measured), Some(threshold)) = (&check.measured, &check.threshold) {
        let _ = writeln!(
            text,
            "- measured {}, demanded {}",
            inline(measured),
            inline(threshold)
        );
    }
    for line in check.hint.iter().flat_map(|hint| hint.lines()) {
        let _ = writeln!(text, "- → {}", inline(line));
    }
    text.push_str("\n</details>\n");
    text
}

/// The tables of a roll-out, of instances behind a balancer, and of workers.
fn numbers(report: &Report) -> String {
    let mut text = String::new();
    if let Some(rollout) = &report.rollout {
        for (run, number) in rollout.runs.iter().zip(1..) {
            let _ = writeln!(
                text,
                "\nRoll-out {number}: the command took {}\n",
                words::millis(run.command_ms)
            );
            row(&mut text, "phase", &ROLLOUT_COLUMNS.map(str::to_owned));
            rule(&mut text, ROLLOUT_COLUMNS.len());
            for (name, phase) in [
                ("before", &run.before),
                ("during", &run.during),
                ("after", &run.after),
            ] {
                row(&mut text, name, &rollout_cells(phase));
            }
        }
    }
    if let Some(behind) = &report.behind {
        let _ = writeln!(
            text,
            "\nBehind {}: {}\n",
            inline(&behind.profile),
            inline(&behind.about)
        );
        for line in &behind.advice.lines {
            let _ = writeln!(text, "- → {}", inline(line));
        }
    }
    if let Some(jobs) = &report.jobs {
        let _ = writeln!(text, "\n{}\n", inline(&jobs::heading(jobs)));
        row(&mut text, "stop", &jobs::COLUMNS.map(str::to_owned));
        rule(&mut text, jobs::COLUMNS.len());
        for (stop, number) in jobs.stops.iter().zip(1..).take(jobs::MOST) {
            row(&mut text, &format!("{number}"), &jobs::cells(stop));
        }
    }
    text
}

fn row(text: &mut String, first: &str, cells: &[String]) {
    let _ = write!(text, "| {} |", inline(first));
    for cell in cells {
        let _ = write!(text, " {} |", inline(cell));
    }
    text.push('\n');
}

fn rule(text: &mut String, cells: usize) {
    text.push_str("|---|");
    text.push_str(&"---|".repeat(cells));
    text.push('\n');
}

/// Text that others wrote, within a line or a cell: nothing in it is Markdown, HTML, a mention or a link.
fn inline(text: &str) -> String {
    let mut safe = String::new();
    for found in words::tame(text).chars() {
        match found {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            // A mention and a reference notify people.
            '@' => safe.push_str("&#64;"),
            '#' => safe.push_str("&#35;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '!' | '$' => {
                safe.push('\\');
                safe.push(found);
            }
            _ => safe.push(found),
        }
    }
    // An address alone is a link, too.
    safe.replace("://", ":&#47;&#47;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_foreign_is_markup() {
        assert_eq!(
            inline("<b>|*x*|_y_ [a](http://e.g) @me #1 `c` \\ $m$\n"),
            "&lt;b&gt;\\|\\*x\\*\\|\\_y\\_ \\[a\\](http:&#47;&#47;e.g) &#64;me &#35;1 \\`c\\` \\\\ \\$m\\$\\\\n"
        );
    }
}
