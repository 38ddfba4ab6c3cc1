//! A test kit: a service under a paused clock, with fake signals, stopped at every await point in turn.
//!
//! Needs the feature `testing`. In `Cargo.toml`:
//!
//! ```toml
//! [dev-dependencies]
//! adieu = { version = "0.1", features = ["testing"] }
//! ```

mod await_points;
mod rehearsal;
mod stop;
mod sweep;

pub use rehearsal::{Rehearsal, rehearse, replica};
pub use stop::{RequestStop, stop};
pub use sweep::{Sweep, Swept, sweep};
