//! The whole report as text.

use super::style::{Style, Tone};
use super::table::table;
use super::timeline::timeline;
use super::words;
use crate::report::{Outcome, Report, StopTimeline, Verdict};

/// The whole report: the table, the most telling stop, what to configure, the verdict.
///
/// The verdict comes last, where the eye is when the command is done.
#[must_use]
pub fn text(report: &Report, style: Style) -> String {
    let mut text = table(report, style);
    if let Some(rollout) = &report.rollout {
        text.push('\n');
        text.push_str(&super::rollout::numbers(rollout, style));
    }
    if let Some(behind) = &report.behind {
        text.push('\n');
        text.push_str(&super::behind::told(behind, style));
    }
    if let Some(jobs) = &report.jobs {
        text.push('\n');
        text.push_str(&super::jobs::numbers(jobs, style));
    }
    if let Some(stop) = report.most_telling_stop() {
        text.push('\n');
        text.push_str(&timeline(stop, style));
        text.push_str(&others(report, stop, style));
    }
    let notes = notes(report, style);
    if !notes.is_empty() {
        text.push('\n');
        text.push_str(&notes);
    }
    text.push('\n');
    text.push_str(&verdict(report, style));
    text
}

fn others(report: &Report, shown: &StopTimeline, style: Style) -> String {
    let others = report
        .stops
        .iter()
        .filter(|stop| !std::ptr::eq(*stop, shown))
        .count();
    if others == 0 {
        return String::new();
    }
    let words = format!(
        "  and {}, drawn in the HTML report",
        if shown.is_rollout() {
            words::count(others, "other roll-out", "other roll-outs")
        } else {
            words::count(others, "other stop", "other stops")
        }
    );
    format!("{}\n", style.paint(Tone::Aside, &words))
}

fn notes(report: &Report, style: Style) -> String {
    let mut notes = Vec::new();
    if let Some(starved) = &report.starvation {
        let words = format!(
            "The drill itself was short of processor time, late {} by up to {}: {}.",
            words::count(
                usize::try_from(starved.times).unwrap_or(usize::MAX),
                "time",
                "times"
            ),
            words::millis(starved.worst_ms),
            words::tame(starved.note.trim_end_matches('.')),
        );
        notes.push((Some(Tone::Careful), words));
    }
    if let Some(advice) = &report.recommendation {
        notes.push((
            None,
            format!(
                "The slowest stop took {}{}{}. Configure terminationGracePeriodSeconds: {} (Kubernetes), \
                 stop_grace_period: {} (compose), TimeoutStopSec={} (systemd).",
                words::millis(advice.worst_ms),
                words::seen_by(advice),
                words::endless(advice),
                advice.termination_grace_period_seconds,
                words::tame(&advice.stop_grace_period),
                words::tame(&advice.timeout_stop_sec),
            ),
        ));
    }
    notes.push((Some(Tone::Aside), words::tame(&report.definition)));
    let mut text = String::new();
    for (tone, note) in notes {
        for line in words::wrap(&note, style.columns()) {
            let line = tone.map_or_else(|| line.clone(), |tone| style.paint(tone, &line));
            text.push_str(&line);
            text.push('\n');
        }
    }
    text
}

fn verdict(report: &Report, style: Style) -> String {
    let (tone, word) = match report.verdict {
        Verdict::Passed => (Tone::Good, "PASSED"),
        Verdict::Failed => (Tone::Bad, "FAILED"),
        Verdict::NotJudged => (Tone::Careful, "NOT JUDGED"),
    };
    let mut counts = Vec::new();
    for outcome in [Outcome::Failed, Outcome::Passed, Outcome::Skipped] {
        let count = report.count(outcome);
        if count > 0 {
            counts.push(format!("{count} {outcome}"));
        }
    }
    if counts.is_empty() {
        counts.push("no check was run".to_owned());
    }
    // A roll-out has none, and neither have jobs.
    let level = match (&report.rollout, &report.behind, &report.jobs) {
        (None, None, None) => format!("level {}, ", report.level.name()),
        _ => String::new(),
    };
    format!(
        "{} {}: {} in {} ({}seed {})\n",
        style.paint(tone, word),
        words::tame(&report.target.name),
        counts.join(", "),
        words::millis(report.duration_ms as f64),
        level,
        report.seed,
    )
}
