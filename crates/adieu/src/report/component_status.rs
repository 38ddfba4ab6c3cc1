//! What a component is doing at this moment.

use adieu_lifecycle::Outcome;

/// What a component is doing at this moment. Given by [`ComponentHandle::status`](crate::component::ComponentHandle::status).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ComponentStatus {
    /// A resource opens, or a server does not listen yet.
    Starting,
    /// A task works, a server listens, a resource is open.
    Ready,
    /// Work whose stop was requested, and which has not ended yet.
    Stopping,
    /// A hook before its moment.
    Waiting,
    /// A resource closes, or a hook runs.
    Closing,
    /// It has ended.
    Over(Outcome),
}

impl ComponentStatus {
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

    /// Its name in the status and on the admin port.
    #[must_use]
    pub const fn name(self) -> &'static str {
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
