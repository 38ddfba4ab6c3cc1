//! Schedules: jobs at intervals and by cron lines, started by one timer for all of them.
//!
//! [`App::every`](crate::App::every) and [`App::cron`](crate::App::cron) start one.

// `timetable.rs` computes when, `table.rs` holds what is planned and running, `scheduler.rs` waits and starts, `run.rs`
// is one run, `lease.rs` lets one of several replicas run it.

mod builder;
mod clock;
mod fenced;
mod lease;
mod run;
mod scheduler;
mod table;
mod timestamp;
mod timetable;

pub(crate) use builder::When;
pub use builder::{Overlap, ScheduleBuilder};
pub use fenced::Fenced;
pub use run::Run;
pub use timetable::CatchUp;

#[cfg(feature = "testing")]
pub(crate) use clock::{Clock, TestClock};
