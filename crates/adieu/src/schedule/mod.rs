//! Schedules: jobs at intervals and by cron lines, started by one timer for all of them.
//!
//! `timetable.rs` reckons when, `agenda.rs` keeps what is planned and running, `keeper.rs` waits and starts, `run.rs`
//! is one run, `lease.rs` sees to it that of several replicas one runs it.

mod agenda;
mod clock;
mod fenced;
mod keeper;
mod lease;
mod part;
mod run;
mod tick;
mod timetable;

pub use fenced::Fenced;
pub use part::{Overlap, SchedulePart};
pub use run::Run;
pub use timetable::CatchUp;

pub(crate) use agenda::Agenda;
#[cfg(feature = "testing")]
pub(crate) use clock::{Clock, Played};
