//! Services that end well.

mod app;
mod cancel;
mod component;
mod conductor;
mod core;
mod duration;
mod error;
mod group;
mod inbox;
mod panics;
mod platform;
mod publish;
mod report;
mod roster;
mod scope;
mod seat;
mod seated;
mod sentinel;
mod service;
mod settings;
mod setup;
mod signal;
mod spawn;
mod stop;
mod supervise;
mod sys;
mod tracked;

pub mod lifecycle;
#[cfg(feature = "testing")]
pub mod testing;

pub use app::{App, ShutdownHandle};
pub use component::{Ending, Resource, TaskPart};
pub use duration::{InvalidDuration, parse_duration};
pub use error::{BoxError, Error, Failure, Result, TaskError, TooLate};
pub use group::{Cancelled, Group, GroupCause, GroupError};
pub use lifecycle::{Cause, Exit, Outcome, Phase, Plan, StopSignal};
pub use publish::Print;
pub use report::{Blocked, Loss, Notice, PartKind, PartReport, PhaseReport, Report};
pub use scope::{Scope, scope};
pub use service::{Service, service};
pub use spawn::TaskHandle;
pub use stop::{Shield, Stop};
pub use supervise::Restart;
