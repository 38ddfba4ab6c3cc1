//! Services that end well.

mod app;
mod cancel;
mod component;
mod conductor;
mod core;
mod duration;
mod error;
#[cfg(feature = "axum")]
mod extract;
mod gate;
mod group;
mod inbox;
#[cfg(feature = "net")]
mod net;
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
#[cfg(feature = "net")]
pub use component::{Conn, TcpPart};
pub use component::{Ending, Resource, TaskPart};
#[cfg(feature = "http")]
pub use component::{HttpPart, Limits, Upload};
pub use duration::{InvalidDuration, parse_duration};
pub use error::{BoxError, Error, Failure, Result, TaskError, TooLate};
#[cfg(feature = "axum")]
pub use extract::Stopping;
pub use group::{Cancelled, Group, GroupCause, GroupError};
pub use lifecycle::{Cause, Exit, Outcome, Phase, Plan, StopSignal};
#[cfg(feature = "net")]
pub use net::{Listen, Listener};
pub use publish::Print;
pub use report::{Blocked, Loss, Notice, PartKind, PartReport, PhaseReport, Report};
pub use scope::{Scope, scope};
pub use service::{Service, service};
pub use spawn::TaskHandle;
pub use stop::{Shield, Stop};
pub use supervise::Restart;
