//! The words of the life cycle: phases, causes, outcomes, exit codes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Time since the service was created. The machine has no clock: the driver passes the time in.
pub type Time = Duration;

/// The number of a part, in the order of registration. Stop order is the reverse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComponentId(pub u32);

/// The phases of a stop, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Not ready any more; for the lame-duck period everything still serves.
    Announce,
    /// Intake has stopped, work in flight finishes.
    Drain,
    /// What is left is cancelled and its cleanup runs.
    Cancel,
    /// Resources close, last opened first.
    Release,
    /// State and report are flushed.
    Save,
}

impl Phase {
    /// All phases, in order.
    pub const ALL: [Self; 5] = [
        Self::Announce,
        Self::Drain,
        Self::Cancel,
        Self::Release,
        Self::Save,
    ];

    /// The phase's name in logs and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Announce => "announce",
            Self::Drain => "drain",
            Self::Cancel => "cancel",
            Self::Release => "release",
            Self::Save => "save",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A signal that asks for the end. By name: only the operating system's side knows the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StopSignal {
    /// SIGTERM: an orchestrator or an operator asks.
    Terminate,
    /// SIGINT: a user at a keyboard asks.
    Interrupt,
    /// SIGHUP with nothing to reload: the terminal is gone, or an operator asks.
    Hangup,
    /// Ctrl-Break on Windows: what a supervisor there can send, so it means what SIGTERM means elsewhere.
    Break,
    /// The window of the console is closed, on Windows.
    Close,
    /// The user logs off, on Windows.
    Logoff,
    /// The machine or the container shuts down, on Windows.
    Shutdown,
}

impl StopSignal {
    /// The name in lower case, as in `sigterm`; of an interrupt, the name it has on this system.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Terminate => "sigterm",
            Self::Interrupt if cfg!(windows) => "ctrl-c",
            Self::Interrupt => "sigint",
            Self::Hangup => "sighup",
            Self::Break => "ctrl-break",
            Self::Close => "close",
            Self::Logoff => "logoff",
            Self::Shutdown => "shutdown",
        }
    }

    /// The number that a shell adds to 128 for a process ended by this signal.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Interrupt => 2,
            Self::Hangup => 1,
            // Those of Windows ask as SIGTERM asks.
            Self::Terminate | Self::Break | Self::Close | Self::Logoff | Self::Shutdown => 15,
        }
    }

    /// After how long its sender kills the process, unless configured otherwise; `None` where that does not depend on the
    /// signal.
    #[must_use]
    pub const fn kills_after(self) -> Option<Duration> {
        match self {
            Self::Close | Self::Logoff | Self::Shutdown => Some(Duration::from_secs(5)),
            Self::Terminate | Self::Interrupt | Self::Hangup | Self::Break => None,
        }
    }
}

/// Why the service stops.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// A signal came.
    Signal(StopSignal),
    /// `setup` returned an error, panicked, or asked for something impossible.
    Setup,
    /// This part failed and its policy is to stop the service.
    Error(Arc<str>),
    /// This task panicked and its policy is to stop the service.
    Panic(Arc<str>),
    /// Every task ended; nothing is left to do.
    AllTasksEnded,
    /// The program asked, through a shutdown handle, and said why.
    Requested(Arc<str>),
    /// The process of this number has taken over.
    HandedOver(u32),
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signal(signal) => f.write_str(signal.name()),
            Self::Setup => f.write_str("error setup"),
            Self::Error(part) => write!(f, "error {part}"),
            Self::Panic(part) => write!(f, "panic {part}"),
            Self::AllTasksEnded => f.write_str("all tasks ended"),
            Self::Requested(why) => write!(f, "requested: {why}"),
            Self::HandedOver(pid) => write!(f, "handed over to process {pid}"),
        }
    }
}

/// How a part ended. Every part has exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Work that came to its own end.
    Finished,
    /// A resource that closed.
    Closed,
    /// Work that was cancelled, or an opening given up because the service stopped.
    Cancelled,
    /// Did not end in its time, not even when cancelled; left behind.
    Abandoned,
    /// Ended with an error or a panic.
    Failed,
    /// Its turn never came.
    NotReached,
}

impl Outcome {
    /// The outcome's name in logs and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Closed => "closed",
            Self::Cancelled => "cancelled",
            Self::Abandoned => "abandoned",
            Self::Failed => "failed",
            Self::NotReached => "not reached",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// When a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Moment {
    /// Stopping begins.
    Shutdown,
    /// The drain is over, the resources are still open.
    Cleanup,
    /// The very end: everything is closed.
    Exit,
}

/// What the machine must know of a part to stop it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Drains, and can be cancelled.
    Work,
    /// Opens, and is closed in the release phase.
    Resource,
    /// Runs at one moment of the stop.
    Hook(Moment),
}

impl Role {
    /// The phase in which parts of this role end.
    #[must_use]
    pub const fn phase(self) -> Phase {
        match self {
            Self::Hook(Moment::Shutdown) => Phase::Announce,
            Self::Work => Phase::Drain,
            Self::Hook(Moment::Cleanup) => Phase::Cancel,
            Self::Resource => Phase::Release,
            Self::Hook(Moment::Exit) => Phase::Save,
        }
    }
}

/// The exit code of the process. The numbers are stable.
///
/// If several apply, the last of this list is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Exit {
    /// 0: everything finished and closed.
    Clean,
    /// 1: setup or a part failed; a close that fails counts.
    Failed,
    /// 2: usage or configuration.
    Usage,
    /// 3: work was cut at the deadline; the report names it.
    Cut,
    /// 128+n: cut short by a second signal.
    Signal(u8),
}

impl Exit {
    /// The number a shell sees.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Clean => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Cut => 3,
            Self::Signal(number) => 128 + number,
        }
    }

    /// What the code means, in a few words.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Clean => "clean",
            Self::Failed => "a part failed",
            Self::Usage => "usage or configuration",
            Self::Cut => "work was cut",
            Self::Signal(_) => "cut short by a second signal",
        }
    }
}
