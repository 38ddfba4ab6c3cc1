//! Every interleaving of adieu's hand-made atomics, with loom.
//!
//! `cargo xtask test` runs it with `--cfg loom`; without that there is nothing here. It is a crate of its own
//! because that setting has every dependency built again: here that is loom, and not all that the library needs.

#[cfg(all(test, loom))]
#[path = "../../adieu/src/tracking/active_count.rs"]
mod active_count;
#[cfg(all(test, loom))]
#[path = "../../adieu/src/util/latch.rs"]
mod latch;
#[cfg(all(test, loom))]
mod notify;
#[cfg(all(test, loom))]
#[path = "../../adieu/src/runtime/stop_state.rs"]
mod stop_state;
