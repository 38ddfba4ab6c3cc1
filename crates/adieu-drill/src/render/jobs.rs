//! The stops of workers as a table of text.

use unicode_width::UnicodeWidthStr;

use super::style::{Style, Tone};
use super::words;
use crate::report::{JobsReport, JobsStop};

/// So many stops are listed; the other forms have all of them.
pub(super) const MOST: usize = 20;

/// The columns of the table of stops.
pub(super) const COLUMNS: [&str; 8] = [
    "worker",
    "signal",
    "after",
    "took",
    "end",
    "jobs left",
    "in flight",
    "finished",
];

/// The cells of a stop, in the order of [`COLUMNS`].
pub(super) fn cells(stop: &JobsStop) -> [String; 8] {
    let known = |count: Option<u64>| count.map_or_else(|| "?".to_owned(), words::thousands);
    [
        words::tame(&stop.worker),
        words::tame(&stop.signal),
        words::millis(stop.at_ms),
        words::millis(stop.took_ms),
        words::tame(&stop.end),
        words::thousands(stop.left),
        known(stop.in_flight),
        known(stop.finished),
    ]
}

/// What was done, in one sentence.
pub(super) fn heading(jobs: &JobsReport) -> String {
    let mut text = format!(
        "{} enqueued, {} at a time, {}",
        words::count(
            usize::try_from(jobs.asked).unwrap_or(usize::MAX),
            "job",
            "jobs"
        ),
        words::count(jobs.workers as usize, "worker", "workers"),
        words::count(jobs.stops.len(), "stop", "stops"),
    );
    if !jobs.ended_alone.is_empty() {
        text.push_str(&format!(
            ", {} of a worker by itself",
            words::count(jobs.ended_alone.len(), "end", "ends")
        ));
    }
    text
}

/// The sentence and the stops.
pub(super) fn numbers(jobs: &JobsReport, style: Style) -> String {
    let mut text = format!("{}\n", style.paint(Tone::Heading, &heading(jobs)));
    let mut rows = vec![COLUMNS.map(str::to_owned)];
    rows.extend(jobs.stops.iter().take(MOST).map(cells));
    let widths: Vec<usize> = (0..COLUMNS.len())
        .map(|at| rows.iter().map(|row| row[at].width()).max().unwrap_or(0))
        .collect();
    for row in &rows {
        let mut line = String::from(" ");
        for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let blank = " ".repeat(width.saturating_sub(cell.width()));
            // Words to the left, numbers to the right.
            let cell = match at {
                0 | 1 | 4 => format!(" {cell}{blank} "),
                _ => format!(" {blank}{cell} "),
            };
            line.push_str(&cell);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    let more = jobs.stops.len().saturating_sub(MOST);
    if more > 0 {
        let line = format!(
            "  and {}, in the HTML report",
            words::count(more, "other stop", "other stops")
        );
        text.push_str(&style.paint(Tone::Aside, &line));
        text.push('\n');
    }
    text
}
