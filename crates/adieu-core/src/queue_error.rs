//! What can go wrong with a queue.

use std::fmt;

use crate::address::AddressError;
use crate::error::BoxError;

/// Why a queue could not be opened or did not do what it was asked for. It never has a password in it.
#[derive(Debug)]
pub struct QueueError {
    what: String,
    cause: Option<BoxError>,
    lost: bool,
}

impl QueueError {
    /// The engine is away, or refused. `what` says which and what was tried, without secrets.
    pub fn failed(what: impl Into<String>, cause: impl Into<BoxError>) -> Self {
        Self {
            what: what.into(),
            cause: Some(cause.into()),
            lost: false,
        }
    }

    /// Something is missing or wrong, with what to do about it.
    pub fn refused(what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            cause: None,
            lost: false,
        }
    }

    /// The lease was over, and another consumer has the job or it is gone.
    #[must_use]
    pub fn lost() -> Self {
        Self {
            what: "the lease of the job was over before it was settled".to_owned(),
            cause: None,
            lost: true,
        }
    }

    /// Whether the lease was over: another consumer has the job, or it is gone.
    #[must_use]
    pub const fn is_lost(&self) -> bool {
        self.lost
    }
}

impl From<AddressError> for QueueError {
    fn from(unusable: AddressError) -> Self {
        Self::refused(unusable.to_string())
    }
}

impl fmt::Display for QueueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for QueueError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_ref().map(|cause| &**cause as _)
    }
}
