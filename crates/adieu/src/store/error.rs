//! What can go wrong with state, said so that the reader knows what to do and what is still there.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::contract::{Expected, Version};
use crate::error::BoxError;

/// Why state could not be loaded or saved. What was saved before is still there, whatever this is.
#[derive(Debug)]
pub struct StoreError {
    kind: Kind,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Conflict {
        key: String,
        expected: Expected,
        found: Option<Version>,
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
        folder: PathBuf,
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
    pub(crate) const fn new(kind: Kind) -> Self {
        Self { kind }
    }

    pub(crate) fn io(doing: &'static str, path: &Path, cause: io::Error) -> Self {
        let path = path.to_owned();
        Self::new(Kind::Io { doing, path, cause })
    }

    /// Somebody else saved first.
    #[must_use]
    pub fn conflict(key: impl Into<String>, expected: Expected, found: Option<Version>) -> Self {
        let key = key.into();
        Self::new(Kind::Conflict {
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
        Self::new(Kind::Unavailable { what, cause })
    }

    /// The store says no, and will next time: a wrong password, a table that does not exist.
    pub fn refused(what: impl Into<String>, cause: impl Into<BoxError>) -> Self {
        let (what, cause) = (what.into(), cause.into());
        Self::new(Kind::Refused { what, cause })
    }

    /// Names what is lost by it.
    pub(crate) fn not_saved(self, key: &str) -> Self {
        match self.kind {
            Kind::Unavailable { what, cause } => {
                let what = format!("state `{key}` was not saved: {what}");
                Self::new(Kind::Unavailable { what, cause })
            }
            kind => Self::new(kind),
        }
    }

    pub(crate) const fn is_locked(&self) -> bool {
        matches!(self.kind, Kind::Locked { .. })
    }

    /// Whether somebody else saved first: load again, and decide again.
    #[must_use]
    pub const fn is_conflict(&self) -> bool {
        matches!(self.kind, Kind::Conflict { .. })
    }

    /// Whether the same call may succeed later.
    #[must_use]
    pub const fn is_unavailable(&self) -> bool {
        matches!(self.kind, Kind::Unavailable { .. })
    }

    /// Whether the state was written by a newer version of the program.
    #[must_use]
    pub const fn is_newer(&self) -> bool {
        matches!(self.kind, Kind::NewerFormat { .. } | Kind::NewerFile { .. })
    }
}

#[cfg(any(feature = "nats", feature = "postgres", feature = "redis"))]
impl From<crate::engine::Unusable> for StoreError {
    fn from(unusable: crate::engine::Unusable) -> Self {
        Self::refused(unusable.what, unusable.how)
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Conflict {
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
            Kind::NewerFormat { key, found, known } => write!(
                f,
                "state `{key}` is from a newer version of this program: its format is {found}, and only formats up \
                 to {known} are known here; run that version again, or restore an older state"
            ),
            Kind::NewerFile { path, found } => write!(
                f,
                "{} was written by a newer version of adieu (layout {found}); run the program it was written with",
                path.display()
            ),
            Kind::Unreadable { key, version, .. } => write!(
                f,
                "state `{key}` (version {version}) is not what this program expects; it was left as it is"
            ),
            Kind::NotJson { key, .. } => {
                write!(f, "state `{key}` was not saved: it cannot be written as JSON")
            }
            Kind::Corrupt {
                path,
                why,
                previous,
            } => write!(
                f,
                "{} is corrupt ({why}), and there is no previous generation to use instead ({previous}); nothing \
                 was changed: restore the file, or move it away to start afresh",
                path.display()
            ),
            Kind::Locked { folder, holder } => {
                write!(f, "state folder {} is in use ", folder.display())?;
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
            Kind::Io { doing, path, cause } => {
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
            Kind::BadKey { key, why } => write!(f, "`{key}` cannot name a state: {why}"),
            Kind::Closed => f.write_str(
                "the store is closed already: save before the release of resources, in the task itself or in an \
                 `on_cleanup` hook",
            ),
            Kind::Unavailable { what, .. } => write!(f, "{what} is not available"),
            Kind::Refused { what, .. } => f.write_str(what),
        }
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            Kind::Unreadable { cause, .. } | Kind::NotJson { cause, .. } => Some(cause),
            Kind::Io { cause, .. } => Some(cause),
            Kind::Unavailable { cause, .. } | Kind::Refused { cause, .. } => Some(&**cause),
            _ => None,
        }
    }
}
