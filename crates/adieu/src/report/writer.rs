//! Writes the report to a file and to standard error, once: the driver and the hard exit may both come to it.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use adieu_lifecycle::Exit;

use crate::report::Report;

/// When the report is printed to standard error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PrintReport {
    /// On a terminal, and everywhere if the end was not clean.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

pub(crate) struct ReportWriter {
    file: Option<PathBuf>,
    print: PrintReport,
    begun: AtomicBool,
    report: OnceLock<Report>,
    written: OnceLock<()>,
}

impl ReportWriter {
    pub(crate) const fn new(file: Option<PathBuf>, print: PrintReport) -> Self {
        Self {
            file,
            print,
            begun: AtomicBool::new(false),
            report: OnceLock::new(),
            written: OnceLock::new(),
        }
    }

    /// Makes the report and writes its file; returns when that is done, by this call or by an earlier one.
    pub(crate) fn publish(&self, make: impl FnOnce() -> Report) {
        if self.begun.swap(true, Ordering::AcqRel) {
            self.written.wait();
            return;
        }
        let report = self.report.get_or_init(make);
        if let Some(path) = &self.file
            && let Err(error) = report.write_to(path)
        {
            let path = path.display();
            write_stderr(format_args!(
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
            PrintReport::Always => true,
            PrintReport::Never => false,
            PrintReport::Auto => report.exit() != Exit::Clean || std::io::stderr().is_terminal(),
        };
        if print {
            write_stderr(format_args!("{report}"));
        }
    }

    pub(crate) fn report(&self) -> Option<Report> {
        self.report.get().cloned()
    }
}

/// Writes to standard error; `eprint!` would panic if it is closed.
pub(crate) fn write_stderr(text: std::fmt::Arguments<'_>) {
    let _ = std::io::stderr().lock().write_fmt(text);
}
