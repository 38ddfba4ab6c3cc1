//! Where state lives: one small contract, a typed handle over it, and the stores that keep it.

mod contract;
mod error;
mod file;
mod handle;
mod state;

pub use contract::{Entry, Expected, Record, Store, StoreFuture, Version};
pub use error::StoreError;
pub use file::FileStore;
pub use handle::StoreHandle;
pub use state::{State, Versioned};
