//! Holds a drill to its end, or to the first signal that ends this program.

use std::io;

use adieu_drill::report::Report;
use adieu_drill::{CannotDrill, Drill};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

/// Why there is no report.
pub(super) enum NoReport {
    /// The drill could not be held.
    Cannot(CannotDrill),
    /// Somebody ended it, with this signal.
    Interrupted(i32),
    /// Signals cannot be heard.
    Deaf(io::Error),
}

/// Holds it. Whatever the drill started is gone when this returns.
pub(super) fn hold(runtime: &Runtime, drill: Drill) -> Result<Report, NoReport> {
    runtime.block_on(async {
        let hear = |kind| signal(kind).map_err(NoReport::Deaf);
        let mut interrupt = hear(SignalKind::interrupt())?;
        let mut terminate = hear(SignalKind::terminate())?;
        let mut hang_up = hear(SignalKind::hangup())?;
        // A signal ends the drill, which kills every process it started when it is dropped.
        tokio::select! {
            held = drill.run() => held.map_err(NoReport::Cannot),
            _ = interrupt.recv() => Err(NoReport::Interrupted(SignalKind::interrupt().as_raw_value())),
            _ = terminate.recv() => Err(NoReport::Interrupted(SignalKind::terminate().as_raw_value())),
            _ = hang_up.recv() => Err(NoReport::Interrupted(SignalKind::hangup().as_raw_value())),
        }
    })
}
