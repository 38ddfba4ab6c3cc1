//! `adieu`: graceful shutdown from the command line.

mod check;
mod cli;
mod demo;
mod drill;
mod health;
mod interrupt;
mod one_command;
mod output;
#[cfg_attr(not(target_os = "linux"), path = "run_unsupported.rs")]
mod run;
mod ui;

use std::process::ExitCode;

/// Parsing makes millions of small allocations on all cores; see Cargo.toml.
#[cfg(unix)]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[cfg(windows)]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|word| word == "run") {
        run::catch_signals_early();
    }
    match cli::Cli::read().command {
        cli::Command::Check(args) => check::run(&args),
        cli::Command::Demo(args) => demo::run(&args),
        cli::Command::Drill(args) => drill::run(&args),
        cli::Command::Health(args) => health::run(args),
        cli::Command::Run(args) => run::run(*args),
    }
}
