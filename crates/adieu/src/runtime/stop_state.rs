//! How far the stop has come, for everyone who looks.
//!
//! The tests at the end try every interleaving, with loom and a model of `Notify`.

use std::time::Duration;

#[cfg(all(test, loom))]
use loom::sync::atomic::{AtomicU8, AtomicU64, Ordering};
#[cfg(not(all(test, loom)))]
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

#[cfg(not(all(test, loom)))]
use tokio::sync::Notify;

#[cfg(all(test, loom))]
use crate::notify::Notify;

pub(crate) struct StopState {
    stage: AtomicU8,
    /// When work will be cancelled, in nanoseconds since the start; set before the stage.
    deadline: AtomicU64,
    notify: Notify,
}

const REQUESTED: u8 = 1;
const CANCELLING: u8 = 2;

impl StopState {
    pub(crate) fn new() -> Self {
        Self {
            stage: AtomicU8::new(0),
            deadline: AtomicU64::new(0),
            notify: Notify::new(),
        }
    }

    pub(crate) fn request(&self, deadline: Duration) {
        self.deadline.store(
            u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX),
            Ordering::Relaxed,
        );
        self.raise(REQUESTED);
    }

    pub(crate) fn cancel(&self) {
        self.raise(CANCELLING);
    }

    fn raise(&self, stage: u8) {
        // Release, paired with the acquire of every reader of the stage: it sees the deadline too.
        self.stage.fetch_max(stage, Ordering::Release);
        self.notify.notify_waiters();
    }

    #[inline]
    pub(crate) fn is_requested(&self) -> bool {
        self.stage.load(Ordering::Acquire) >= REQUESTED
    }

    #[inline]
    pub(crate) fn is_cancelling(&self) -> bool {
        self.stage.load(Ordering::Acquire) >= CANCELLING
    }

    /// When work will be cancelled, since the start; `None` while there is no stop.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        let nanos = self
            .is_requested()
            .then(|| self.deadline.load(Ordering::Relaxed))?;
        Some(Duration::from_nanos(nanos))
    }

    /// Completes when the stop is requested. Cancel-safe.
    pub(crate) async fn requested(&self) {
        // Made before the look: it completes for every notification from here on.
        let notified = self.notify.notified();
        if !self.is_requested() {
            notified.await;
        }
    }

    /// Completes when work is being cancelled. Cancel-safe.
    #[cfg(any(feature = "state", all(test, loom)))]
    pub(crate) async fn cancelling(&self) {
        loop {
            // Made before the look, as in `requested`.
            let notified = self.notify.notified();
            if self.is_cancelling() {
                return;
            }
            notified.await;
        }
    }
}

#[cfg(all(test, loom))]
mod tests {
    use super::*;
    use loom::future::block_on;
    use loom::sync::Arc;
    use loom::thread;

    const DEADLINE: Duration = Duration::from_nanos(7);

    #[test]
    fn a_task_that_sees_the_request_knows_the_deadline() {
        loom::model(|| {
            let state = Arc::new(StopState::new());
            let theirs = Arc::clone(&state);
            let waiting = thread::spawn(move || {
                block_on(theirs.requested());
                assert_eq!(theirs.deadline(), Some(DEADLINE));
            });
            state.request(DEADLINE);
            waiting.join().expect("it wakes");
        });
    }

    #[test]
    fn a_look_without_a_wait_sees_all_of_a_stop_or_nothing() {
        loom::model(|| {
            let state = Arc::new(StopState::new());
            let theirs = Arc::clone(&state);
            let looking = thread::spawn(move || {
                let deadline = theirs.deadline();
                assert!(deadline.is_none() || deadline == Some(DEADLINE));
            });
            state.request(DEADLINE);
            looking.join().expect("it looks");
        });
    }

    /// The first notification wakes it too early, and it waits for the next one.
    #[test]
    fn the_cancelling_is_heard_through_the_request() {
        loom::model(|| {
            let state = Arc::new(StopState::new());
            let theirs = Arc::clone(&state);
            let waiting = thread::spawn(move || {
                block_on(theirs.cancelling());
                assert!(theirs.is_cancelling());
            });
            state.request(DEADLINE);
            state.cancel();
            waiting.join().expect("it wakes");
        });
    }
}
