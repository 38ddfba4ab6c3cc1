//! Which tasks are alive, and which of them is being polled on which thread.

pub(crate) mod active_count;
pub(crate) mod cancel;
pub(crate) mod monitored;
pub(crate) mod poll_slot;
pub(crate) mod shard;
pub(crate) mod task_registry;
