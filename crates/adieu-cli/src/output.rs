//! Words to the person at the terminal, and what the exit code says.

use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;

/// How a command ended. The numbers are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Nothing to complain about.
    Clean,
    /// Something was found.
    Findings,
    /// The command was not understood, or cannot do what was asked.
    Usage,
    /// The program under drill could not be started.
    NoStart,
}

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> ExitCode {
        ExitCode::from(match ending {
            Ending::Clean => 0,
            Ending::Findings => 1,
            Ending::Usage => 2,
            Ending::NoStart => 4,
        })
    }
}

/// Says what went wrong. A closed standard error is nobody's problem.
pub(crate) fn error(message: impl Display) {
    let _ = writeln!(std::io::stderr().lock(), "error: {message}");
}

/// Says what is worth knowing and stops nothing.
pub(crate) fn note(message: impl Display) {
    let _ = writeln!(std::io::stderr().lock(), "note: {message}");
}
