//! A limit on how long each request may take, for the price of one timer a connection.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::time::{Sleep, sleep};

/// How long one waits, again and again.
pub(crate) struct RequestTimeout {
    span: Duration,
    /// Goes off no later than the present deadline. Set anew only when it does, and not for every request: most are
    /// answered long before, and setting a timer costs as much as parsing an answer.
    alarm: Pin<Box<Sleep>>,
}

impl RequestTimeout {
    pub(crate) fn new(span: Duration) -> Self {
        let alarm = Box::pin(sleep(span));
        Self { span, alarm }
    }

    /// Waits for what was begun then. None if it took too long; like everything unfinished it is dropped.
    pub(crate) async fn wait<F: Future>(&mut self, began: Instant, doing: F) -> Option<F::Output> {
        let deadline = began + self.span;
        let mut doing = pin!(doing);
        poll_fn(|cx| {
            if let Poll::Ready(done) = doing.as_mut().poll(cx) {
                return Poll::Ready(Some(done));
            }
            while self.alarm.as_mut().poll(cx).is_ready() {
                if self.alarm.deadline() >= deadline.into() {
                    return Poll::Ready(None);
                }
                self.alarm.as_mut().reset(deadline.into());
            }
            Poll::Pending
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::pending;
    use tokio::time;

    const SPAN: Duration = Duration::from_secs(10);

    fn now() -> Instant {
        time::Instant::now().into_std()
    }

    #[tokio::test(start_paused = true)]
    async fn every_request_has_the_whole_span() {
        let mut patience = RequestTimeout::new(SPAN);
        for _ in 0..5 {
            let done = patience.wait(now(), sleep(Duration::from_secs(7))).await;
            assert_eq!(done, Some(()));
        }
        let began = time::Instant::now();
        assert_eq!(patience.wait(now(), pending::<()>()).await, None);
        let waited = began.elapsed();
        assert!(
            waited >= SPAN && waited < SPAN + Duration::from_millis(10),
            "{waited:?}"
        );
        // And one after that.
        assert_eq!(patience.wait(now(), async { 3 }).await, Some(3));
        let began = time::Instant::now();
        assert_eq!(patience.wait(now(), pending::<()>()).await, None);
        assert!(began.elapsed() >= SPAN, "{:?}", began.elapsed());
    }
}
