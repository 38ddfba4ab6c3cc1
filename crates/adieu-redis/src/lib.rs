//! State and queues on Redis: the feature `redis` of the library `adieu`, which re-exports all of this.
// docs.rs marks what needs a feature.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod address;
mod queue;
mod store;

pub use queue::{RedisQueue, RedisReceipt};
pub use store::{RedisConnect, RedisStore};
