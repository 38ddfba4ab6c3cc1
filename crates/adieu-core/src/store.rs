//! What a store promises: a document by key, each save with a new version, and a save that only happens if
//! no other process was faster. Leases, checkpoints and cursors need nothing more.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use crate::StoreError;

/// What a store's methods return; boxed, so that a program can choose its store while it runs.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Which save of a key this is. Grows with every save of the key, not always by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a save expects to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Expected {
    /// Whatever is there is replaced.
    Any,
    /// Nothing was ever saved under this key.
    Absent,
    /// The last save is this one.
    Version(Version),
}

impl Expected {
    /// Whether this was expected.
    #[must_use]
    pub fn matches(self, found: Option<Version>) -> bool {
        match self {
            Self::Any => true,
            Self::Absent => found.is_none(),
            Self::Version(version) => found == Some(version),
        }
    }
}

/// What is kept under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// The format of the value, as the program numbers it with `State::format`.
    pub format: u32,
    /// Tells this save from every other. When the answer to a save is lost, or its caller was dropped, the stamp of what
    /// is there says whether it happened. A store that gives back 0 cannot be asked that: a worker whose checkpoint was
    /// dropped and arrived then takes it for another process's.
    pub stamp: u64,
    /// A JSON document.
    pub value: String,
}

impl Entry {
    /// An entry with this format, this stamp and this JSON document.
    pub fn new(format: u32, stamp: u64, value: impl Into<String>) -> Self {
        let value = value.into();
        Self {
            format,
            stamp,
            value,
        }
    }
}

/// An entry as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// Which save it is of.
    pub version: Version,
    /// What was saved.
    pub entry: Entry,
}

impl Record {
    /// The entry of this version.
    #[must_use]
    pub const fn new(version: Version, entry: Entry) -> Self {
        Self { version, entry }
    }
}

/// Keeps documents by key. Programs use `adieu::state::State`; this is for those who bring a store of their
/// own to `App::store`.
///
/// - A save that has returned is durable, as far as the store can tell, and seen by every later load.
/// - Of several saves that expect the same version, exactly one succeeds; the others are
///   [conflicts](StoreError::conflict).
/// - Dropping a future leaves the old entry or the new one, never something between. A save that was dropped may
///   still arrive; one with an expected version then does so only if nothing else has.
/// - An error that may pass by itself is [unavailable](StoreError::unavailable): only those are tried again.
pub trait Store: Send + Sync + 'static {
    /// The last entry saved under the key, if there is one.
    fn load<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Record>>;

    /// Saves an entry if what is there is what is expected, and gives its version.
    fn save<'a>(
        &'a self,
        key: &'a str,
        expected: Expected,
        entry: &'a Entry,
    ) -> StoreFuture<'a, Version>;

    /// Waits for saves that were begun, and lets go of locks and connections. Called once; after it, everything
    /// else is an error.
    fn close(&self) -> StoreFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }
}
