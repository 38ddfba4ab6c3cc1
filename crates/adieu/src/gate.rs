//! A gate: closed until somebody opens it, then open for ever.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

#[derive(Default)]
pub(crate) struct Gate {
    open: AtomicBool,
    notify: Notify,
}

impl Gate {
    pub(crate) fn open(&self) {
        // Release: what was done before is seen by those who pass.
        self.open.store(true, Ordering::Release);
        self.notify.notify_waiters();
    }

    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// Completes when the gate is open. Cancel-safe.
    pub(crate) async fn pass(&self) {
        // Made before the look: it completes for every opening from here on.
        let notified = self.notify.notified();
        if !self.is_open() {
            notified.await;
        }
    }
}
