//! Holds a drill to its end, or to the first signal that ends this program.

#[cfg(unix)]
use std::env;
use std::fmt;
use std::io;
#[cfg(unix)]
use std::process::Command;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

#[cfg(unix)]
use adieu_drill::guard::Guard;
use adieu_drill::progress::{Event, Progress};
use adieu_drill::report::Report;
use adieu_drill::{Behind, Drill, DrillError, Jobs, Rollout};
use tokio::runtime::{Builder, Runtime};

use crate::interrupt::Interrupt;
use crate::output::{self, ExitKind};
use crate::ui;

/// Why there is no report.
pub(crate) enum NoReport {
    /// The drill could not be held.
    Cannot(DrillError),
    /// A signal of this number ended it, after these checks.
    Interrupted(i32, Option<Box<Report>>),
    /// Signals cannot be heard, or there is nothing to run on.
    NoSignals(io::Error),
}

/// What drills are held on.
pub(crate) fn runtime() -> Result<Runtime, NoReport> {
    let mut builder = Builder::new_multi_thread();
    builder.enable_all().build().map_err(NoReport::NoSignals)
}

/// Holds it. Whatever the drill started is gone when this returns.
pub(crate) fn run_drill(runtime: &Runtime, drill: Drill) -> Result<Report, NoReport> {
    let judged = Judged::default();
    let drill = drill.progress(judged.progress());
    // While it lives, not even SIGKILL to this process leaves the program behind.
    #[cfg(unix)]
    let _guard = guard();
    until_interrupted(runtime, drill.run(), &judged)
}

/// Runs the command of a roll-out under traffic. Interrupted, the command is gone when this returns; what it has started
/// in a process group of its own is the deployment, and stays.
pub(super) fn run_rollout(runtime: &Runtime, rollout: Rollout) -> Result<Report, NoReport> {
    let judged = Judged::default();
    let rollout = rollout.progress(judged.progress());
    until_interrupted(runtime, rollout.run(), &judged)
}

/// Replaces instances behind a balancer. Whatever the drill started is gone when this returns.
pub(super) fn run_behind(
    runtime: &Runtime,
    behind: Behind,
    judged: &Judged,
) -> Result<Report, NoReport> {
    #[cfg(unix)]
    let _guard = guard();
    until_interrupted(runtime, behind.run(), judged)
}

/// Stops workers while they work. Whatever the drill started is gone when this returns.
pub(super) fn run_jobs(runtime: &Runtime, jobs: Jobs, judged: &Judged) -> Result<Report, NoReport> {
    #[cfg(unix)]
    let _guard = guard();
    until_interrupted(runtime, jobs.run(), judged)
}

/// Nothing is judged yet.
pub(super) fn judged() -> Judged {
    Judged::default()
}

fn until_interrupted(
    runtime: &Runtime,
    drill: impl Future<Output = Result<Report, DrillError>>,
    judged: &Judged,
) -> Result<Report, NoReport> {
    runtime.block_on(async {
        let mut interrupt = Interrupt::catch().map_err(NoReport::NoSignals)?;
        // A signal ends the drill, which kills every process it started when it is dropped.
        tokio::select! {
            held = drill => held.map_err(NoReport::Cannot),
            signal = interrupt.heard() => Err(NoReport::Interrupted(signal, judged.report())),
        }
    })
}

/// Without a guard the drill is held all the same: it is for the worst case only.
#[cfg(unix)]
fn guard() -> Option<Guard> {
    let mut command = Command::new(env::current_exe().ok()?);
    command.args(["drill", "--guard"]);
    Guard::start(command).ok()
}

/// The report as far as it got.
#[derive(Clone, Default)]
pub(super) struct Judged(Arc<Mutex<Option<Report>>>);

impl Judged {
    /// Shows how it goes, and keeps what is judged.
    pub(super) fn progress(&self) -> impl Progress + use<> {
        Both(ui::progress(), self.clone())
    }

    /// None if no check is over.
    fn report(&self) -> Option<Box<Report>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut report = kept.take().filter(|report| !report.checks.is_empty())?;
        report.judge();
        Some(Box::new(report))
    }
}

impl Progress for Judged {
    fn on(&self, event: Event<'_>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match (event, &mut *kept) {
            (Event::Planned { report, .. }, kept) => *kept = Some(report.clone()),
            (Event::Finished { check }, Some(report)) => report.checks.push(check.clone()),
            _ => {}
        }
    }
}

/// Tells both of them.
struct Both(Box<dyn Progress>, Judged);

impl Progress for Both {
    fn on(&self, event: Event<'_>) {
        self.1.on(event.clone());
        self.0.on(event);
    }
}

impl fmt::Display for NoReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cannot(cannot) => cannot.fmt(f),
            Self::Interrupted(..) => {
                f.write_str("interrupted; everything that was started is ended")
            }
            Self::NoSignals(error) => write!(f, "the drill cannot be held: {error}"),
        }
    }
}

impl NoReport {
    /// Puts the name of the target before the reason, where there are several.
    pub(crate) fn of_target(self, name: &str) -> Self {
        match self {
            Self::Cannot(DrillError::Start(mut start)) => {
                start.reason = format!("target {name}: {}", start.reason);
                Self::Cannot(DrillError::Start(start))
            }
            Self::Cannot(DrillError::Usage(sentence)) => {
                Self::Cannot(DrillError::Usage(format!("target {name}: {sentence}")))
            }
            other => other,
        }
    }

    /// Says why, and with what code to end.
    pub(crate) fn say(self) -> ExitCode {
        match self {
            Self::Cannot(DrillError::Start(start)) => {
                output::error(start);
                ExitKind::NoStart.into()
            }
            Self::Cannot(cannot) => {
                output::error(cannot);
                ExitKind::Usage.into()
            }
            Self::Interrupted(signal, _) => {
                output::note(self);
                ExitCode::from(128 + u8::try_from(signal).unwrap_or_default())
            }
            Self::NoSignals(_) => {
                output::error(self);
                ExitKind::Usage.into()
            }
        }
    }
}
