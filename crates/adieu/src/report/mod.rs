//! What is said about a service: typed notices while it runs, one [`Report`] at its end, and the exit code.

mod builder;
mod component_status;
mod deferred_log;
mod json;
mod log;
pub(crate) mod lost_work;
mod notice;
#[expect(
    clippy::module_inception,
    reason = "the type that the directory is about"
)]
mod report;
mod sink;
mod snapshot;
mod text;
mod unhandled;
pub(crate) mod writer;

#[doc(inline)]
pub use adieu_lifecycle::{Cause, Exit, Outcome, Phase};
pub(crate) use builder::ReportBuilder;
pub use component_status::ComponentStatus;
pub(crate) use deferred_log::{DeferredLog, DeferredLogs};
#[cfg(feature = "admin")]
pub(crate) use json::{millis, pretty};
pub use notice::{ComponentKind, Notice};
#[doc(no_inline)]
pub use report::Report;
pub use report::{Blocked, ComponentReport, LostWork, PhaseReport};
pub(crate) use sink::{NoticeListener, NoticeSink, SinkHandle};
pub(crate) use snapshot::{ComponentSnapshot, Snapshot};
pub use unhandled::{AfterFailure, Unhandled};
pub use writer::PrintReport;
