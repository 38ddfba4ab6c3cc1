//! What tokio promises of its `Notify`, in loom's terms: tokio's own is not built from loom's atomics here.
//!
//! `notify_waiters` completes every `Notified` that was made before it, polled or not. As in tokio, the number of calls is
//! an atomic that `notified` reads without a lock, and the list of those that wait has a lock.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use loom::sync::Mutex;
use loom::sync::atomic::{AtomicU64, Ordering};

#[derive(Default)]
pub(crate) struct Notify {
    calls: AtomicU64,
    waiting: Mutex<Vec<Waker>>,
}

impl Notify {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn notify_waiters(&self) {
        let mut waiting = self.waiting.lock().expect("no thread panics with it");
        self.calls.fetch_add(1, Ordering::SeqCst);
        let wakers = std::mem::take(&mut *waiting);
        drop(waiting);
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn notified(&self) -> Notified<'_> {
        Notified {
            notify: self,
            calls: self.calls.load(Ordering::SeqCst),
        }
    }
}

pub(crate) struct Notified<'notify> {
    notify: &'notify Notify,
    calls: u64,
}

impl Future for Notified<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut waiting = self
            .notify
            .waiting
            .lock()
            .expect("no thread panics with it");
        if self.notify.calls.load(Ordering::SeqCst) != self.calls {
            return Poll::Ready(());
        }
        waiting.push(cx.waker().clone());
        Poll::Pending
    }
}
