//! `adieu demo`: a service of ours, drilled before your eyes.

mod args;
#[cfg(target_os = "linux")]
mod deploys;
mod routes;
mod run;
mod service;

pub(crate) use args::DemoArgs;
pub(crate) use run::run;
