//! How findings are written: for people, for programs, for code hosts.

mod budget;
mod causes;
mod diff;
mod fingerprint;
mod github;
mod gitlab;
mod json;
mod junit;
mod plain;
mod rdjson;
mod sarif;
mod statistics;
mod text;

use std::fmt;
use std::io::{self, Write};

pub use budget::{budgets, budgets_json};
pub use causes::Cause;
pub use diff::diff;
pub use plain::plain;
pub use statistics::{statistics, statistics_json};

use crate::check::Outcome;

/// A way to write findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// `path:line:column: CODE message`, with the way down below.
    #[default]
    Text,
    /// One versioned object.
    Json,
    /// SARIF 2.1.0.
    Sarif,
    /// Workflow commands that annotate a pull request.
    Github,
    /// JUnit: every finding is a test that failed.
    Junit,
    /// GitLab's code quality report.
    Gitlab,
    /// reviewdog's diagnostics.
    Rdjson,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Text => "text",
            Format::Json => "json",
            Format::Sarif => "sarif",
            Format::Github => "github",
            Format::Junit => "junit",
            Format::Gitlab => "gitlab",
            Format::Rdjson => "rdjson",
        })
    }
}

/// Writes what was found.
pub fn write(outcome: &Outcome, format: Format, out: &mut dyn Write) -> io::Result<()> {
    match format {
        Format::Text => text::write(outcome, out),
        Format::Json => json::write(outcome, out),
        Format::Sarif => sarif::write(outcome, out),
        Format::Github => github::write(outcome, out),
        Format::Junit => junit::write(outcome, out),
        Format::Gitlab => gitlab::write(outcome, out),
        Format::Rdjson => rdjson::write(outcome, out),
    }
}
