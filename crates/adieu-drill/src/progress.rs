//! What a drill tells while it runs.
//!
//! The engine knows nothing of terminals: it hands typed events to one listener, and the listener draws a bar, writes
//! a log line, or does nothing.

use crate::report::{Check, Report};

/// Something that happened in a drill.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The drill knows what it will run, in this order.
    Planned {
        /// The ids of the checks.
        checks: &'a [&'a str],
        /// The report as it begins: target, seed and level, and no check.
        report: &'a Report,
    },
    /// A check begins.
    Started {
        /// The check's id.
        check: &'a str,
        /// How many steps it has, if it knows: repeats, instants, restarts.
        steps: Option<u64>,
    },
    /// A check got on.
    Step {
        /// The check's id.
        check: &'a str,
        /// Steps done so far.
        done: u64,
        /// What it does now, in a few words: `run 3: signal sent`.
        doing: &'a str,
    },
    /// A check is over, also when it was skipped.
    Finished {
        /// All of it, as it will be in the report.
        check: &'a Check,
    },
}

/// Receives events. Called from the drill's own tasks: be quick, and never block.
pub trait Progress: Send + Sync {
    /// Something happened.
    fn on(&self, event: Event<'_>);
}

/// Hears nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn on(&self, _event: Event<'_>) {}
}
