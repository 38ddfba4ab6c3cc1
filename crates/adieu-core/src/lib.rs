//! What an engine implements to keep the state and the jobs of a program that is built on `adieu`.
//!
//! | for | implement | with |
//! |---|---|---|
//! | state | [`Store`] | [`Record`], [`Entry`], [`Expected`], [`Version`], [`StoreError`] |
//! | jobs | [`Queue`] | [`Delivery`], [`QueueError`], [`ShutdownSignal`] |
//!
//! [`address`] and [`tls`] read the address of a server and tell an error of TLS from a server that is away.
//!
//! Programs use the library `adieu`, which re-exports the traits and their values.
// docs.rs marks what needs a feature.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod address;
mod error;
mod queue;
mod queue_error;
mod race;
mod shutdown_signal;
mod store;
mod store_error;
pub mod tls;

pub use error::BoxError;
pub use queue::{Delivery, Queue};
pub use queue_error::QueueError;
pub use race::{Race, Winner, race};
pub use shutdown_signal::ShutdownSignal;
pub use store::{Entry, Expected, Record, Store, StoreFuture, Version};
pub use store_error::StoreError;
