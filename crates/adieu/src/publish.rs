//! The report's way out: to a file, to standard error, once, whoever comes first to the end.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::core::Core;
use crate::lifecycle::Exit;
use crate::report::{Ledger, Report};

/// When the report is printed to standard error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Print {
    /// On a terminal, and everywhere if the end was not clean.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

pub(crate) struct Publisher {
    file: Option<PathBuf>,
    print: Print,
    begun: AtomicBool,
    report: OnceLock<Report>,
    written: OnceLock<()>,
}

impl Publisher {
    pub(crate) const fn new(file: Option<PathBuf>, print: Print) -> Self {
        Self {
            file,
            print,
            begun: AtomicBool::new(false),
            report: OnceLock::new(),
            written: OnceLock::new(),
        }
    }

    /// Makes the report and writes its file; returns when that is done, by whomever. `exit` counts if the
    /// machine has not said how it ended.
    pub(crate) fn publish(&self, core: &Core, ledger: &Mutex<Ledger>, exit: Exit) {
        if self.begun.swap(true, Ordering::AcqRel) {
            self.written.wait();
            return;
        }
        let report = ledger
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .report(core, core.now(), exit);
        let report = self.report.get_or_init(|| report);
        if let Some(path) = &self.file
            && let Err(error) = report.write_to(path)
        {
            let path = path.display();
            complain(format_args!(
                "adieu: the report could not be written to {path}: {error}\n"
            ));
        }
        let _ = self.written.set(());
    }

    /// Prints the report, if it is there and wanted.
    pub(crate) fn print(&self) {
        if let Some(report) = self.report.get() {
            self.print_one(report);
        }
    }

    /// Prints a report of a life that never began.
    pub(crate) fn print_one(&self, report: &Report) {
        let print = match self.print {
            Print::Always => true,
            Print::Never => false,
            Print::Auto => report.exit() != Exit::Clean || std::io::stderr().is_terminal(),
        };
        if print {
            complain(format_args!("{report}"));
        }
    }

    pub(crate) fn report(&self) -> Option<Report> {
        self.report.get().cloned()
    }
}

/// Writes to standard error; `eprint!` would panic if nobody is there to read it.
pub(crate) fn complain(text: std::fmt::Arguments<'_>) {
    let _ = std::io::stderr().lock().write_fmt(text);
}
