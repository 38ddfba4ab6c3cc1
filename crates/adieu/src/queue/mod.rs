//! Queues: jobs that outlive the process that asked for them, and the engines that keep them.

mod contract;
mod error;
mod hand;
mod job;
mod memory;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
mod verdict;

pub use contract::{Delivery, Queue};
pub use error::QueueError;
pub use job::Job;
pub use memory::{MemoryQueue, Ticket};
#[cfg(feature = "nats")]
pub use nats::NatsQueue;
#[cfg(feature = "postgres")]
pub use postgres::{PostgresQueue, PostgresReceipt};
#[cfg(feature = "redis")]
pub use redis::RedisQueue;

pub(crate) use hand::{Chore, Grip, Hand};
pub(crate) use verdict::{Limits, Verdict};
