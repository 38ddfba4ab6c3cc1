//! The driver's mailbox: events from any thread, read by a thread or by a task.
//!
//! A hand-made queue because it has two kinds of reader: a plain thread that no runtime can block (the
//! service), and a task that lives on a test's paused clock (the scope).

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;

pub(crate) struct Mailbox<T> {
    queue: Mutex<VecDeque<T>>,
    thread: Condvar,
    task: Notify,
}

impl<T> Mailbox<T> {
    pub(crate) fn new() -> Self {
        Self {
            queue: Mutex::default(),
            thread: Condvar::new(),
            task: Notify::new(),
        }
    }

    pub(crate) fn push(&self, item: T) {
        self.queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push_back(item);
        self.thread.notify_one();
        self.task.notify_one();
    }

    /// Blocks until there is an item, or until the time; `None` means the time came first.
    pub(crate) fn wait(&self, until: Option<Instant>) -> Option<T> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(item) = queue.pop_front() {
                return Some(item);
            }
            queue = match until {
                None => self
                    .thread
                    .wait(queue)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(until) => {
                    let left = until
                        .checked_duration_since(Instant::now())
                        .filter(|left| !left.is_zero())?;
                    self.thread
                        .wait_timeout(queue, left)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
            };
        }
    }

    /// The next item. Cancel-safe: an item is taken in the same poll that returns it.
    pub(crate) async fn next(&self) -> T {
        loop {
            // `notify_one` stores a permit, so an item pushed between the look and the wait is not missed.
            if let Some(item) = self
                .queue
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .pop_front()
            {
                return item;
            }
            self.task.notified().await;
        }
    }
}
