//! The progress of a drill, where standard error is not a terminal: a line for each check that is over.

use std::io::Write as _;

use adieu_drill::progress::{Event, Progress};

/// Writes a line when a check is over, so that a log shows where the time goes.
pub(super) struct Lines;

impl Progress for Lines {
    fn on(&self, event: Event<'_>) {
        if let Event::Finished { check } = event {
            let seconds = check.duration_ms as f64 / 1_000.0;
            // A closed standard error does not fail a drill.
            let _ = writeln!(
                std::io::stderr().lock(),
                "{} {} in {seconds:.1} s",
                check.id,
                check.outcome
            );
        }
    }
}
