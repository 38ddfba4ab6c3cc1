//! State and queues on NATS JetStream: the feature `nats` of the library `adieu`, which re-exports all of this.
// docs.rs marks what needs a feature.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod address;
mod queue;
mod store;

pub use queue::{NatsQueue, NatsReceipt};
pub use store::{NatsConnect, NatsStore};
