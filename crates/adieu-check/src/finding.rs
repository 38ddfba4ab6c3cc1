//! What a check says: a place, a rule, a sentence, and the way down to the cause.

use std::sync::Arc;

use serde::Serialize;

use crate::fix::Fix;
use crate::rule::Code;
use crate::severity::Severity;

/// A place in a file. Lines and columns count from one; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Place {
    /// The line, from one.
    pub line: u32,
    /// The column in characters, from one.
    pub column: u32,
}

impl Place {
    /// The top of a file, for what concerns the file as a whole.
    pub const TOP: Place = Place { line: 1, column: 1 };

    /// A line known only as a whole.
    #[must_use]
    pub const fn line(line: u32) -> Place {
        Place { line, column: 1 }
    }
}

/// One step from the async function down to what blocks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// The file of this step.
    pub path: Arc<str>,
    /// Where in that file.
    #[serde(flatten)]
    pub place: Place,
    /// What is called there.
    pub call: String,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The file, relative to where the check was started.
    pub path: Arc<str>,
    /// Where in the file.
    #[serde(flatten)]
    pub place: Place,
    /// The rule.
    pub code: Code,
    /// How much it matters.
    pub severity: Severity,
    /// What is wrong and what to do instead.
    pub message: String,
    /// The way down from the call to the cause; empty when the call is the cause.
    pub trace: Vec<Step>,
    /// The edit that repairs it, where one is certain not to change anything else.
    #[serde(skip)]
    pub fix: Option<Fix>,
}

impl Finding {
    pub(crate) fn new(
        path: &Arc<str>,
        place: Place,
        code: Code,
        message: impl Into<String>,
    ) -> Finding {
        Finding {
            path: Arc::clone(path),
            place,
            code,
            severity: code.rule().map_or(Severity::Warning, |rule| rule.severity),
            message: message.into(),
            trace: Vec::new(),
            fix: None,
        }
    }

    /// With what it matters at its place, in the place of what its rule says.
    pub(crate) fn rated(mut self, severity: Severity) -> Finding {
        self.severity = severity;
        self
    }

    pub(crate) fn with_fix(mut self, fix: Option<Fix>) -> Finding {
        self.fix = fix;
        self
    }
}

/// Something the check could not look at, said rather than guessed. Never a failure.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Notice {
    /// The file.
    pub path: Arc<str>,
    /// Why it was left out.
    pub message: String,
}
