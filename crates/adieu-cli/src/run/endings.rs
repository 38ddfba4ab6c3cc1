//! How a process ended, in words and as an exit code.

use std::fmt;

use super::codes;
use super::signals::Signal;
use super::sys::{Change, Usage};

/// The end of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) how: How,
    pub(super) usage: Usage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    Exited(u8),
    Killed(Signal),
    /// Its parent has seen it, and nobody else.
    Unseen,
}

impl How {
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

    pub(super) const fn is_good(self) -> bool {
        matches!(self, Self::Exited(0))
    }
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "ended with exit code {code}"),
            Self::Killed(signal) => write!(f, "was ended by {signal}"),
            Self::Unseen => f.write_str("ended, and only its parent knows how"),
        }
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "user {:.2} s, system {:.2} s, at most {} MB",
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
        assert_eq!(How::Exited(7).code(), 7);
        assert_eq!(How::Killed(Signal::KILL).code(), 137);
        assert_eq!(How::Killed(Signal::TERM).code(), 143);
        assert_eq!(
            How::Killed(Signal::TERM).to_string(),
            "was ended by SIGTERM"
        );
    }
}
