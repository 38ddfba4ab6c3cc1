//! State with one owner, who knows which save is the last: a worker's cursor, a poller's offset.
//!
//! Each save expects the version of the one before, so a second owner is noticed, and a save that was given up cannot
//! arrive after a later one. A save whose answer was never seen, because its caller was dropped or the store went away,
//! may have happened or not: if the next one is refused, the stamp of what is there tells.

use adieu_core::{Entry, Expected, StoreError};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::handle::expected_version;
use super::unanswered::UnansweredSaves;
use super::value::{State, Versioned};

#[derive(Debug)]
pub(crate) struct OwnedState<T> {
    state: State<T>,
    /// What the store must have for the next save to be ours; unknown before the first look.
    expected: Option<Expected>,
    unanswered: UnansweredSaves,
}

impl<T: Serialize + DeserializeOwned> OwnedState<T> {
    pub(crate) const fn new(state: State<T>) -> Self {
        Self {
            state,
            expected: None,
            unanswered: UnansweredSaves::new(),
        }
    }

    pub(crate) fn entry(&self, value: &T) -> Result<Entry, StoreError> {
        self.state.entry(value)
    }

    /// The last value saved. Cancel-safe: dropped half-way, nothing has changed.
    pub(crate) async fn load(&mut self) -> Result<Option<T>, StoreError> {
        let found = self.state.load().await?;
        let version = found.as_ref().map(|found: &Versioned<T>| found.version);
        self.expected = Some(expected_version(version));
        Ok(found.map(|found| found.value))
    }

    /// Saves, if nothing but our own saves has happened since the last look. Dropped half-way, it has happened or not,
    /// and the next save finds out.
    pub(crate) async fn save(&mut self, entry: Entry) -> Result<(), StoreError> {
        loop {
            let expected = self.expected().await?;
            let may_have_changed = !self.unanswered.is_empty();
            // Before the call: it may be dropped from here on.
            self.unanswered.begin(entry.stamp);
            match self.state.save_as_owner(expected, entry.clone()).await {
                Ok(version) => {
                    let now = expected_version(Some(version).filter(|version| version.0 > 0));
                    // An unchanged version: the value is in a fallback file, and the store has not answered.
                    if now != expected {
                        self.unanswered.clear();
                    }
                    self.expected = Some(now);
                    return Ok(());
                }
                // It may be one of our own that was not answered.
                Err(error) if may_have_changed && (error.is_conflict() || error.is_unknown()) => {
                    if !self.adopt_own_save().await? {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn expected(&mut self) -> Result<Expected, StoreError> {
        if let Some(expected) = self.expected {
            return Ok(expected);
        }
        // It never asked what is there: then that is what it goes on from.
        let found = self.state.load_record().await?;
        Ok(*self
            .expected
            .insert(expected_version(found.map(|found| found.version))))
    }

    /// Whether the last save in the store is one of ours without an answer: then that is the last one we know of.
    async fn adopt_own_save(&mut self) -> Result<bool, StoreError> {
        let found = self.state.load_record().await?;
        let Some(found) = found.filter(|found| self.unanswered.has(found.entry.stamp)) else {
            return Ok(false);
        };
        self.unanswered.clear();
        self.expected = Some(Expected::Version(found.version));
        Ok(true)
    }
}
