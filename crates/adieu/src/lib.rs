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
//! | run jobs by the clock | feature `schedule` |
//! | see what happened | [`Report`], [`Notice`], [`Exit`] |
//! | keep state over restarts | feature `state` |
//! | be asked how it is: probes, checks, metrics | feature `admin` |
//! | take updates from a long poll, or jobs from a queue | [`App::poller`], [`App::consume`], [`queue`] |
//! | test how a service stops | feature `testing` |
//!
#![doc = include_str!("docs/tutorial.md")]

#[cfg(feature = "admin")]
mod admin;
mod app;
mod cancel;
mod component;
mod conductor;
mod core;
#[cfg(doctest)]
mod doctests;
mod duration;
#[cfg(any(feature = "nats", feature = "postgres", feature = "redis"))]
mod engine;
mod error;
#[cfg(feature = "http")]
mod extract;
mod gate;
mod group;
#[cfg(all(unix, feature = "net"))]
mod handoff;
mod hear;
mod inbox;
mod intake;
mod losses;
#[cfg(feature = "net")]
mod net;
mod panics;
mod platform;
mod publish;
mod reload;
mod report;
mod retry;
mod roster;
#[cfg(feature = "schedule")]
mod schedule;
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
#[cfg(feature = "state")]
mod store;
mod supervise;
mod sys;
#[cfg(unix)]
mod systemd;
mod tally;
mod tracked;

pub mod lifecycle;
pub mod queue;
#[cfg(feature = "testing")]
pub mod testing;

#[cfg(feature = "admin")]
pub use admin::{Admin, AdminBody, AdminFuture, AdminPort, AdminRoutes, CheckPart};
pub use app::{App, ShutdownHandle};
pub use component::{BlockingPart, ConsumerPart, Ending, HookPart, Resource, TaskPart};
#[cfg(feature = "state")]
pub use component::{Checkpoint, Worker, WorkerPart};
#[cfg(feature = "net")]
pub use component::{Conn, TcpPart};
#[cfg(feature = "http")]
pub use component::{HttpPart, Limits, Upload};
#[cfg(feature = "state")]
pub use component::{PollerPart, StorePart};
pub use duration::{InvalidDuration, parse_duration};
pub use error::{BoxError, Error, Failure, Result, TaskError, TooLate};
#[cfg(feature = "http")]
pub use extract::Stopping;
pub use group::{Cancelled, Group, GroupCause, GroupError};
pub use hear::Signal;
pub use lifecycle::{Cause, Exit, Outcome, Phase, Plan, StopSignal};
#[cfg(feature = "net")]
pub use net::{Listen, Listener};
pub use platform::{Platform, Surroundings};
pub use publish::Print;
#[cfg(all(target_os = "linux", feature = "watch"))]
pub use reload::FileWatch;
pub use reload::{ReloadPart, Watched};
pub use report::{Blocked, Loss, Notice, PartKind, PartReport, PhaseReport, Report};
pub use retry::{Backoff, Later, Never};
#[cfg(feature = "schedule")]
pub use schedule::{CatchUp, Fenced, Overlap, Run, SchedulePart};
pub use scope::{Scope, scope};
pub use service::{Service, service};
pub use spawn::TaskHandle;
pub use stop::{Shield, Stop};
#[cfg(feature = "state")]
pub use store::{
    Entry, Expected, FileStore, Record, State, Store, StoreError, StoreFuture, StoreHandle,
    Version, Versioned,
};
#[cfg(all(feature = "state", feature = "nats"))]
pub use store::{NatsConnect, NatsStore};
#[cfg(all(feature = "state", feature = "postgres"))]
pub use store::{PostgresConnect, PostgresStore};
#[cfg(all(feature = "state", feature = "redis"))]
pub use store::{RedisConnect, RedisStore};
pub use supervise::Restart;
