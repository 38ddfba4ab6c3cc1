//! What a part is doing at this moment.

use crate::core::Part;
use crate::lifecycle::{Outcome, Role};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// A resource opens, or a server does not listen yet.
    Starting,
    Ready,
    /// A hook before its moment.
    Waiting,
    /// A resource closes, or a hook runs.
    Closing,
    Over(Outcome),
}

impl Condition {
    /// All names, for counts that are zero too.
    #[cfg(feature = "admin")]
    pub(crate) const NAMES: [&'static str; 10] = [
        "starting",
        "ready",
        "waiting",
        "closing",
        "finished",
        "closed",
        "cancelled",
        "abandoned",
        "failed",
        "not reached",
    ];

    /// `progress` is what the ledger knows of the part.
    pub(crate) fn of(part: &Part, progress: (Option<Outcome>, bool)) -> Self {
        match (progress, part.role) {
            ((Some(outcome), _), _) => Self::Over(outcome),
            ((None, true), _) => Self::Closing,
            ((None, false), Role::Hook(_)) => Self::Waiting,
            ((None, false), Role::Resource) if part.closer.is_none() => Self::Starting,
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
            Self::Waiting => "waiting",
            Self::Closing => "closing",
            Self::Over(outcome) => outcome.name(),
        }
    }
}
