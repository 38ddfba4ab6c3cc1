//! How far a worker has come, and how much of that is saved.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::store::{Entry, Expected, State, StoreError, Versioned};

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
pub enum Checkpoint {
    /// It is durable: after any crash the worker goes on from here.
    Saved,
    /// It will be saved with a later one, or on the way out.
    PutOff,
}

#[derive(Debug)]
pub(super) struct Progress<C> {
    state: State<C>,
    batching: Batching,
    /// What the store must have for the next save to be ours; unknown before the first look.
    expected: Option<Expected>,
    pending: Option<Pending>,
    /// A save in the background of a wait that failed.
    failure: Option<StoreError>,
}

#[derive(Debug)]
struct Pending {
    entry: Entry,
    count: u32,
    /// When the first of them was put off.
    since: Instant,
}

impl<C: Serialize + DeserializeOwned> Progress<C> {
    pub(super) const fn new(state: State<C>, batching: Batching) -> Self {
        Self {
            state,
            batching,
            expected: None,
            pending: None,
            failure: None,
        }
    }

    pub(super) async fn resume(&mut self) -> Result<Option<C>, StoreError> {
        let found = self.state.load().await?;
        let version = found.as_ref().map(|found: &Versioned<C>| found.version);
        self.expected = Some(version.map_or(Expected::Absent, Expected::Version));
        Ok(found.map(|found| found.value))
    }

    pub(super) async fn checkpoint(&mut self, cursor: &C) -> Result<Checkpoint, StoreError> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        let entry = self.state.entry(cursor)?;
        let now = Instant::now();
        let (count, since) = match &self.pending {
            Some(pending) => (pending.count.saturating_add(1), pending.since),
            None => (1, now),
        };
        self.pending = Some(Pending {
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

    /// Saves what is due while somebody waits for something else; `None` if it cannot be.
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
        let expected = match self.expected {
            Some(expected) => expected,
            // It never asked where it was: then what is there now is what it goes on from.
            None => {
                let found = self.state.load().await?;
                found.map_or(Expected::Absent, |found| Expected::Version(found.version))
            }
        };
        let version = self.state.keep(expected, pending.entry.clone()).await?;
        // 0: kept in a fallback file, and the store still has nothing.
        self.expected = Some(match version.0 {
            0 => Expected::Absent,
            _ => Expected::Version(version),
        });
        self.pending = None;
        Ok(())
    }

    /// On the way out: the last word on what was done, and whether it could be saved.
    pub(super) async fn finish(&mut self) -> Result<(), StoreError> {
        match self.failure.take() {
            Some(failure) => Err(failure),
            None => self.flush().await,
        }
    }
}
