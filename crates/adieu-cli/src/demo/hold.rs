//! Holds a drill to its end, or to the first Ctrl-C.

use std::io;

use adieu_drill::report::Report;
use adieu_drill::{CannotDrill, Drill};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

/// Why there is no report.
pub(super) enum NoReport {
    /// The drill could not be held.
    Cannot(CannotDrill),
    /// Somebody ended it.
    Interrupted,
    /// There is no runtime to hold it on.
    Runtime(io::Error),
}

pub(super) fn hold(drill: Drill) -> Result<Report, NoReport> {
    let runtime = Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(NoReport::Runtime)?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt()).map_err(NoReport::Runtime)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(NoReport::Runtime)?;
        // Whichever signal comes first ends the drill: dropped, it kills every process it started.
        tokio::select! {
            held = drill.run() => held.map_err(NoReport::Cannot),
            _ = interrupt.recv() => Err(NoReport::Interrupted),
            _ = terminate.recv() => Err(NoReport::Interrupted),
        }
    })
}
