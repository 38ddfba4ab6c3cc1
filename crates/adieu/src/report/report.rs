//! The report: what happened to every part, in how much of which budget, and what was lost.

use std::process::{ExitCode, Termination};
use std::time::{Duration, SystemTime};

use adieu_lifecycle::{Cause, Exit, Outcome, Phase, Time};
use serde::Serialize;

use super::notice::{ComponentKind, Notice};
use crate::error::Failure;
use crate::tracking::task_registry::{TaskInfo, WorkKind};
use crate::util::printable;

/// The report of a whole life. Returned from `main`, it is the exit code.
///
/// [`Display`](std::fmt::Display) shows it to a person, [`Report::to_json`] to a machine.
///
/// ```
/// use adieu::report::Outcome;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let report = adieu::scope("orders")
///     .run(async |app| {
///         app.task("importer", |_stop| async {});
///         Ok(())
///     })
///     .await;
/// assert_eq!(report.exit_code(), 0);
/// assert_eq!(report.part("importer").map(|part| part.outcome), Some(Outcome::Finished));
/// assert!(report.lost().is_empty());
/// println!("{report}"); // for a person; `to_json` is for a machine
/// # }
/// ```
#[must_use = "a report is the exit code: return it from main, or look at it"]
#[derive(Clone, Debug)]
pub struct Report {
    pub(crate) service: String,
    pub(crate) exit: Exit,
    /// What the process ended with, if that is not said by `exit`, and what it means.
    pub(crate) process: Option<(u8, String)>,
    pub(crate) cause: Option<Cause>,
    pub(crate) problem: Option<Failure>,
    pub(crate) started: SystemTime,
    pub(crate) uptime: Duration,
    pub(crate) took: Duration,
    pub(crate) grace: Duration,
    pub(crate) phases: Vec<PhaseReport>,
    pub(crate) parts: Vec<ComponentReport>,
    pub(crate) lost: Vec<LostWork>,
    pub(crate) lost_unnamed: u64,
    pub(crate) blocked: Vec<Blocked>,
    pub(crate) timeline: Vec<(Time, Notice)>,
    pub(crate) omitted: u64,
}

/// One phase of the stop.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PhaseReport {
    /// Which.
    pub phase: Phase,
    /// When it began, since the request to stop.
    pub began: Duration,
    /// How long it took.
    pub took: Duration,
    /// How long it might have taken.
    pub budget: Duration,
}

/// One part and its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ComponentReport {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: ComponentKind,
    /// How it ended.
    pub outcome: Outcome,
    /// Where in the source it was made, as `file:line:column`.
    pub place: String,
    /// How long it lived.
    pub age: Duration,
    /// How long its end took, from the request to stop (work) or the beginning of its close (others).
    pub ending: Duration,
    /// How often it was started again.
    pub restarts: u32,
    /// What went wrong.
    pub failure: Option<Failure>,
    /// For what was abandoned: whether it blocked its thread (else it was waiting).
    pub blocking: bool,
    /// What else there is to say: how a listener was closed, which connections were cut.
    pub notes: Vec<String>,
}

/// Work that was cut, left behind or failed, and is not a component of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostWork {
    /// Its name.
    pub name: String,
    /// Where in the source it was spawned, as `file:line:column`.
    pub place: String,
    /// Cancelled, abandoned or failed.
    pub outcome: Outcome,
    /// How many of this name and place.
    pub count: u64,
    /// The age of the oldest.
    pub age: Duration,
    /// Whether one of them blocked its thread (else they were waiting).
    pub blocking: bool,
    /// What went wrong.
    pub failure: Option<Failure>,
}

impl LostWork {
    pub(crate) fn cut(task: &TaskInfo, outcome: Outcome, is_polled: bool) -> Self {
        Self {
            name: printable::name(&task.name),
            place: task.place.to_string(),
            outcome,
            count: 1,
            age: task.age,
            blocking: is_polled || task.kind == WorkKind::Blocking,
            failure: None,
        }
    }
}

/// A task that blocked the loop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Blocked {
    /// Its name.
    pub task: String,
    /// Where in the source it was spawned.
    pub place: String,
    /// How often.
    pub times: u64,
    /// The longest time, in milliseconds.
    pub longest_ms: u64,
}

impl Report {
    /// A report of a life that never began.
    pub(crate) fn start_failed(service: &str, exit: Exit, problem: Failure) -> Self {
        Self {
            service: service.to_owned(),
            exit,
            process: None,
            cause: None,
            problem: Some(problem),
            started: SystemTime::now(),
            uptime: Duration::ZERO,
            took: Duration::ZERO,
            grace: Duration::ZERO,
            phases: Vec::new(),
            parts: Vec::new(),
            lost: Vec::new(),
            lost_unnamed: 0,
            blocked: Vec::new(),
            timeline: Vec::new(),
            omitted: 0,
        }
    }

    /// The report of a life whose own cannot be had.
    pub(crate) fn missing(service: &str) -> Self {
        let what = Failure {
            causes: vec!["the report is missing".to_owned()],
            panicked_at: None,
        };
        Self::start_failed(service, Exit::Failed, what)
    }

    /// The name of the service.
    #[must_use]
    pub fn service(&self) -> &str {
        &self.service
    }

    /// The exit code as a type.
    #[must_use]
    pub const fn exit(&self) -> Exit {
        self.exit
    }

    /// The exit code as a number.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match &self.process {
            Some((code, _)) => *code,
            None => self.exit.code(),
        }
    }

    /// What the exit code means, in a few words.
    pub(crate) fn meaning(&self) -> &str {
        match &self.process {
            Some((_, meaning)) => meaning,
            None => self.exit.meaning(),
        }
    }

    /// This report for a program that runs a [scope](crate::scope()) around something else, and ends with a code of
    /// that: `adieu run` with the one of its command. It is measured by the grace that was given to it, and names no
    /// places in its source, which readers of the report do not know.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let report = adieu::scope("wrapper")
    ///     .run(async |app| {
    ///         app.task("command", |_stop| async {});
    ///         Ok(())
    ///     })
    ///     .await;
    /// let report = report.of_process(143, "the command was ended by SIGTERM", Duration::from_secs(8));
    /// assert_eq!(report.exit_code(), 143);
    /// # }
    /// ```
    pub fn of_process(mut self, code: u8, meaning: impl Into<String>, grace: Duration) -> Self {
        self.process = Some((code, meaning.into()));
        self.grace = grace;
        // The phases had what the wrapper allows itself besides.
        for phase in &mut self.phases {
            phase.budget = phase.budget.min(grace);
        }
        let parts = self.parts.iter_mut().map(|it| &mut it.place);
        let lost = self.lost.iter_mut().map(|it| &mut it.place);
        let blocked = self.blocked.iter_mut().map(|it| &mut it.place);
        parts.chain(lost).chain(blocked).for_each(String::clear);
        self
    }

    /// Why the service stopped; `None` if it never began.
    #[must_use]
    pub const fn cause(&self) -> Option<&Cause> {
        self.cause.as_ref()
    }

    /// What was wrong with the setup or the configuration.
    #[must_use]
    pub const fn problem(&self) -> Option<&Failure> {
        self.problem.as_ref()
    }

    /// How long the stop took.
    #[must_use]
    pub const fn took(&self) -> Duration {
        self.took
    }

    /// The phases that were reached, in order.
    #[must_use]
    pub fn phases(&self) -> &[PhaseReport] {
        &self.phases
    }

    /// Every part with its outcome, in the order of registration.
    #[must_use]
    pub fn parts(&self) -> &[ComponentReport] {
        &self.parts
    }

    /// The part of this name.
    #[must_use]
    pub fn part(&self, name: &str) -> Option<&ComponentReport> {
        self.parts.iter().find(|part| part.name == name)
    }

    /// Work that was cut, left behind or failed and is not a component of its own. The parts to which that happened
    /// are in [`Report::parts`].
    #[must_use]
    pub fn lost(&self) -> &[LostWork] {
        &self.lost
    }

    /// The tasks that blocked the loop for longer than the watchdog's limit.
    #[must_use]
    pub fn blocked(&self) -> &[Blocked] {
        &self.blocked
    }

    /// Everything that was said, with its time since the start.
    #[must_use]
    pub fn timeline(&self) -> &[(Duration, Notice)] {
        &self.timeline
    }
}

impl Termination for Report {
    fn report(self) -> ExitCode {
        self.into()
    }
}

impl From<Report> for ExitCode {
    fn from(report: Report) -> Self {
        Self::from(report.exit_code())
    }
}
