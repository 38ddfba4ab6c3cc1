//! `adieu run`, where there is none.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Args;

use crate::output::{self, ExitKind};

/// Give any program a life cycle. Needs Linux.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _words: Vec<OsString>,
}

pub(crate) const fn catch_signals_early() {}

pub(crate) fn run(_: RunArgs) -> ExitCode {
    output::error(
        "`adieu run` needs Linux: it forwards signals, reaps processes and hands sockets on, and this system has none \
         of these. A program that links the library has all of its life cycle here too; `adieu drill` shows how it stops",
    );
    ExitKind::Usage.into()
}
