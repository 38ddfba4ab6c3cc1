//! What can go wrong with state, said so that the reader knows what to do and what is still there.

use std::fmt;

use crate::address::AddressError;
use crate::error::BoxError;
use crate::store::{Expected, Version};

/// Why state could not be loaded or saved. What was saved before is still there, whatever this is.
#[derive(Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    /// What happened, with the next step; of an unavailable store what it is, or what was not saved.
    what: String,
    cause: Option<BoxError>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StoreErrorKind {
    Conflict,
    Unknown,
    Newer,
    Locked,
    Unavailable,
    Refused,
}

impl StoreError {
    const fn new(kind: StoreErrorKind, what: String, cause: Option<BoxError>) -> Self {
        Self { kind, what, cause }
    }

    /// Another process saved first.
    #[must_use]
    pub fn conflict(key: impl Into<String>, expected: Expected, found: Option<Version>) -> Self {
        let key = key.into();
        let expected = match expected {
            Expected::Any => "any version was expected".to_owned(),
            Expected::Absent => "none was expected".to_owned(),
            Expected::Version(version) => format!("version {version} was expected"),
        };
        let found = match found {
            Some(found) => format!("version {found} was found"),
            None => "something else was found".to_owned(),
        };
        let what = format!("state `{key}` was saved by another writer: {expected}, {found}");
        Self::new(StoreErrorKind::Conflict, what, None)
    }

    /// A save that was tried more than once, and what the store has now is another's. `conflict` is what the last try said.
    #[must_use]
    pub fn unknown(key: &str, conflict: Self) -> Self {
        let what = format!(
            "it is not known whether state `{key}` was saved: an earlier try was not answered, and another \
             writer has saved since; load it again, and look"
        );
        Self::new(StoreErrorKind::Unknown, what, Some(Box::new(conflict)))
    }

    /// What is there was written by a newer version, of the program or of the engine. `what` says which, and what to do.
    pub fn newer(what: impl Into<String>) -> Self {
        Self::new(StoreErrorKind::Newer, what.into(), None)
    }

    /// Another process has the store, which only one may have. `what` says which, and what to do.
    pub fn locked(what: impl Into<String>) -> Self {
        Self::new(StoreErrorKind::Locked, what.into(), None)
    }

    /// The store does not answer at the moment: the same call may succeed later, and is tried again.
    ///
    /// `what` names the store without its secrets, as in `PostgreSQL at db:5432`.
    pub fn unavailable(what: impl Into<String>, cause: impl Into<BoxError>) -> Self {
        Self::new(StoreErrorKind::Unavailable, what.into(), Some(cause.into()))
    }

    /// The store says no, and will next time: a wrong password, a table that does not exist.
    pub fn refused(what: impl Into<String>, cause: impl Into<BoxError>) -> Self {
        Self::new(StoreErrorKind::Refused, what.into(), Some(cause.into()))
    }

    /// As [`StoreError::refused`], where no other error is the cause: `what` says it all, with what to do.
    pub fn unusable(what: impl Into<String>) -> Self {
        Self::new(StoreErrorKind::Refused, what.into(), None)
    }

    /// Names what is lost by it, if the store was not available.
    #[must_use]
    pub fn not_saved(self, key: &str) -> Self {
        match self.kind {
            StoreErrorKind::Unavailable => Self {
                what: format!("state `{key}` was not saved: {}", self.what),
                ..self
            },
            _ => self,
        }
    }

    /// Whether another process has the store, which only one may have.
    #[must_use]
    pub const fn is_locked(&self) -> bool {
        matches!(self.kind, StoreErrorKind::Locked)
    }

    /// Whether another process saved first: load again, and decide again.
    #[must_use]
    pub const fn is_conflict(&self) -> bool {
        matches!(self.kind, StoreErrorKind::Conflict)
    }

    /// Whether it is not known if the save happened: its first try was not answered, and by the second one another process
    /// had saved, before it or after it. Load again, and look whether what you saved is part of what is there.
    #[must_use]
    pub const fn is_unknown(&self) -> bool {
        matches!(self.kind, StoreErrorKind::Unknown)
    }

    /// Whether the same call may succeed later. A save that ended so may have happened all the same.
    #[must_use]
    pub const fn is_unavailable(&self) -> bool {
        matches!(self.kind, StoreErrorKind::Unavailable)
    }

    /// Whether the state was written by a newer version of the program.
    #[must_use]
    pub const fn is_newer(&self) -> bool {
        matches!(self.kind, StoreErrorKind::Newer)
    }
}

impl From<AddressError> for StoreError {
    fn from(unusable: AddressError) -> Self {
        Self::refused(unusable.what, unusable.how)
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match self.kind {
            StoreErrorKind::Unavailable => f.write_str(" is not available"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_ref().map(|cause| &**cause as _)
    }
}
