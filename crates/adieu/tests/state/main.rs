//! State: the promises of every store, and those of the file store alone.
#![cfg(feature = "state")]

mod conformance;
#[cfg(all(
    unix,
    feature = "tls",
    any(feature = "postgres", feature = "redis", feature = "nats")
))]
mod encrypted;
mod file;
#[cfg(unix)]
mod full_disk;
mod in_service;
#[cfg(unix)]
mod killed;
#[cfg(all(unix, any(feature = "postgres", feature = "redis", feature = "nats")))]
mod servers;
mod workers;
