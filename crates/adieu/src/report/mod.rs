//! What is said about a life: typed notices while it lasts, one total report at its end.

#[cfg(feature = "net")]
mod aside;
mod condition;
mod herald;
mod json;
mod ledger;
mod log;
mod notice;
mod status;
mod summary;
mod text;

#[cfg(feature = "net")]
pub(crate) use aside::{Aside, Asides};
#[cfg(feature = "admin")]
pub(crate) use condition::Condition;
pub(crate) use herald::{Herald, Listener, Voice};
pub(crate) use json::check_writable;
#[cfg(feature = "admin")]
pub(crate) use json::millis;
pub(crate) use ledger::Ledger;
pub use notice::{Notice, PartKind};
pub use summary::{Blocked, Loss, PartReport, PhaseReport, Report};
