//! What happened behind a balancer, as text.

use super::style::{Style, Tone};
use super::words;
use crate::report::BehindReport;

/// The balancer, each roll-out behind it, and what is advised.
pub(super) fn told(behind: &BehindReport, style: Style) -> String {
    let mut text = String::new();
    let mut say = |tone: Option<Tone>, indent: usize, line: &str| {
        let margin = " ".repeat(indent);
        for line in words::wrap(&words::tame(line), style.columns() - indent) {
            let line = tone.map_or_else(|| line.clone(), |tone| style.paint(tone, &line));
            text.push_str(&format!("{margin}{line}\n"));
        }
    };
    let heading = format!("behind {}: {}", behind.profile, behind.about);
    say(Some(Tone::Heading), 0, &heading);
    for number in &behind.numbers {
        say(Some(Tone::Aside), 2, number);
    }
    for run in &behind.runs {
        say(
            None,
            2,
            &format!(
                "with {} before the stop signal and a grace period of {}: {} of {} requests lost, {} retried",
                words::millis(run.pre_stop_ms),
                words::millis(run.grace_ms),
                words::thousands(run.lost),
                words::thousands(run.requests),
                words::thousands(run.retried)
            ),
        );
        for loss in &run.losses {
            say(Some(Tone::Bad), 4, loss);
        }
    }
    for line in &behind.advice.lines {
        say(Some(Tone::Careful), 2, &format!("→ {line}"));
    }
    text
}
