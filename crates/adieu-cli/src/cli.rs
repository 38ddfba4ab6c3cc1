//! The command line.

use clap::{Parser, Subcommand};

use crate::check::CheckArgs;
#[cfg(unix)]
use crate::demo::DemoArgs;
#[cfg(unix)]
use crate::drill::DrillArgs;
use crate::health::HealthArgs;

/// Services that end well.
#[derive(Debug, Parser)]
#[command(name = "adieu", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Find what breaks a graceful stop, in Python, Rust and deployment files.
    Check(CheckArgs),
    #[cfg(unix)]
    Demo(DemoArgs),
    #[cfg(unix)]
    Drill(Box<DrillArgs>),
    Health(HealthArgs),
    #[cfg(target_os = "linux")]
    Run(Box<crate::run::RunArgs>),
}
