//! A comparison as text.

use super::style::{Style, Tone};
use super::words;
use crate::compare::{Change, Comparison, Direction};
use crate::report::Outcome;

/// What changed, the worse first, and one line for all that did not.
#[must_use]
pub(crate) fn comparison(comparison: &Comparison, style: Style) -> String {
    let mut lines = Vec::new();
    for difference in &comparison.differences {
        let words = format!("differs in {}", words::tame(difference));
        lines.push(style.paint(Tone::Careful, &words));
    }
    for direction in [Direction::Worse, Direction::Better, Direction::Unknown] {
        let changes = comparison.checks.iter();
        for change in changes.filter(|change| change.direction == direction) {
            row(change, style, &mut lines);
        }
    }
    let same = |outcome| {
        let checks = comparison.checks.iter();
        checks
            .filter(|change| change.direction == Direction::Same && change.after == Some(outcome))
            .count()
    };
    let mut unchanged = Vec::new();
    for outcome in [Outcome::Failed, Outcome::Passed, Outcome::Skipped] {
        if same(outcome) > 0 {
            unchanged.push(format!("{} still {outcome}", same(outcome)));
        }
    }
    if !unchanged.is_empty() {
        lines.push(format!("= {}", unchanged.join(", ")));
    }
    if let (Some(before), Some(after)) = (comparison.worst_ms_before, comparison.worst_ms_after) {
        lines.push(format!(
            "  the slowest stop took {} before and {} after",
            words::millis(before),
            words::millis(after)
        ));
    }
    lines.push(if comparison.worse {
        style.paint(Tone::Bad, "WORSE: what passed fails now")
    } else {
        style.paint(Tone::Good, "NOT WORSE: nothing that passed fails now")
    });
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn row(change: &Change, style: Style, lines: &mut Vec<String>) {
    let (sign, tone) = match change.direction {
        Direction::Worse => ("✗ worse  ", Tone::Bad),
        Direction::Better => ("✓ better ", Tone::Good),
        Direction::Unknown => ("? changed", Tone::Careful),
        Direction::Same => ("= same   ", Tone::Aside),
    };
    let name = |outcome: Option<Outcome>| outcome.map_or("not there", Outcome::name);
    lines.push(format!(
        "{} {}: {} before, {} after",
        style.paint(tone, sign),
        words::tame(&change.id),
        name(change.before),
        name(change.after)
    ));
    let mut said = words::tame(&change.reason);
    if let (Some(before), Some(after)) = (&change.measured_before, &change.measured_after) {
        said = format!(
            "{said} ({} before, {} after)",
            words::tame(before),
            words::tame(after)
        );
    }
    for line in words::wrap(&said, style.columns() - 10) {
        lines.push(format!("          {line}"));
    }
}
