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
    }
}

impl<F> Seated<F> {
    pub(crate) const fn new(id: u64, future: F) -> Self {
        Self {
            future: Caught::new(future),
            id,
            shields: 0,
        }
    }
}

impl<F: Future> Future for Seated<F> {
    type Output = Result<F::Output, Panic>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let (polled, shields) = seat::occupy(*this.id, *this.shields, || this.future.poll(cx));
        *this.shields = shields;
        polled
    }
}
