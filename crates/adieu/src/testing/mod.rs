//! A test kit: a service under a paused clock, with fake signals, stopped at every await point in turn.
//!
//! Needs the feature `testing`. In `Cargo.toml`:
//!
//! ```toml
//! [dev-dependencies]
//! adieu = { version = "0.1", features = ["testing"] }
//! ```

mod probe;
mod rehearsal;
mod sweep;

pub(crate) use probe::{Probe, probed};
pub use rehearsal::{Rehearsal, rehearse, replica};
pub use sweep::{Sweep, Swept, sweep};
