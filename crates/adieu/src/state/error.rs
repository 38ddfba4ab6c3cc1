//! What can go wrong with state, said so that the reader knows what to do and what is still there.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::traits::{Expected, Version};
use crate::error::BoxError;

/// Why state could not be loaded or saved. What was saved before is still there, whatever this is.
#[derive(Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
}

#[derive(Debug)]
pub(crate) enum StoreErrorKind {
    Conflict {
        key: String,
        expected: Expected,
        found: Option<Version>,
    },
    Unknown {
        key: String,
        cause: Box<StoreError>,
    },
    NewerFormat {
        key: String,
        found: u32,
        known: u32,
    },
    NewerFile {
        path: PathBuf,
        found: u64,
    },
    Unreadable {
        key: String,
        version: Version,
        cause: serde_json::Error,
    },
    NotJson {
        key: String,
        cause: serde_json::Error,
    },
    Corrupt {
        path: PathBuf,
        why: String,
        previous: String,
    },
    Locked {
        directory: PathBuf,
        holder: Option<u32>,
    },
    Io {
        doing: &'static str,
        path: PathBuf,
        cause: io::Error,
    },
    BadKey {
        key: String,
        why: &'static str,
    },
    Closed,
    Unavailable {
        what: String,
        cause: BoxError,
    },
    Refused {
        what: String,
        cause: BoxError,
    },
}

impl StoreError {
    pub(crate) const fn new(kind: StoreErrorKind) -> Self {
        Self { kind }
    }

    pub(crate) fn io(doing: &'static str, path: &Path, cause: io::Error) -> Self {
        let path = path.to_owned();
        Self::new(StoreErrorKind::Io { doing, path, cause })
    }

    /// Another process saved first.
    #[must_use]
    pub fn conflict(key: impl Into<String>, expected: Expected, found: Option<Version>) -> Self {
        let key = key.into();
        Self::new(StoreErrorKind::Conflict {
            key,
            expected,
            found,
        })
    }

    /// The store does not answer at the moment: the same call may succeed later, and is tried again.
    ///
    /// `what` names the store without its secrets, as in `PostgreSQL at db:5432`.
    pub fn unavailable(what: impl Into<String>, cause: impl Into<BoxError>) -> Self {
        let (what, cause) = (what.into(), cause.into());
        Self::new(StoreErrorKind::Unavailable { what, cause })
    }

    /// The store says no, and will next time: a wrong password, a table that does not exist.
    pub fn refused(what: impl Into<String>, cause: impl Into<BoxError>) -> Self {
        let (what, cause) = (what.into(), cause.into());
        Self::new(StoreErrorKind::Refused { what, cause })
    }

    /// A save that was tried more than once, and what the store has now is another's.
    pub(crate) fn unknown(key: &str, cause: Self) -> Self {
        let (key, cause) = (key.to_owned(), Box::new(cause));
        Self::new(StoreErrorKind::Unknown { key, cause })
    }

    /// Names what is lost by it.
    pub(crate) fn not_saved(self, key: &str) -> Self {
        match self.kind {
            StoreErrorKind::Unavailable { what, cause } => {
                let what = format!("state `{key}` was not saved: {what}");
                Self::new(StoreErrorKind::Unavailable { what, cause })
            }
            kind => Self::new(kind),
        }
    }

    pub(crate) const fn is_locked(&self) -> bool {
        matches!(self.kind, StoreErrorKind::Locked { .. })
    }

    /// Whether another process saved first: load again, and decide again.
    #[must_use]
    pub const fn is_conflict(&self) -> bool {
        matches!(self.kind, StoreErrorKind::Conflict { .. })
    }

    /// Whether it is not known if the save happened: its first try was not answered, and by the second one another process
    /// had saved, before it or after it. Load again, and look whether what you saved is part of what is there.
    #[must_use]
    pub const fn is_unknown(&self) -> bool {
        matches!(self.kind, StoreErrorKind::Unknown { .. })
    }

    /// Whether the same call may succeed later. A save that ended so may have happened all the same.
    #[must_use]
    pub const fn is_unavailable(&self) -> bool {
        matches!(self.kind, StoreErrorKind::Unavailable { .. })
    }

    /// Whether the state was written by a newer version of the program.
    #[must_use]
    pub const fn is_newer(&self) -> bool {
        matches!(
            self.kind,
            StoreErrorKind::NewerFormat { .. } | StoreErrorKind::NewerFile { .. }
        )
    }
}

#[cfg(any(feature = "nats", feature = "postgres", feature = "redis"))]
impl From<crate::backend::AddressError> for StoreError {
    fn from(unusable: crate::backend::AddressError) -> Self {
        Self::refused(unusable.what, unusable.how)
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            StoreErrorKind::Conflict {
                key,
                expected,
                found,
            } => {
                write!(f, "state `{key}` was saved by somebody else: ")?;
                match expected {
                    Expected::Any => f.write_str("any version was expected")?,
                    Expected::Absent => f.write_str("none was expected")?,
                    Expected::Version(version) => write!(f, "version {version} was expected")?,
                }
                match found {
                    Some(found) => write!(f, ", version {found} was found"),
                    None => f.write_str(", something else was found"),
                }
            }
            StoreErrorKind::Unknown { key, .. } => write!(
                f,
                "it is not known whether state `{key}` was saved: an earlier try was not answered, and somebody else has \
                 saved since; load it again, and look"
            ),
            StoreErrorKind::NewerFormat { key, found, known } => write!(
                f,
                "state `{key}` is from a newer version of this program: its format is {found}, and only formats up \
                 to {known} are known here; run that version again, or restore an older state"
            ),
            StoreErrorKind::NewerFile { path, found } => write!(
                f,
                "{} was written by a newer version of adieu (layout {found}); run the program it was written with",
                path.display()
            ),
            StoreErrorKind::Unreadable { key, version, .. } => write!(
                f,
                "state `{key}` (version {version}) is not what this program expects; it was left as it is"
            ),
            StoreErrorKind::NotJson { key, .. } => {
                write!(f, "state `{key}` was not saved: it cannot be written as JSON")
            }
            StoreErrorKind::Corrupt {
                path,
                why,
                previous,
            } => write!(
                f,
                "{} is corrupt ({why}), and there is no previous generation to use instead ({previous}); nothing \
                 was changed: restore the file, or move it away to start afresh",
                path.display()
            ),
            StoreErrorKind::Locked { directory, holder } => {
                write!(f, "state folder {} is in use ", directory.display())?;
                match holder {
                    Some(pid) if *pid == std::process::id() => {
                        f.write_str("by this process already; open it once, and share the handle")
                    }
                    Some(pid) => write!(
                        f,
                        "by process {pid}; stop that one first, or give this one a folder of its own"
                    ),
                    None => f.write_str(
                        "by another process; stop that one first, or give this one a folder of its own",
                    ),
                }
            }
            StoreErrorKind::Io { doing, path, cause } => {
                write!(f, "cannot {doing} {}", path.display())?;
                match cause.kind() {
                    io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => f.write_str(
                        ": no space is left; what was saved before is intact, make room and start again",
                    ),
                    io::ErrorKind::ReadOnlyFilesystem => {
                        f.write_str(": it is on a read-only file system; give another folder")
                    }
                    io::ErrorKind::PermissionDenied => write!(
                        f,
                        ": permission denied; the user that runs this program must own it"
                    ),
                    io::ErrorKind::NotADirectory => f.write_str(": it is no folder"),
                    _ => Ok(()),
                }
            }
            StoreErrorKind::BadKey { key, why } => write!(f, "`{key}` cannot name a state: {why}"),
            StoreErrorKind::Closed => f.write_str(
                "the store is closed already: save before the release of resources, in the task itself or in an \
                 `on_cleanup` hook",
            ),
            StoreErrorKind::Unavailable { what, .. } => write!(f, "{what} is not available"),
            StoreErrorKind::Refused { what, .. } => f.write_str(what),
        }
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            StoreErrorKind::Unreadable { cause, .. } | StoreErrorKind::NotJson { cause, .. } => {
                Some(cause)
            }
            StoreErrorKind::Io { cause, .. } => Some(cause),
            StoreErrorKind::Unknown { cause, .. } => Some(cause),
            StoreErrorKind::Unavailable { cause, .. } | StoreErrorKind::Refused { cause, .. } => {
                Some(&**cause)
            }
            _ => None,
        }
    }
}
