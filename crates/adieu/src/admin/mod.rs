//! The admin port: how the service is, for those who look after it.
//!
//! It is no part of the service's work. Its socket and its connections are on nobody's roster, so no stop waits
//! for them; it runs on the service's own runtime, so that an answer means that the runtime answers.

mod check;
mod health;
mod metrics;
mod office;
mod port;
mod recorder;
mod routes;
#[cfg(feature = "schedule")]
mod schedules;

pub use check::CheckPart;
pub use port::{Admin, AdminPort};
pub use routes::{AdminBody, AdminFuture, AdminRoutes};

pub(crate) use office::Office;
