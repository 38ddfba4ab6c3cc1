//! The events that the machine takes, and the actions that it returns.

use super::state::{Cause, ComponentId, Exit, Outcome, Phase, Role, StopSignal, Time};

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A part exists: a resource is opening, work has started, a hook waits for its moment. Work may have a
    /// time limit of its own for the drain, a resource or hook one for its end.
    Registered(ComponentId, Role, Option<Time>),
    /// A resource is open.
    Opened(ComponentId),
    /// Work ended, a hook ended, a resource closed, or an opening failed.
    Ended(ComponentId, End),
    /// `setup` ended.
    SetupEnded(End),
    /// A signal, the service's own code or its platform asks for the stop.
    Stop(Cause),
    /// The platform will kill the process this long from now. Sent before the stop that it belongs to, or while one is
    /// in progress.
    Within(Time),
    /// A second signal: no more waiting.
    Hurry(StopSignal),
    /// A third: end now.
    Kill,
    /// No tracked work is alive. Told only after [`Action::WatchIdle`].
    Idle,
    /// No work can be started any more. Says whether work that is not a part was cut, or failed.
    Sealed {
        /// Work that is not a component of its own was cancelled or abandoned.
        cut: bool,
        /// Work that is not a component of its own failed.
        failed: bool,
    },
    /// Time has passed.
    Tick,
}

/// How something ended, as seen by the one who ran it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// By itself, well.
    Done,
    /// With an error or a panic.
    Failed,
    /// Because it was cancelled.
    Cancelled,
    /// Because it asked for something that cannot be (`setup` only).
    Misused,
}

/// Something to do, in the order given.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// `setup` is done: the service is running and ready.
    Ready,
    /// Stopping begins: readiness goes off.
    Begin(Cause),
    /// A phase begins; it must be over by this time.
    Enter(Phase, Time),
    /// Drop the setup in progress.
    CancelSetup,
    /// Tell all work to stop; at this time it will be cancelled.
    RequestStop(Time),
    /// From now on, tell when no work is alive.
    WatchIdle,
    /// Cancel this work: its own limit is reached.
    CancelPart(ComponentId),
    /// Cancel all work.
    CancelWork,
    /// Forget the work that is still alive, and remember its names.
    AbandonWork,
    /// Refuse new work from the first moment on at which none is alive.
    SealWhenIdle,
    /// Refuse new work now; what is alive is abandoned.
    Seal,
    /// Close this resource or run this hook, by this time.
    Close(ComponentId, Time),
    /// Drop that close: its time is up.
    GiveUp(ComponentId),
    /// This part has its outcome.
    Settled(ComponentId, Outcome),
    /// Send a [`Event::Tick`] at this time. Replaces the wish before.
    Wake(Time),
    /// The end.
    End(Exit),
}
