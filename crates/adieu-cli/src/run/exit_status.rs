//! How a process ended, in words and as an exit code.

use std::fmt;
use std::ops::AddAssign;
use std::time::Duration;

use super::codes;
use super::signals::Signal;

/// The end of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) how: ExitStatus,
    pub(super) usage: Usage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExitStatus {
    Exited(u8),
    Killed(Signal),
    /// Only its parent, another process, knows.
    Unseen,
}

impl ExitStatus {
    /// `None` for one that has not ended.
    pub(super) const fn of(change: Change) -> Option<Self> {
        match change {
            Change::Exited(code) => Some(Self::Exited(code)),
            Change::Killed(signal) => Some(Self::Killed(signal)),
            Change::Suspended(_) => None,
        }
    }

    /// What a shell would say.
    pub(super) fn code(self) -> u8 {
        match self {
            Self::Exited(code) => code,
            Self::Killed(signal) => u8::try_from(signal.0).map_or(u8::MAX, |it| 128 | it),
            Self::Unseen => codes::OWN,
        }
    }

    pub(super) const fn is_success(self) -> bool {
        matches!(self, Self::Exited(0))
    }
}

impl fmt::Display for ExitStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "ended with exit code {code}"),
            Self::Killed(signal) => write!(f, "was ended by {signal}"),
            Self::Unseen => f.write_str("ended (status unknown: not our child)"),
        }
    }
}

/// How a process ended, or that it stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Exited(u8),
    Killed(Signal),
    /// Suspended, as by SIGTTIN when it wants the terminal.
    Suspended(Signal),
}

impl Change {
    /// What the kernel says in one number.
    pub(super) fn of(status: i32) -> Self {
        if libc::WIFSTOPPED(status) {
            Self::Suspended(Signal(libc::WSTOPSIG(status)))
        } else if libc::WIFSIGNALED(status) {
            Self::Killed(Signal(libc::WTERMSIG(status)))
        } else {
            Self::Exited(u8::try_from(libc::WEXITSTATUS(status)).unwrap_or(u8::MAX))
        }
    }
}

/// What a process has used, with the children it waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(super) user: Duration,
    pub(super) system: Duration,
    /// The most memory it had at once, in kilobytes.
    pub(super) peak_kb: u64,
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.user += other.user;
        self.system += other.system;
        self.peak_kb = self.peak_kb.max(other.peak_kb);
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "CPU {:.2} s user, {:.2} s system; peak RSS {} MB",
            self.user.as_secs_f64(),
            self.system.as_secs_f64(),
            self.peak_kb.div_ceil(1_024)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_a_shell() {
        assert_eq!(ExitStatus::Exited(7).code(), 7);
        assert_eq!(ExitStatus::Killed(Signal::KILL).code(), 137);
        assert_eq!(ExitStatus::Killed(Signal::TERM).code(), 143);
        assert_eq!(
            ExitStatus::Killed(Signal::TERM).to_string(),
            "was ended by SIGTERM"
        );
    }
}
