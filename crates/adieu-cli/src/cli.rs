//! The command line.

use clap::{Parser, Subcommand};

use crate::check::CheckArgs;
use crate::demo::DemoArgs;
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
    Demo(DemoArgs),
    Drill(Box<DrillArgs>),
    Health(HealthArgs),
    Run(Box<crate::run::RunArgs>),
}
