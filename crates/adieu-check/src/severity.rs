//! How much a finding matters.

use std::fmt;

use serde::Serialize;

/// How much a finding matters. The default output and the exit code are about errors and warnings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Severity {
    /// Worth knowing: start-up, a one-shot tool, a single question to the file system, a guarded or
    /// cached call, an example.
    Note,
    /// Likely to break or block a stop, or in code whose role is not known.
    Warning,
    /// Breaks or blocks the stop of a service on a path that a service runs.
    Error,
}

impl Severity {
    /// One step less.
    pub(crate) fn lowered(self) -> Severity {
        match self {
            Severity::Error => Severity::Warning,
            Severity::Warning | Severity::Note => Severity::Note,
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        })
    }
}
