//! Holds a drill to its end, or to the first signal that ends this program.

use std::fmt;
use std::io;
use std::process::ExitCode;

use adieu_drill::report::Report;
use adieu_drill::{CannotDrill, Drill};
use tokio::runtime::{Builder, Runtime};

use crate::interrupt::Interrupt;
use crate::output::{self, Ending};

/// Why there is no report.
pub(crate) enum NoReport {
    /// The drill could not be held.
    Cannot(CannotDrill),
    /// Somebody ended it, with this signal.
    Interrupted(i32),
    /// Signals cannot be heard, or there is nothing to run on.
    Deaf(io::Error),
}

/// What drills are held on.
pub(crate) fn runtime() -> Result<Runtime, NoReport> {
    let mut builder = Builder::new_multi_thread();
    builder.enable_all().build().map_err(NoReport::Deaf)
}

/// Holds it. Whatever the drill started is gone when this returns.
pub(crate) fn hold(runtime: &Runtime, drill: Drill) -> Result<Report, NoReport> {
    runtime.block_on(async {
        let mut interrupt = Interrupt::catch().map_err(NoReport::Deaf)?;
        // A signal ends the drill, which kills every process it started when it is dropped.
        tokio::select! {
            held = drill.run() => held.map_err(NoReport::Cannot),
            signal = interrupt.heard() => Err(NoReport::Interrupted(signal)),
        }
    })
}

impl fmt::Display for NoReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cannot(cannot) => cannot.fmt(f),
            Self::Interrupted(_) => {
                f.write_str("interrupted; everything that was started is ended")
            }
            Self::Deaf(error) => write!(f, "the drill cannot be held: {error}"),
        }
    }
}

impl NoReport {
    /// The same with the target named whose drill it was, where there are several.
    pub(crate) fn of_target(self, name: &str) -> Self {
        match self {
            Self::Cannot(CannotDrill::Start(mut start)) => {
                start.reason = format!("target {name}: {}", start.reason);
                Self::Cannot(CannotDrill::Start(start))
            }
            Self::Cannot(CannotDrill::Usage(sentence)) => {
                Self::Cannot(CannotDrill::Usage(format!("target {name}: {sentence}")))
            }
            other => other,
        }
    }

    /// Says why, and with what code to end.
    pub(crate) fn say(self) -> ExitCode {
        match self {
            Self::Cannot(CannotDrill::Start(start)) => {
                output::error(start);
                Ending::NoStart.into()
            }
            Self::Cannot(cannot) => {
                output::error(cannot);
                Ending::Usage.into()
            }
            Self::Interrupted(signal) => {
                output::note(self);
                ExitCode::from(128 + u8::try_from(signal).unwrap_or_default())
            }
            Self::Deaf(_) => {
                output::error(self);
                Ending::Usage.into()
            }
        }
    }
}
