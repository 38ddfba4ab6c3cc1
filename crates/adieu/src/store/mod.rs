//! Where state lives: one small contract, a typed handle over it, and the stores that keep it.

mod contract;
mod error;
mod fallback;
mod file;
mod handle;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
mod state;

pub use contract::{Entry, Expected, Record, Store, StoreFuture, Version};
pub use error::StoreError;
pub use file::FileStore;
pub use handle::StoreHandle;
#[cfg(feature = "nats")]
pub use nats::{NatsConnect, NatsStore};
#[cfg(feature = "postgres")]
pub use postgres::{PostgresConnect, PostgresStore};
#[cfg(feature = "redis")]
pub use redis::{RedisConnect, RedisStore};
pub use state::{State, Versioned};
