//! The numbers of a roll-out as a table of text.

use unicode_width::UnicodeWidthStr;

use super::style::{Style, Tone};
use super::words::{self, ROLLOUT_COLUMNS, rollout_cells};
use crate::report::RolloutReport;

/// Before, during and after, for each roll-out.
pub(super) fn numbers(rollout: &RolloutReport, style: Style) -> String {
    let mut text = format!(
        "{}\n",
        style.paint(
            Tone::Aside,
            &words::tame(&format!("{} at {}", rollout.pace, rollout.url))
        )
    );
    for (run, number) in rollout.runs.iter().zip(1..) {
        let heading = format!(
            "roll-out {number}: the command took {}",
            words::millis(run.command_ms)
        );
        let mut rows = vec![(String::new(), ROLLOUT_COLUMNS.map(str::to_owned))];
        for (name, phase) in [
            ("before", &run.before),
            ("during", &run.during),
            ("after", &run.after),
        ] {
            rows.push((name.to_owned(), rollout_cells(phase)));
        }
        text.push_str(&style.paint(Tone::Heading, &heading));
        text.push('\n');
        for (name, cells) in &rows {
            let mut line = format!("  {name:<8}");
            for (at, cell) in cells.iter().enumerate() {
                let widest = rows.iter().map(|(_, cells)| cells[at].width()).max();
                let blank = widest.unwrap_or(0).saturating_sub(cell.width()) + 2;
                line.push_str(&" ".repeat(blank));
                line.push_str(cell);
            }
            text.push_str(&line);
            text.push('\n');
        }
    }
    text
}
