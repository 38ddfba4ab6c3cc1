//! Queues: jobs that outlive the process that added them, the engines that keep them, and the consumer that works on
//! them.
//!
//! [`App::consume`](crate::App::consume) starts a consumer.

// What an engine promises is in `adieu-core`; the shared engines are crates of their own. `consumer.rs` fetches and
// settles, with every job it holds in `leases.rs`, and decides in `retry_policy.rs` what becomes of one that failed.

mod consumer;
mod job;
mod leases;
mod memory;
mod retry_policy;

#[doc(inline)]
pub use adieu_core::{Delivery, Queue, QueueError, ShutdownSignal};
#[cfg(feature = "nats")]
#[doc(inline)]
pub use adieu_nats::{NatsQueue, NatsReceipt};
#[cfg(feature = "postgres")]
#[doc(inline)]
pub use adieu_postgres::{PostgresQueue, PostgresReceipt};
#[cfg(feature = "redis")]
#[doc(inline)]
pub use adieu_redis::{RedisQueue, RedisReceipt};
pub use consumer::ConsumerBuilder;
pub use job::Job;
pub use memory::{MemoryQueue, MemoryReceipt};
