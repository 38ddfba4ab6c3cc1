//! What is known of the standard library and of others' packages.

pub(crate) mod blocking;
pub(crate) mod clients;
pub(crate) mod libraries;
