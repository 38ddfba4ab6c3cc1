//! The state machine of a graceful shutdown: what happens when, and in which order. Events in, actions out.
//!
//! Nothing in this crate knows a clock, a runtime or a file. Time is a number handed in, so every order of
//! events can be tried in a test. The library `adieu` drives it, and has the public names of its phases, causes, outcomes
//! and exit codes.

mod budget;
mod event;
mod machine;
mod part;
mod state;
mod terms;

pub use budget::Budget;
pub use event::{Action, End, Event};
pub use machine::Machine;
pub use state::{Cause, ComponentId, Exit, Moment, Outcome, Phase, Role, StopSignal, Time};
pub use terms::Terms;
