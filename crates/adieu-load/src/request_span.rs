//! One request as a piece of time.

use std::time::Instant;

use crate::outcome::Outcome;

/// One request, from its first byte to the moment its outcome was known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestSpan {
    /// When the client began to send it, or to connect in vain.
    pub began: Instant,
    /// When its outcome was known.
    pub ended: Instant,
    /// Which connection carried it; the numbers begin with 0 in each load.
    pub connection: u32,
    /// What became of it.
    pub outcome: Outcome,
}
