//! State and queues on PostgreSQL: the feature `postgres` of the library `adieu`, which re-exports all of this.
// docs.rs marks what needs a feature.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod address;
mod queue;
mod store;

pub use queue::{PostgresQueue, PostgresReceipt};
pub use store::{PostgresConnect, PostgresStore};
