//! A latch: closed until it is opened, then open forever.
//!
//! The tests at the end try every interleaving, with loom and a model of `Notify`.

#[cfg(all(test, loom))]
use loom::sync::atomic::{AtomicBool, Ordering};
#[cfg(not(all(test, loom)))]
use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(not(all(test, loom)))]
use tokio::sync::Notify;

#[cfg(all(test, loom))]
use crate::notify::Notify;

#[derive(Default)]
pub(crate) struct Latch {
    open: AtomicBool,
    notify: Notify,
}

impl Latch {
    pub(crate) fn open(&self) {
        // Release: what was done before is seen by the tasks that waited.
        self.open.store(true, Ordering::Release);
        self.notify.notify_waiters();
    }

    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// Completes when the latch is open. Cancel-safe.
    pub(crate) async fn wait(&self) {
        // Made before the look: it completes for every opening from here on.
        let notified = self.notify.notified();
        if !self.is_open() {
            notified.await;
        }
    }
}

#[cfg(all(test, loom))]
mod tests {
    use super::*;
    use loom::future::block_on;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU32;
    use loom::thread;

    #[test]
    fn a_waiter_sees_what_was_done_before_it_was_opened() {
        loom::model(|| {
            let shared = Arc::new((Latch::default(), AtomicU32::new(0)));
            let theirs = Arc::clone(&shared);
            let waiting = thread::spawn(move || {
                block_on(theirs.0.wait());
                assert!(theirs.0.is_open());
                assert_eq!(theirs.1.load(Ordering::Relaxed), 7);
            });
            shared.1.store(7, Ordering::Relaxed);
            shared.0.open();
            waiting.join().expect("it completes");
        });
    }
}
