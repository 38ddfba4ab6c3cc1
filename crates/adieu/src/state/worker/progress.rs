//! How far a worker has come, and how much of that is saved.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::state::{Entry, OwnedState, State, StoreError};

/// How often checkpoints are saved.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batching {
    pub(super) every: u32,
    pub(super) within: Option<Duration>,
}

impl Default for Batching {
    fn default() -> Self {
        Self {
            every: 1,
            within: None,
        }
    }
}

/// What became of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Checkpoint {
    /// It is durable: after any crash the worker goes on from here.
    Saved,
    /// It will be saved with a later one, or when the worker ends.
    PutOff,
}

#[derive(Debug)]
pub(super) struct Progress<C> {
    cursor: OwnedState<C>,
    batching: Batching,
    pending: Option<PendingCheckpoint>,
    /// A save in the background of a wait that failed.
    failure: Option<StoreError>,
}

#[derive(Debug)]
struct PendingCheckpoint {
    entry: Entry,
    count: u32,
    /// When the first of them was put off.
    since: Instant,
}

impl<C: Serialize + DeserializeOwned> Progress<C> {
    pub(super) const fn new(state: State<C>, batching: Batching) -> Self {
        Self {
            cursor: OwnedState::new(state),
            batching,
            pending: None,
            failure: None,
        }
    }

    pub(super) async fn resume(&mut self) -> Result<Option<C>, StoreError> {
        self.cursor.load().await
    }

    pub(super) async fn checkpoint(&mut self, cursor: &C) -> Result<Checkpoint, StoreError> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        let entry = self.cursor.entry(cursor)?;
        let now = Instant::now();
        let (count, since) = match &self.pending {
            Some(pending) => (pending.count.saturating_add(1), pending.since),
            None => (1, now),
        };
        self.pending = Some(PendingCheckpoint {
            entry,
            count,
            since,
        });
        let late = self.due().is_some_and(|due| due <= now);
        if count < self.batching.every && !late {
            return Ok(Checkpoint::PutOff);
        }
        self.flush().await?;
        Ok(Checkpoint::Saved)
    }

    /// When something that was put off has to be saved.
    pub(super) fn due(&self) -> Option<Instant> {
        let within = self.batching.within?;
        Some(self.pending.as_ref()?.since + within)
    }

    /// Saves what is due while the worker waits for something else; `None` if it cannot be.
    pub(super) async fn save_due(&mut self) -> Option<()> {
        match self.flush().await {
            Ok(()) => Some(()),
            Err(failure) => {
                self.failure = Some(failure);
                None
            }
        }
    }

    pub(super) async fn flush(&mut self) -> Result<(), StoreError> {
        let Some(pending) = &self.pending else {
            return Ok(());
        };
        self.cursor.save(pending.entry.clone()).await?;
        self.pending = None;
        Ok(())
    }

    /// The worker ends: what was not saved yet is saved, and an error of an earlier save is returned.
    pub(super) async fn finish(&mut self) -> Result<(), StoreError> {
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => self.flush().await,
        }
    }
}
