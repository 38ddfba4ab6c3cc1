//! State that survives a restart: stores, typed values in them, and the workers and pollers that go on where they were.
//!
//! [`App::store`](crate::App::store) opens a store.

// What a store promises is in `adieu-core`; the shared engines are crates of their own. `handle.rs` retries a store within
// the deadline of a stop, `value.rs` gives a key a type. `owned.rs` is state with one owner, on which workers and pollers are built.

mod error;
mod fallback;
pub(crate) mod file;
mod handle;
mod owned;
mod poller;
mod store_builder;
mod unanswered;
mod value;
mod worker;

#[doc(inline)]
pub use adieu_core::{Entry, Expected, Record, Store, StoreError, StoreFuture, Version};
#[cfg(feature = "nats")]
#[doc(inline)]
pub use adieu_nats::{NatsConnect, NatsStore};
#[cfg(feature = "postgres")]
#[doc(inline)]
pub use adieu_postgres::{PostgresConnect, PostgresStore};
#[cfg(feature = "redis")]
#[doc(inline)]
pub use adieu_redis::{RedisConnect, RedisStore};
pub use file::FileStore;
pub use handle::StoreHandle;
pub use poller::PollerBuilder;
pub use store_builder::{OpenStore, StoreBuilder};
pub use value::{State, Versioned};
pub use worker::{Checkpoint, Worker, WorkerBuilder};

pub(crate) use owned::OwnedState;
