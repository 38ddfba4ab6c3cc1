//! `adieu run`: a life cycle around any program.
//!
//! A scope of the library whose part is a process: what comes in as a signal becomes a stop with its phases,
//! the process gets its signal when its turn comes, and is killed with all its descendants when its time is over.
//!
//! One thread does everything but the log, which may have a reader that does not read.

mod accept_probe;
mod address;
mod args;
mod backlog;
mod cloak;
mod command;
mod command_file;
mod exit_code;
mod exit_status;
#[cfg_attr(not(feature = "front"), path = "no_front.rs")]
mod front;
mod generation;
mod log;
mod notify;
mod options;
mod orphan_guard;
mod probe;
mod process_tree;
mod procfs;
mod readiness;
mod relay;
mod service;
mod signals;
mod sockets;
mod spawn_error;
mod stopping;
mod supervisor;
mod sys;
mod terminal;
mod timeouts;
mod watch;
mod worker;

use std::process::ExitCode;

pub(crate) use args::RunArgs;

use crate::output::{self, ExitKind};

/// Exit codes that are neither the command's nor a signal's.
pub(crate) mod codes {
    /// `adieu run` itself failed: a port is taken, no process can be made.
    pub(crate) const OWN: u8 = 125;
    /// The command was found and cannot be executed.
    pub(crate) const NOT_EXECUTABLE: u8 = 126;
    /// The command was not found.
    pub(crate) const NOT_FOUND: u8 = 127;
}

/// Keeps signals that come before they have a handler. The kernel drops what PID 1 has no handler for, and a stop that
/// is asked for in its first moment would never come.
pub(crate) fn catch_signals_early() {
    sys::keep_signals(signals::heard());
}

pub(crate) fn run(args: RunArgs) -> ExitCode {
    let options = match options::Options::from_args(args) {
        Ok(options) => options,
        Err(problem) => {
            output::error(problem);
            return ExitKind::Usage.into();
        }
    };
    ExitCode::from(service::run(options))
}
