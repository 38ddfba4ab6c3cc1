//! Graceful shutdown for tokio services.
//!
//! adieu handles signals, drains in-flight work, closes resources in reverse order and exits within one grace period,
//! with a report on every component. Its HTTP and TCP servers lose no request at a shutdown: they drain the accept
//! queue, and answer what arrives on keep-alive connections.
//!
//! | to … | see |
//! |---|---|
//! | run a service that owns its process | [`service`], [`Service`] |
//! | live inside another program or a test | [`scope`](fn@scope), [`Scope`] |
//! | open resources, start tasks, add hooks | [`App`] |
//! | see the stop in a task, start more work | [`Stop`], [`Group`] |
//! | serve HTTP, gRPC or plain TCP | [HTTP](#http), [`http`], [`net`] (features `http`, `axum`, `net`, `tls`) |
//! | run jobs at intervals and by cron expressions | feature `schedule` |
//! | see what happened | [`Report`], [`report`] |
//! | keep state across restarts | feature `state` |
//! | liveness, readiness, checks, metrics | feature `admin` |
//! | take updates from a long poll, or jobs from a queue | [`App::poller`], [`App::consume`], [`queue`] |
//! | test how a service stops | feature `testing` |
//!
#![doc = include_str!("docs/tutorial.md")]
// docs.rs marks what needs a feature.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "admin")]
pub mod admin;
mod app;
pub mod component;
#[cfg(doctest)]
mod doctests;
mod error;
#[cfg(all(unix, feature = "net"))]
mod handoff;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "net")]
pub mod net;
#[cfg(feature = "otel")]
mod otel;
pub mod platform;
pub mod queue;
pub mod reload;
pub mod report;
mod runtime;
#[cfg(feature = "schedule")]
pub mod schedule;
pub mod signal;
#[cfg(feature = "state")]
pub mod state;
#[cfg(feature = "testing")]
pub mod testing;
mod tracking;
mod util;

/// How a [`Group`] ends: what its tasks returned, which one failed, and which were cancelled.
pub mod group {
    pub use crate::runtime::group::{Cancelled, GroupCause, GroupError};
}

/// When work that failed is tried again: how long to wait, and the errors that say so themselves.
pub mod retry {
    pub use crate::util::retry::{Backoff, Permanent, RetryAfter};
}

/// Parsers of untrusted bytes, for the fuzz targets. Only in a build with `--cfg fuzzing`.
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing {
    pub use crate::handoff::fuzzing::*;
    pub use crate::http::fuzzing::*;
    pub use crate::state::file::fuzzing::*;
}

pub use app::components::Components;
pub use app::scope::{Scope, scope};
#[cfg(feature = "http")]
pub use app::serve::{Drained, Serve, serve};
pub use app::service::{Service, service};
pub use app::{App, ShutdownHandle};
pub use error::{BoxError, Error, Failure, Result, TaskError, TooLate};
pub use report::Report;
pub use runtime::group::Group;
pub use runtime::plan::Plan;
pub use runtime::spawn::TaskHandle;
pub use runtime::stop::{Shield, Stop};
pub use runtime::supervise::Restart;
pub use util::duration::{InvalidDuration, parse_duration};
