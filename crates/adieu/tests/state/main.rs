//! State: the promises of every store, and those of the file store alone.
#![cfg(feature = "state")]

mod conformance;
mod file;
#[cfg(unix)]
mod full_disk;
mod in_service;
#[cfg(unix)]
mod killed;
#[cfg(all(unix, any(feature = "postgres", feature = "redis", feature = "nats")))]
mod servers;
mod workers;
