//! A failure that the program's own code has not handled, with its context.

use std::time::Duration;

use adieu_lifecycle::Outcome;

use super::notice::Notice;
use crate::error::Failure;

/// A failure that the program's own code has not handled: an error that a task, a hook or `setup` returned, or a panic.
///
/// Given to [`Service::on_failure`](crate::Service::on_failure).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unhandled {
    /// The name of the part, task, schedule or signal; `setup` for `setup` itself.
    pub component: String,
    /// Where in the source it was made or spawned, as `file:line:column`; `None` if that is not known.
    pub place: Option<String>,
    /// The error with its causes, or the message of the panic with its place.
    pub failure: Failure,
    /// What the service does next.
    pub then: AfterFailure,
}

/// What a service does after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AfterFailure {
    /// It stops, or is stopping already.
    Stops,
    /// It starts the task again.
    Restarts {
        /// How long from now.
        delay: Duration,
    },
    /// It keeps running.
    GoesOn,
}

impl Unhandled {
    /// The failure that a notice tells of, if it does.
    pub(crate) fn of(notice: &Notice) -> Option<Self> {
        let (component, place, failure, then) = match notice {
            Notice::Settled {
                part,
                place,
                outcome: Outcome::Failed,
                failure: Some(failure),
                goes_on,
                ..
            } => {
                let then = if *goes_on {
                    AfterFailure::GoesOn
                } else {
                    AfterFailure::Stops
                };
                (part.to_string(), Some(place), failure, then)
            }
            Notice::Restarting {
                part,
                place,
                delay,
                failure,
                ..
            } => {
                let then = AfterFailure::Restarts { delay: *delay };
                (part.to_string(), Some(place), failure, then)
            }
            Notice::ChildFailed {
                task,
                place,
                failure,
            } => (task.clone(), Some(place), failure, AfterFailure::Stops),
            Notice::SetupFailed { failure } => {
                ("setup".to_owned(), None, failure, AfterFailure::Stops)
            }
            Notice::RunFailed { job, failure } => {
                (job.to_string(), None, failure, AfterFailure::GoesOn)
            }
            Notice::SignalFailed { signal, failure } => {
                (signal.to_string(), None, failure, AfterFailure::GoesOn)
            }
            Notice::ReloadRefused { part, failure } | Notice::RollbackFailed { part, failure } => {
                (part.to_string(), None, failure, AfterFailure::GoesOn)
            }
            _ => return None,
        };
        Some(Self {
            component,
            place: place.cloned(),
            failure: failure.clone(),
            then,
        })
    }
}
