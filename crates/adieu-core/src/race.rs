//! The first of two futures.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

/// Which of two futures has ended, and with what.
#[derive(Debug)]
pub enum Winner<A, B> {
    /// The first one, with its output.
    First(A),
    /// The second one, with its output.
    Second(B),
}

pin_project! {
    /// Waits for the first of two futures. Made by [`race`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless they are awaited"]
    pub struct Race<A, B> {
        #[pin]
        first: A,
        #[pin]
        second: B,
    }
}

/// Waits for one of two futures; the other one is dropped where it waits. Looks at the first one first, so it wins when
/// both are ready.
///
/// Cancel-safe if both are.
pub const fn race<A, B>(first: A, second: B) -> Race<A, B> {
    Race { first, second }
}

impl<A: Future, B: Future> Future for Race<A, B> {
    type Output = Winner<A::Output, B::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        match this.first.poll(cx) {
            Poll::Ready(output) => Poll::Ready(Winner::First(output)),
            Poll::Pending => this.second.poll(cx).map(Winner::Second),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test]
    async fn the_first_future_wins_when_both_are_ready() {
        assert!(matches!(race(ready(1), ready(2)).await, Winner::First(1)));
        let second = race(pending::<()>(), ready(2)).await;
        assert!(matches!(second, Winner::Second(2)));
    }
}
