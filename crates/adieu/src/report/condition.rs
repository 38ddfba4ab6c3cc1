//! What a part is doing at this moment.

use crate::core::Part;
use crate::lifecycle::{Outcome, Role};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// A resource opens, or a server does not listen yet.
    Starting,
    Ready,
    /// Work that was told to stop, and is at it.
    Stopping,
    /// A hook before its moment.
    Waiting,
    /// A resource closes, or a hook runs.
    Closing,
    Over(Outcome),
}

impl Condition {
    /// All names, for counts that are zero too.
    #[cfg(feature = "admin")]
    pub(crate) const NAMES: [&'static str; 11] = [
        "starting",
        "ready",
        "stopping",
        "waiting",
        "closing",
        "finished",
        "closed",
        "cancelled",
        "abandoned",
        "failed",
        "not reached",
    ];

    /// `progress` is what the ledger knows of the part, `is_told` whether work was told to stop. In the lame-duck time
    /// before that it works as ever.
    pub(crate) fn of(part: &Part, progress: (Option<Outcome>, bool), is_told: bool) -> Self {
        match (progress, part.role) {
            ((Some(outcome), _), _) => Self::Over(outcome),
            ((None, true), _) => Self::Closing,
            ((None, false), Role::Hook(_)) => Self::Waiting,
            ((None, false), Role::Resource) if part.closer.is_none() => Self::Starting,
            ((None, false), Role::Work) if is_told => Self::Stopping,
            #[cfg(feature = "admin")]
            ((None, false), Role::Work) if part.kind.is_server() && part.census.is_none() => {
                Self::Starting
            }
            _ => Self::Ready,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Stopping => "stopping",
            Self::Waiting => "waiting",
            Self::Closing => "closing",
            Self::Over(outcome) => outcome.name(),
        }
    }
}
