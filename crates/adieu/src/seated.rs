//! A future that is no task of its own but must be seen on its thread: `setup`, a hook, a close.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::panics::{Caught, Panic};
use crate::seat;

pin_project! {
    pub(crate) struct Seated<F> {
        #[pin]
        future: Caught<F>,
        id: u64,
        shields: u32,
        outer: OuterShield,
    }
}

/// Shields whoever polls this future as long as a shield is up inside it: a cut of the outer one is a cut of
/// the inner one. Lowered also when the future is dropped.
struct OuterShield(bool);

impl OuterShield {
    fn set(&mut self, up: bool) {
        match (std::mem::replace(&mut self.0, up), up) {
            (false, true) => seat::raise_shield(),
            (true, false) => seat::lower_shield(),
            _ => {}
        }
    }
}

impl Drop for OuterShield {
    fn drop(&mut self) {
        self.set(false);
    }
}

impl<F> Seated<F> {
    pub(crate) const fn new(id: u64, future: F) -> Self {
        Self {
            future: Caught::new(future),
            id,
            shields: 0,
            outer: OuterShield(false),
        }
    }
}

impl<F: Future> Future for Seated<F> {
    type Output = Result<F::Output, Panic>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let outer = seat::sit(*this.id, *this.shields);
        let polled = this.future.poll(cx);
        *this.shields = outer.rise();
        this.outer.set(*this.shields > 0);
        polled
    }
}
