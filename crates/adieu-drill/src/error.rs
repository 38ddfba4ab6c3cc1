//! Why a drill could not be held.

use std::error::Error;
use std::fmt;

/// Why a drill could not be held. The program is gone whenever this is returned.
#[derive(Debug)]
#[non_exhaustive]
pub enum DrillError {
    /// What was asked for makes no sense; the sentence says what and what to do.
    Usage(String),
    /// The program could not be started, or was never ready.
    Start(StartError),
}

/// Why the program could not be started.
#[derive(Debug)]
pub struct StartError {
    /// One sentence.
    pub reason: String,
    /// The last lines it printed, if any.
    pub output: Vec<String>,
}

impl DrillError {
    pub(crate) fn start(reason: impl Into<String>, output: Vec<String>) -> Self {
        Self::Start(StartError {
            reason: reason.into(),
            output,
        })
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        if !self.output.is_empty() {
            f.write_str("\nthe last it printed:")?;
            for line in &self.output {
                write!(f, "\n  {line}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for DrillError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(sentence) => f.write_str(sentence),
            Self::Start(start) => start.fmt(f),
        }
    }
}

impl Error for DrillError {}
