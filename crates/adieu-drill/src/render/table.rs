//! The checks as a table.

use unicode_width::UnicodeWidthStr;

use super::style::{Style, Tone};
use super::words;
use crate::report::{Check, Group, Outcome, Report};

/// The checks by group: a sign, the id, one sentence and the time; under a failed one its evidence and how to mend it.
#[must_use]
pub fn table(report: &Report, style: Style) -> String {
    let ids = report.checks.iter().map(|check| check.id.width());
    let widest = ids.max().unwrap_or(0).max(12);
    let mut lines = Vec::new();
    for group in Group::ALL {
        let checks: Vec<&Check> = report
            .checks
            .iter()
            .filter(|check| check.group == group)
            .collect();
        if checks.is_empty() {
            continue;
        }
        lines.push(style.paint(Tone::Heading, group.name()));
        for check in checks {
            row(check, widest, style, &mut lines);
        }
    }
    lines
        .iter()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}

/// Columns of the time at the right, with the blank before it.
const TIME: usize = 10;

fn row(check: &Check, widest: usize, style: Style, lines: &mut Vec<String>) {
    let (sign, tone) = match check.outcome {
        Outcome::Passed => ("✓", Tone::Good),
        Outcome::Failed => ("✗", Tone::Bad),
        Outcome::Skipped => ("–", Tone::Aside),
    };
    let indent = 2 + 2 + widest + 2;
    let room = style.columns().saturating_sub(indent + TIME).max(20);
    let id = words::tame(&check.id);
    let fill = " ".repeat(widest.saturating_sub(id.width()));
    let mut reason = words::tame(&check.reason);
    if check.outcome == Outcome::Skipped {
        reason = format!("skipped: {reason}");
    }
    let reason = words::wrap(&reason, room);
    let time = match check.outcome {
        Outcome::Skipped => String::new(),
        _ => words::millis(check.duration_ms as f64),
    };
    let pad = " ".repeat((room + TIME).saturating_sub(reason[0].width() + time.width()));
    let said = |words: &str| match check.outcome {
        Outcome::Skipped => style.paint(Tone::Aside, words),
        _ => words.to_owned(),
    };
    lines.push(format!(
        "  {} {id}{fill}  {}{pad}{}",
        style.paint(tone, sign),
        said(&reason[0]),
        style.paint(Tone::Aside, &time),
    ));
    let margin = " ".repeat(indent);
    for more in &reason[1..] {
        lines.push(format!("{margin}{}", said(more)));
    }
    if check.outcome == Outcome::Failed {
        detail(check, style, lines);
    }
}

fn detail(check: &Check, style: Style, lines: &mut Vec<String>) {
    let mut hang = |bullet: &str, text: &str, tone: Option<Tone>| {
        let room = style.columns() - 8;
        for (at, line) in words::wrap(&words::tame(text), room).iter().enumerate() {
            let line = format!("{} {line}", if at == 0 { bullet } else { " " });
            let line = tone.map_or_else(|| line.clone(), |tone| style.paint(tone, &line));
            lines.push(format!("      {line}"));
        }
    };
    if let (Some(threshold), Some(measured)) = (&check.threshold, &check.measured) {
        let compared = format!("measured {measured}, demanded {threshold}");
        hang("·", &compared, Some(Tone::Bad));
    }
    for evidence in &check.evidence {
        hang("·", evidence, None);
    }
    let hint = check.hint.as_deref().unwrap_or_default().lines();
    for paragraph in hint.filter(|line| !line.trim().is_empty()) {
        hang("→", paragraph, Some(Tone::Careful));
    }
}
