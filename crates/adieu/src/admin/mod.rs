//! The admin port: how the service is, for probes, dashboards and operators.
//!
//! [`App::admin`](crate::App::admin) opens the port, [`App::check`](crate::App::check) adds a readiness check.

// It is not part of the service's work. Its socket and its connections are not in the task registry, so no stop waits
// for them; it runs on the service's own runtime, so that an answer means that the runtime answers.

mod check;
mod connections;
mod health;
mod hosts;
mod metrics;
mod openmetrics;
mod port;
mod probe;
mod recorder;
mod registry;
mod routes;
#[cfg(feature = "schedule")]
mod schedules;

pub use check::CheckBuilder;
pub use port::{Admin, AdminPort};
pub use routes::{AdminBody, AdminFuture, AdminRoutes};
