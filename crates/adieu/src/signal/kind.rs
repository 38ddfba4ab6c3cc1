//! What a signal means, without its number.

use std::fmt;

use adieu_lifecycle::StopSignal;

/// A signal as the service knows it. Its number stays in `registry.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Signal {
    /// SIGTERM: stops.
    Terminate,
    /// SIGINT: stops, then hurries, then ends.
    Interrupt,
    /// SIGHUP: reloads; stops if there is nothing to reload.
    Hangup,
    /// SIGUSR1: prints the status.
    User1,
    /// SIGUSR2: hands over to a new process, if the service asks for it.
    User2,
    /// SIGQUIT.
    Quit,
    /// SIGALRM.
    Alarm,
    /// SIGCONT: goes on after having been suspended.
    Continue,
    /// SIGWINCH: the terminal's window changed.
    Window,
    /// SIGURG: something urgent came on a socket.
    Urgent,
    /// SIGIO: a descriptor is ready.
    Io,
    /// SIGVTALRM: a timer of the process's own time.
    VirtualAlarm,
    /// SIGPROF: a timer for profiling.
    Profile,
    /// SIGXCPU: the limit of processor time is reached.
    CpuLimit,
    /// SIGXFSZ: the limit of a file's size is reached.
    FileLimit,
    /// SIGPWR: the power fails, on Linux.
    Power,
    /// The real-time signal SIGRTMIN+n, on Linux.
    RealTime(u8),
    /// Ctrl-Break, on Windows: stops.
    Break,
    /// The window of the console is closed, on Windows: stops.
    Close,
    /// The user logs off, on Windows: stops.
    Logoff,
    /// The machine or the container shuts down, on Windows: stops.
    Shutdown,
}

impl Signal {
    /// Whether it ends the process once the service has ended.
    pub(crate) const fn ends(self) -> bool {
        self.as_stop().is_some()
    }

    /// What it asks for if nothing else is bound to it.
    pub(super) const fn as_stop(self) -> Option<StopSignal> {
        Some(match self {
            Self::Terminate => StopSignal::Terminate,
            Self::Interrupt => StopSignal::Interrupt,
            Self::Hangup => StopSignal::Hangup,
            Self::Break => StopSignal::Break,
            Self::Close => StopSignal::Close,
            Self::Logoff => StopSignal::Logoff,
            Self::Shutdown => StopSignal::Shutdown,
            _ => return None,
        })
    }

    /// Whether a program may do something else instead. Not if the process is gone soon after, whatever it does.
    pub(super) const fn can_be_bound(self) -> bool {
        !matches!(
            self,
            Self::Terminate | Self::Interrupt | Self::Close | Self::Logoff | Self::Shutdown
        )
    }
}

impl From<StopSignal> for Signal {
    fn from(signal: StopSignal) -> Self {
        match signal {
            StopSignal::Terminate => Self::Terminate,
            StopSignal::Interrupt => Self::Interrupt,
            StopSignal::Hangup => Self::Hangup,
            StopSignal::Break => Self::Break,
            StopSignal::Close => Self::Close,
            StopSignal::Logoff => Self::Logoff,
            StopSignal::Shutdown => Self::Shutdown,
        }
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(signal) = self.as_stop() {
            return f.write_str(signal.name());
        }
        f.write_str(match self {
            Self::User1 => "sigusr1",
            Self::User2 => "sigusr2",
            Self::Quit => "sigquit",
            Self::Alarm => "sigalrm",
            Self::Continue => "sigcont",
            Self::Window => "sigwinch",
            Self::Urgent => "sigurg",
            Self::Io => "sigio",
            Self::VirtualAlarm => "sigvtalrm",
            Self::Profile => "sigprof",
            Self::CpuLimit => "sigxcpu",
            Self::FileLimit => "sigxfsz",
            Self::Power => "sigpwr",
            Self::RealTime(number) => return write!(f, "sigrtmin+{number}"),
            _ => "",
        })
    }
}
