//! The heart: what happens when, and in which order. Events in, actions out.
//!
//! Nothing in this folder knows a clock, a runtime or a file. Time is a number handed in, so every order of
//! events can be tried in a test.

mod budget;
mod event;
mod machine;
mod part;
mod plan;
mod state;

pub use budget::Budget;
pub use event::{Action, End, Event};
pub use machine::Machine;
pub use plan::{Plan, Terms};
pub use state::{Cause, Exit, Moment, Outcome, PartId, Phase, Role, StopSignal, Time};
