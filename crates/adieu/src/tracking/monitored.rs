//! A future that is not a task of its own but must be seen on its thread: `setup`, a hook, a close.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::tracking::poll_slot;
use crate::util::panics::{CatchUnwind, Panic};

pin_project! {
    pub(crate) struct Monitored<F> {
        #[pin]
        future: CatchUnwind<F>,
        id: u64,
        shields: u32,
        outer: OuterShield,
    }
}

/// Shields the task that polls this future as long as a shield is up inside it: a cut of the outer one is a cut of
/// the inner one. Lowered also when the future is dropped.
struct OuterShield(bool);

impl OuterShield {
    fn set(&mut self, up: bool) {
        match (std::mem::replace(&mut self.0, up), up) {
            (false, true) => poll_slot::raise_shield(),
            (true, false) => poll_slot::lower_shield(),
            _ => {}
        }
    }
}

impl Drop for OuterShield {
    fn drop(&mut self) {
        self.set(false);
    }
}

impl<F> Monitored<F> {
    pub(crate) const fn new(id: u64, future: F) -> Self {
        Self {
            future: CatchUnwind::new(future),
            id,
            shields: 0,
            outer: OuterShield(false),
        }
    }

    /// Gives it the number that it is seen by; before the first poll.
    pub(crate) fn identify(self: Pin<&mut Self>, id: u64) {
        *self.project().id = id;
    }
}

impl<F: Future> Future for Monitored<F> {
    type Output = Result<F::Output, Panic>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let outer = poll_slot::enter(*this.id, *this.shields);
        let polled = this.future.poll(cx);
        *this.shields = outer.exit();
        this.outer.set(*this.shields > 0);
        polled
    }
}
