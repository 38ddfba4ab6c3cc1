//! Proves from outside that a program stops well.
//!
//! A drill starts a program in any language, puts real traffic on it, stops it, and says with evidence what was kept
//! and what was lost. `adieu drill` is this crate with a command line around it.
//!
//! The [`Report`](report::Report) is what a drill leaves: a verdict, every check with its evidence, and the timeline of
//! each stop. [`Progress`](progress::Progress) hears about the checks while they run.

mod check;
pub mod compare;
mod discover;
mod drill;
mod error;
pub mod file;
mod finding;
mod flight;
mod pacer;
mod place;
mod process;
pub mod progress;
mod record;
mod reference;
pub mod render;
pub mod report;
mod run;
mod select;
mod signal;
mod stage;
#[cfg(windows)]
mod sys;
mod threshold;
mod unready;
mod wire;

pub use check::{CheckInfo, checks};
pub use drill::Drill;
pub use error::{CannotDrill, CannotStart};
pub use process::Ready;
pub use select::find_check;
pub use signal::StopSignal;
pub use threshold::duration as parse_duration;

/// The guide's page, so that its code compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/drill.md")]
pub struct Guide;
