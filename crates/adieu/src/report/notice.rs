//! The closed set of things that are said, each at the moment it happens. Logs, reports and programs only
//! consume them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use adieu_lifecycle::{Cause, Exit, Moment, Outcome, Phase, Role, StopSignal};

use crate::error::Failure;
use crate::platform::Platform;
use crate::signal::Signal;

/// What kind of part this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ComponentKind {
    /// Opened at start, closed at the end.
    Resource,
    /// A task of the service.
    Task,
    /// Works in steps, with checkpoints.
    Worker,
    /// Code on the blocking pool.
    Blocking,
    /// A TCP or Unix socket server.
    Tcp,
    /// An HTTP server.
    Http,
    /// Long-polls a source.
    Poller,
    /// Takes jobs from a queue.
    Consumer,
    /// Runs when stopping begins.
    ShutdownHook,
    /// Runs after the drain.
    CleanupHook,
    /// Runs at the very end.
    ExitHook,
    /// An admin port, which answers to the end.
    Admin,
    /// A kind of the program's own: see [`Component`](crate::component::Component).
    Custom(&'static str),
}

impl ComponentKind {
    pub(crate) const fn role(self) -> Role {
        match self {
            // An admin port is not a component of the stop; nothing registers one.
            Self::Resource | Self::Admin => Role::Resource,
            Self::Task
            | Self::Worker
            | Self::Blocking
            | Self::Tcp
            | Self::Http
            | Self::Poller
            | Self::Consumer
            | Self::Custom(_) => Role::Work,
            Self::ShutdownHook => Role::Hook(Moment::Shutdown),
            Self::CleanupHook => Role::Hook(Moment::Cleanup),
            Self::ExitHook => Role::Hook(Moment::Exit),
        }
    }

    /// Whether clients come to it.
    pub(crate) const fn is_server(self) -> bool {
        matches!(self, Self::Tcp | Self::Http)
    }

    /// The kind's name in logs and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Resource => "resource",
            Self::Task => "task",
            Self::Worker => "worker",
            Self::Blocking => "blocking",
            Self::Tcp => "tcp",
            Self::Http => "http",
            Self::Poller => "poller",
            Self::Consumer => "consumer",
            Self::ShutdownHook => "on_shutdown",
            Self::CleanupHook => "on_cleanup",
            Self::ExitHook => "on_exit",
            Self::Admin => "admin",
            Self::Custom(kind) => kind,
        }
    }
}

impl fmt::Display for ComponentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Something that happened in the life of the service.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// A resource begins to open.
    Opening {
        /// Its name.
        part: Arc<str>,
    },
    /// A resource did not open, and is tried again.
    OpenRetry {
        /// Its name.
        part: Arc<str>,
        /// Where in the source it was made.
        place: String,
        /// How many attempts have failed.
        attempts: u32,
        /// How long from now.
        delay: Duration,
        /// What went wrong.
        failure: Failure,
    },
    /// A resource is open.
    Opened {
        /// Its name.
        part: Arc<str>,
    },
    /// `setup` has returned; the service is running and ready.
    Running,
    /// Stopping begins.
    Stopping {
        /// Why.
        cause: Cause,
    },
    /// A phase of the stop begins.
    Phase {
        /// Which.
        phase: Phase,
        /// How long it may take.
        budget: Duration,
    },
    /// A resource begins to close, or a hook to run.
    Closing {
        /// Its name.
        part: Arc<str>,
        /// Resource or hook.
        kind: ComponentKind,
    },
    /// A part has its outcome.
    Settled {
        /// Its name.
        part: Arc<str>,
        /// What it is.
        kind: ComponentKind,
        /// How it ended.
        outcome: Outcome,
        /// Where in the source it was made.
        place: String,
        /// What went wrong.
        failure: Option<Failure>,
        /// For what was abandoned: whether it blocked its thread (else it was waiting).
        blocking: bool,
        /// For what failed: whether the service goes on without it (else it stops, or was stopping).
        goes_on: bool,
    },
    /// `setup` returned an error, panicked, or asked for something impossible.
    SetupFailed {
        /// What went wrong.
        failure: Failure,
    },
    /// A task failed and will be started again.
    Restarting {
        /// Its name.
        part: Arc<str>,
        /// Where in the source it was made.
        place: String,
        /// How often it was started again, this one included.
        restarts: u32,
        /// How long from now.
        delay: Duration,
        /// What went wrong.
        failure: Failure,
    },
    /// A task has ended because its handle asked for it to be started again, and it is.
    Restarted {
        /// Its name.
        part: Arc<str>,
        /// Where in the source it was made.
        place: String,
        /// How often it was started again, this one included.
        restarts: u32,
    },
    /// Work that a task started has panicked.
    ChildFailed {
        /// Its name.
        task: String,
        /// Where in the source it was spawned.
        place: String,
        /// What went wrong.
        failure: Failure,
    },
    /// Work that is not a component of its own was cancelled at the deadline.
    ChildCancelled {
        /// Its name.
        task: String,
        /// Where in the source it was spawned.
        place: String,
        /// How many of this name and place.
        count: u64,
    },
    /// Work that is not a component of its own was left behind.
    ChildAbandoned {
        /// Its name.
        task: String,
        /// Where in the source it was spawned.
        place: String,
        /// How many of this name were spawned there and abandoned.
        count: u64,
        /// Whether one of them blocked its thread (else all were waiting).
        blocking: bool,
    },
    /// A task blocks its thread: nothing else can run there.
    Blocked {
        /// Its name.
        task: String,
        /// Where in the source it was spawned.
        place: String,
        /// For how long, until now.
        lasted: Duration,
        /// Whether it goes on.
        ongoing: bool,
    },
    /// Everything was loaded anew and is in force.
    Reloaded {
        /// What was loaded.
        parts: Vec<Arc<str>>,
    },
    /// A reload was refused; all is as it was before.
    ReloadRefused {
        /// Who refused it.
        part: Arc<str>,
        /// Why.
        failure: Failure,
    },
    /// A part could not take back its share of a reload that another one refused.
    RollbackFailed {
        /// Its name.
        part: Arc<str>,
        /// What went wrong.
        failure: Failure,
    },
    /// A run of a scheduled job failed, or its state could not be loaded or saved.
    RunFailed {
        /// The schedule.
        job: Arc<str>,
        /// What went wrong.
        failure: Failure,
    },
    /// The handler of a signal failed.
    SignalFailed {
        /// Which.
        signal: Signal,
        /// What went wrong.
        failure: Failure,
    },
    /// The admin port can be reached from other machines, and was not said to be meant so.
    AdminExposed {
        /// Where it answers.
        address: std::net::SocketAddr,
    },
    /// The platform kills before a stop that uses its whole grace is over.
    GraceTooLong {
        /// Which.
        platform: Platform,
        /// Ours.
        grace: Duration,
        /// After how long it kills.
        kills_after: Duration,
    },
    /// The program was built with `panic = "abort"`: one panic ends the process, without a stop.
    PanicAborts,
    /// The platform kills before the whole grace period is over: the stop takes less time than was set.
    GraceCut {
        /// How it was asked for.
        signal: StopSignal,
        /// What was set.
        grace: Duration,
        /// After how long it kills.
        kills_after: Duration,
    },
    /// A listener came with the process.
    Inherited {
        /// The name it was asked for by.
        part: Arc<str>,
        /// How it came.
        from: String,
        /// If it is not on the address it was asked for: where it is, and where it should be.
        elsewhere: Option<(String, String)>,
    },
    /// A file descriptor was inherited, and no server of the service listens on it. It was closed.
    Unclaimed {
        /// Its name; empty if it has none.
        name: String,
        /// Its number.
        descriptor: i32,
    },
    /// The next process was started, to take over.
    HandOffBegun {
        /// Its process id.
        pid: u32,
        /// The program.
        command: String,
    },
    /// The hand-off came to nothing: the service goes on.
    HandOffFailed {
        /// Why.
        why: String,
    },
    /// A hand-off was asked for, and not begun.
    HandOffRefused {
        /// Why.
        why: String,
    },
    /// The next process has taken over, and this one stops.
    HandedOver {
        /// Its process id.
        pid: u32,
    },
    /// The process before this one has handed over.
    TookOver {
        /// Its process id.
        pid: u32,
    },
    /// The end.
    Ended {
        /// With this code.
        exit: Exit,
    },
}
