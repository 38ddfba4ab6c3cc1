//! What is said about a life: typed notices while it lasts, one total report at its end.

mod json;
mod ledger;
mod log;
mod notice;
mod summary;
mod text;

pub(crate) use json::check_writable;
pub(crate) use ledger::Ledger;
pub(crate) use log::log;
pub use notice::{Notice, PartKind};
pub use summary::{Blocked, Loss, PartReport, PhaseReport, Report};
