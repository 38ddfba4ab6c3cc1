//! Proves from outside that a program stops well.
//!
//! A drill starts a program in any language, puts real traffic on it, stops it, and says with evidence what was kept
//! and what was lost. `adieu drill` is this crate with a command line around it.
//!
//! The [`Report`](report::Report) is what a drill leaves: a verdict, every check with its evidence, and the timeline of
//! each stop. [`Progress`](progress::Progress) hears about the checks while they run.

#[cfg(unix)]
mod check;
pub mod compare;
#[cfg(unix)]
mod discover;
#[cfg(unix)]
mod drill;
#[cfg(unix)]
mod error;
pub mod file;
#[cfg(unix)]
mod finding;
#[cfg(unix)]
mod flight;
#[cfg(unix)]
mod pacer;
#[cfg(unix)]
mod place;
#[cfg(unix)]
mod process;
pub mod progress;
#[cfg(unix)]
mod record;
pub mod render;
pub mod report;
#[cfg(unix)]
mod run;
#[cfg(unix)]
mod select;
#[cfg(unix)]
mod signal;
#[cfg(unix)]
mod stage;
#[cfg(unix)]
mod threshold;
#[cfg(unix)]
mod wire;

#[cfg(unix)]
pub use check::{CheckInfo, checks};
#[cfg(unix)]
pub use drill::Drill;
#[cfg(unix)]
pub use error::{CannotDrill, CannotStart};
#[cfg(unix)]
pub use process::Ready;
#[cfg(unix)]
pub use select::find_check;
#[cfg(unix)]
pub use signal::StopSignal;
#[cfg(unix)]
pub use threshold::duration as parse_duration;

/// The guide's page, so that its code compiles.
#[cfg(all(doctest, unix))]
#[doc = include_str!("../../../docs/drill.md")]
pub struct Guide;
