//! Words to the person at the terminal, and what the exit code says.

use std::fmt::Display;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

/// How a command ended. The numbers are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitKind {
    /// Nothing to complain about.
    Clean,
    /// Something was found.
    Findings,
    /// The command was not understood, or cannot do what was asked.
    Usage,
    /// Nothing was judged, so nothing can be said.
    NotJudged,
    /// The program under drill could not be started.
    NoStart,
}

impl From<ExitKind> for ExitCode {
    fn from(ending: ExitKind) -> ExitCode {
        ExitCode::from(match ending {
            ExitKind::Clean => 0,
            ExitKind::Findings => 1,
            ExitKind::Usage => 2,
            ExitKind::NotJudged => 3,
            ExitKind::NoStart => 4,
        })
    }
}

/// Writes to standard output. A reader that stopped reading has what it wanted, and the exit code still tells; a disk that
/// is full is another matter.
pub(crate) fn print(text: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(format!("cannot write to standard output: {error}"))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Prints an error. A closed standard error is ignored.
pub(crate) fn error(message: impl Display) {
    let _ = writeln!(std::io::stderr().lock(), "error: {message}");
}

/// Says what is worth knowing and stops nothing.
pub(crate) fn note(message: impl Display) {
    let _ = writeln!(std::io::stderr().lock(), "note: {message}");
}
