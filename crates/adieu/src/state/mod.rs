//! State that survives a restart: stores, typed values in them, and the workers and pollers that go on where they were.
//!
//! [`App::store`](crate::App::store) opens a store.

// `traits.rs` is what a store promises, `handle.rs` retries it within the deadline of a stop, `value.rs` gives a key a
// type. `owned.rs` is state with one owner, on which workers and pollers are built.

mod error;
mod fallback;
pub(crate) mod file;
mod handle;
#[cfg(feature = "nats")]
mod nats;
mod owned;
mod poller;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
mod store_builder;
mod traits;
mod unanswered;
mod value;
mod worker;

pub use error::StoreError;
pub use file::FileStore;
pub use handle::StoreHandle;
#[cfg(feature = "nats")]
pub use nats::{NatsConnect, NatsStore};
pub use poller::PollerBuilder;
#[cfg(feature = "postgres")]
pub use postgres::{PostgresConnect, PostgresStore};
#[cfg(feature = "redis")]
pub use redis::{RedisConnect, RedisStore};
pub use store_builder::{OpenStore, StoreBuilder};
pub use traits::{Entry, Expected, Record, Store, StoreFuture, Version};
pub use value::{State, Versioned};
pub use worker::{Checkpoint, Worker, WorkerBuilder};

pub(crate) use owned::OwnedState;
