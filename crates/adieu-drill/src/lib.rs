//! Proves from outside that a program stops well.
//!
//! A drill starts a program in any language, puts real traffic on it, stops it, and says with evidence what was kept
//! and what was lost. `adieu drill` is this crate with a command line around it.
//!
//! The [`Report`](report::Report) is what a drill leaves: a verdict, every check with its evidence, and the timeline of
//! each stop. [`Progress`](progress::Progress) hears about the checks while they run.

mod arrival;
mod behind;
mod capabilities;
mod check;
pub mod compare;
mod conntrack;
mod context;
mod drill;
mod endpoint;
mod error;
mod expected;
pub mod file;
mod finding;
mod in_flight;
mod jobs;
mod plan;
mod process;
pub mod progress;
mod raw;
pub mod render;
pub mod report;
mod rollout;
mod running;
mod scratch;
mod starvation;
mod stop_log;
mod suite;
#[cfg(windows)]
mod sys;
mod threshold;

pub use behind::{Behind, Profile, behind_checks};
pub use check::{CheckInfo, checks};
pub use drill::Drill;
pub use error::{DrillError, StartError};
pub use jobs::{Jobs, jobs_checks};
pub use plan::find_check;
#[cfg(unix)]
pub use process::guard;
pub use process::{Ready, StopSignal};
pub use rollout::{Connections, Rollout, rollout_checks};

/// The guide's page, so that its code compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/drill.md")]
pub struct Guide;
