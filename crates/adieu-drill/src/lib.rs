//! Proves from outside that a program stops well.
//!
//! A drill starts a program in any language, puts real traffic on it, stops it, and says with evidence what was kept
//! and what was lost. `adieu drill` is this crate with a command line around it.
//!
//! The [`Report`](report::Report) is what a drill leaves: a verdict, every check with its evidence, and the timeline of
//! each stop. [`Progress`](progress::Progress) hears about the checks while they run.

pub mod progress;
pub mod report;
