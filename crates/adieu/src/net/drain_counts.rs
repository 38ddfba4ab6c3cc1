//! How many requests and connections a stop has seen to their end.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Written in a stop only: a server that runs counts nothing that all its threads would have to share.
#[derive(Debug, Default)]
pub(crate) struct DrainCounts {
    #[cfg(feature = "http")]
    answered: AtomicU64,
    closed: AtomicU64,
}

impl DrainCounts {
    /// The whole answer to a request is out.
    #[cfg(feature = "http")]
    pub(crate) fn request_was_answered(&self) {
        self.answered.fetch_add(1, Relaxed);
    }

    pub(super) fn connection_has_closed(&self) {
        self.closed.fetch_add(1, Relaxed);
    }

    /// Requests and connections. Exact when the server has ended.
    #[cfg(feature = "http")]
    pub(crate) fn totals(&self) -> (u64, u64) {
        (self.answered.load(Relaxed), self.closed.load(Relaxed))
    }
}
