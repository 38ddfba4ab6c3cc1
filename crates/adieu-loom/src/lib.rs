//! Every interleaving of adieu's hand-made atomics, with loom.
//!
//! `cargo xtask test` runs it with `--cfg loom`; without that there is nothing here. It is a crate of its own
//! because that setting has every dependency built again: here that is loom, and not all that the library needs.

#[cfg(all(test, loom))]
#[path = "../../adieu/src/tally.rs"]
mod tally;
