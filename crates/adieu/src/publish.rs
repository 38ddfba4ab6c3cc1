//! The report's way out: to a file, to standard error, once, whoever comes first to the end.

use std::io::IsTerminal;
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
}

impl Publisher {
    pub(crate) const fn new(file: Option<PathBuf>, print: Print) -> Self {
        Self {
            file,
            print,
            begun: AtomicBool::new(false),
            report: OnceLock::new(),
        }
    }

    /// Makes the report and writes it. `exit` counts if the machine has not said how it ended.
    pub(crate) fn publish(&self, core: &Core, ledger: &Mutex<Ledger>, exit: Exit) {
        if self.begun.swap(true, Ordering::AcqRel) {
            return;
        }
        let report = ledger
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .report(core, core.now(), exit);
        self.write(&report);
        let _ = self.report.set(report);
    }

    pub(crate) fn write(&self, report: &Report) {
        if let Some(path) = &self.file
            && let Err(error) = report.write_to(path)
        {
            eprintln!(
                "adieu: the report could not be written to {}: {error}",
                path.display()
            );
        }
        let print = match self.print {
            Print::Always => true,
            Print::Never => false,
            Print::Auto => report.exit() != Exit::Clean || std::io::stderr().is_terminal(),
        };
        if print {
            eprint!("{report}");
        }
    }

    pub(crate) fn report(&self) -> Option<Report> {
        self.report.get().cloned()
    }
}
