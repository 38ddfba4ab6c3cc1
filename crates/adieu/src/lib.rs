//! Services that end well: start in order, run supervised, stop on time, lose nothing.
//!
//! adieu gives a long-lived tokio program its life cycle. It catches the signals, opens resources in order, runs
//! tasks under supervision, and stops all of it in the reverse order inside one time budget. The end is certain,
//! and a report says what became of every part.
//!
//! | to … | see |
//! |---|---|
//! | run a service that owns its process | [`service`], [`Service`] |
//! | live inside another program or a test | [`scope`](fn@scope), [`Scope`] |
//! | open resources, start tasks, add hooks | [`App`] |
//! | notice the stop in a task, start more work | [`Stop`], [`Group`] |
//! | see what happened | [`Report`], [`Notice`], [`Exit`] |
//! | test how a service stops | feature `testing` |
//!
#![doc = include_str!("docs/tutorial.md")]

mod app;
mod cancel;
mod component;
mod conductor;
mod core;
#[cfg(doctest)]
mod doctests;
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
mod shard;
mod signal;
mod spawn;
mod stop;
mod supervise;
mod sys;
mod tally;
mod tracked;

pub mod lifecycle;
#[cfg(feature = "testing")]
pub mod testing;

pub use app::{App, ShutdownHandle};
pub use component::{BlockingPart, Ending, HookPart, Resource, TaskPart};
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
