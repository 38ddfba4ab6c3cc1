//! Cancelling one future: a token, and the future that listens to it.
//!
//! Cancelling drops the future, at once if it waits, or when its poll in progress comes back. A shield
//! ([`crate::Stop::shield`]) puts it off until the shielded part is over.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use pin_project_lite::pin_project;
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

use crate::tracking::poll_slot;

/// Cancels whatever was wrapped with it.
#[derive(Clone, Default)]
pub(crate) struct CancelToken(Arc<TokenInner>);

#[derive(Default)]
struct TokenInner {
    cancelled: AtomicBool,
    notify: Arc<Notify>,
}

impl CancelToken {
    pub(crate) fn cancel(&self) {
        // Release: what the canceller did before is seen by the one that is cancelled.
        self.0.cancelled.store(true, Ordering::Release);
        self.0.notify.notify_waiters();
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Acquire)
    }

    /// Runs `future` until it ends or the token is cancelled.
    pub(crate) fn wrap<F: Future>(&self, future: F) -> Cancellable<F> {
        Cancellable {
            future: Some(future),
            notified: Arc::clone(&self.0.notify).notified_owned(),
            token: self.clone(),
            registered: None,
        }
    }
}

/// The future was cancelled.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WasCancelled;

pin_project! {
    pub(crate) struct Cancellable<F> {
        #[pin]
        future: Option<F>,
        // Made before the first look at the flag, so a cancel in between is not missed.
        #[pin]
        notified: OwnedNotified,
        token: CancelToken,
        // The waker that `notified` knows. Asking it again would take its lock in every poll.
        registered: Option<Waker>,
    }
}

impl<F: Future> Future for Cancellable<F> {
    type Output = Result<F::Output, WasCancelled>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let cut = this.token.is_cancelled() && !poll_slot::is_shielded();
        if !cut {
            let Some(future) = this.future.as_mut().as_pin_mut() else {
                return Poll::Ready(Err(WasCancelled));
            };
            if let Poll::Ready(output) = future.poll(cx) {
                return Poll::Ready(Ok(output));
            }
            // Only to be woken: once it has fired it says so forever, and the flag says the same. Set before
            // the waiters are woken, so a task that finds it unset here has a waker that is still to be called.
            let waker = cx.waker();
            let is_registered =
                (this.registered.as_ref()).is_some_and(|known| known.will_wake(waker));
            if !this.token.is_cancelled() {
                if is_registered {
                    return Poll::Pending;
                }
                if this.notified.poll(cx).is_pending() {
                    *this.registered = Some(cx.waker().clone());
                    return Poll::Pending;
                }
            }
            if poll_slot::is_shielded() {
                return Poll::Pending;
            }
        }
        this.future.set(None);
        Poll::Ready(Err(WasCancelled))
    }
}
