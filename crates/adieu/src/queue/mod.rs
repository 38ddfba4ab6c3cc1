//! Queues: jobs that outlive the process that asked for them, and the engines that keep them.

mod contract;
mod error;
mod hand;
mod job;
mod memory;
mod verdict;

pub use contract::{Delivery, Queue};
pub use error::QueueError;
pub use job::Job;
pub use memory::{MemoryQueue, Ticket};

pub(crate) use hand::{Chore, Grip, Hand};
pub(crate) use verdict::{Limits, Verdict};
