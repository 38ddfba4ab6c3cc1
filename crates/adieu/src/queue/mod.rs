//! Queues: jobs that outlive the process that added them, the engines that keep them, and the consumer that works on
//! them.
//!
//! [`App::consume`](crate::App::consume) starts a consumer.

// `traits.rs` is what an engine promises. `consumer.rs` fetches and settles, with every job it holds in `leases.rs`, and
// decides in `retry_policy.rs` what becomes of one that failed.

mod consumer;
mod error;
mod job;
mod leases;
mod memory;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
mod retry_policy;
mod traits;

pub use consumer::ConsumerBuilder;
pub use error::QueueError;
pub use job::Job;
pub use memory::{MemoryQueue, MemoryReceipt};
#[cfg(feature = "nats")]
pub use nats::{NatsQueue, NatsReceipt};
#[cfg(feature = "postgres")]
pub use postgres::{PostgresQueue, PostgresReceipt};
#[cfg(feature = "redis")]
pub use redis::{RedisQueue, RedisReceipt};
pub use traits::{Delivery, Queue};
