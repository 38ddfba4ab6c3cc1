//! State: the promises of every store, and those of the file store alone.
#![cfg(feature = "state")]

mod answers;
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
#[cfg(unix)]
mod lock;
mod logged;
#[cfg(target_os = "linux")]
mod power_cut;
#[cfg(all(unix, any(feature = "postgres", feature = "redis", feature = "nats")))]
mod servers;
mod workers;
