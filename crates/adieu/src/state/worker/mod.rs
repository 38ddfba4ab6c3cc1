//! Workers: long work in steps, that goes on after a restart where it was.
//!
//! The worker's code runs behind a shield, so the only place where the stop can reach it is the one it marks
//! itself, [`Worker::until_stop`]. What it has reported as done is saved before its part has an outcome.

mod builder;
mod progress;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use adieu_core::{Winner, race};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Mutex;
use tokio::time::sleep_until;

use crate::runtime::stop::Stop;
use crate::state::{State, StoreError};

pub use builder::WorkerBuilder;
pub use progress::Checkpoint;
use progress::{Batching, Progress};

/// What a worker holds: its cursor, and its one place to stop.
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// use adieu::state::Worker;
///
/// #[derive(Default, Serialize, Deserialize)]
/// struct Cursor { last_id: u64 }
///
/// # async fn fetch(after: u64) -> std::io::Result<Vec<u64>> { Ok(vec![after + 1]) }
/// # async fn store_order(_id: u64) -> std::io::Result<()> { Ok(()) }
/// async fn import(mut worker: Worker<Cursor>) -> adieu::Result {
///     let mut cursor = worker.resume().await?.unwrap_or_default();
///     while let Some(batch) = worker.until_stop(fetch(cursor.last_id)).await { // here, and nowhere else
///         for id in batch? {
///             store_order(id).await?;
///             cursor.last_id = id;
///         }
///         worker.checkpoint(&cursor).await?; // durable
///     }
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct Worker<C> {
    stop: Stop,
    progress: Arc<Mutex<Progress<C>>>,
}

impl<C: Serialize + DeserializeOwned> Worker<C> {
    fn new(stop: Stop, state: State<C>, batching: Batching) -> Self {
        let progress = Progress::new(state, batching);
        Self {
            stop,
            progress: Arc::new(Mutex::new(progress)),
        }
    }

    /// Where it was: the last checkpoint that was saved, or `None` on the first start.
    ///
    /// Cancel-safe: dropping it changes nothing.
    ///
    /// # Errors
    /// The store is not available, or what is there cannot be read: see [`State::load`].
    pub async fn resume(&mut self) -> Result<Option<C>, StoreError> {
        self.progress.lock().await.resume().await
    }

    /// Waits for `fetch`, and gives up when the service stops: then `None`, and the future is dropped.
    ///
    /// The one place where the worker can be stopped: while anything else runs, the stop waits for it, as long as
    /// the drain and the cancel phase last. Looks at the stop first. A [batched](WorkerBuilder::within) checkpoint
    /// that is due meanwhile is saved; if that cannot be, this gives `None` too, and the worker fails
    /// with the reason when it returns.
    ///
    /// Cancel-safe if `fetch` is.
    pub async fn until_stop<F: Future>(&mut self, fetch: F) -> Option<F::Output> {
        let mut fetch = pin!(fetch);
        loop {
            let due = self.progress.lock().await.due();
            let Some(due) = due else {
                return self.stop.until(fetch).await;
            };
            // Neither loses anything: the fetch is polled again, and the time to save stays what it is.
            let first = race(fetch.as_mut(), sleep_until(due));
            if let Winner::First(fetched) = self.stop.until(first).await? {
                return Some(fetched);
            }
            self.progress.lock().await.save_due().await?;
        }
    }

    /// Says that everything up to `cursor` is done. Saved at once, unless checkpoints are
    /// [batched](WorkerBuilder::every); then at the latest when the worker ends.
    ///
    /// Dropped half-way, the old checkpoint is there or the new one.
    ///
    /// # Errors
    /// The store is not available or full; or a [conflict](StoreError::is_conflict): another
    /// process works with the same cursor, and this worker has to end.
    pub async fn checkpoint(&mut self, cursor: &C) -> Result<Checkpoint, StoreError> {
        self.progress.lock().await.checkpoint(cursor).await
    }

    /// Saves a checkpoint that was put off.
    ///
    /// Dropped half-way, it is saved or still put off.
    ///
    /// # Errors
    /// As [`Worker::checkpoint`].
    pub async fn flush(&mut self) -> Result<(), StoreError> {
        self.progress.lock().await.flush().await
    }

    /// The stop, to start children with or to see the deadline.
    #[must_use]
    pub const fn stop(&self) -> &Stop {
        &self.stop
    }
}
