//! One piece of state, with its type.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use adieu_core::{Entry, Expected, Record, StoreError, Version};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error;
use super::handle::{Ownership, StoreHandle, stamp};

/// A piece of state under a key of a [store](StoreHandle): load it, save it, or save it only if
/// no other process has.
///
/// Cheap to clone. Made by [`StoreHandle::state`].
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// #[derive(Default, Serialize, Deserialize)]
/// struct Seen { last_id: u64 }
///
/// # async fn follow(store: adieu::state::StoreHandle) -> adieu::Result {
/// let state = store.state::<Seen>("feed");
/// let mut seen = state.load().await?.map(|found| found.value).unwrap_or_default();
/// seen.last_id += 1;
/// state.save(&seen).await?; // durable when this returns
/// # Ok(())
/// # }
/// ```
pub struct State<T> {
    store: StoreHandle,
    key: Arc<str>,
    format: u32,
    value: PhantomData<fn(T) -> T>,
}

/// A value, and which save it is of.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Versioned<T> {
    /// Which save.
    pub version: Version,
    /// The value.
    pub value: T,
}

impl<T> State<T> {
    pub(super) const fn new(store: StoreHandle, key: Arc<str>) -> Self {
        Self {
            store,
            key,
            format: 1,
            value: PhantomData,
        }
    }

    /// The number of the format that this program writes; 1 without this.
    ///
    /// Raise it when an older version of the program would misread the state: loaded there, it is an
    /// [error](StoreError::is_newer) instead. State of an older format is given to serde as it is, so new fields
    /// need a `#[serde(default)]`.
    #[must_use]
    pub fn format(mut self, format: u32) -> Self {
        self.format = format;
        self
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }
}

impl<T: Serialize + DeserializeOwned> State<T> {
    /// The last value saved, if there is one.
    ///
    /// Cancel-safe: dropping it changes nothing.
    ///
    /// # Errors
    /// The store is not available, or what is there cannot be read: it is corrupt, of a newer format, or not a
    /// `T`. It is left as it is.
    pub async fn load(&self) -> Result<Option<Versioned<T>>, StoreError> {
        let found = self.load_record().await?;
        // Its size and not its content, which may be secret.
        let seen = found
            .as_ref()
            .map(|it| (it.version.0, it.entry.format, it.entry.value.len()));
        self.store.log(&self.key, move |key| match seen {
            Some((version, format, bytes)) => {
                tracing::info!(key, version, format, bytes, "state loaded");
            }
            None => tracing::info!(key, "no state was saved yet"),
        });
        found.map(|record| self.decode(&record)).transpose()
    }

    /// What is there, as it is, without a word in the log.
    pub(crate) async fn load_record(&self) -> Result<Option<Record>, StoreError> {
        self.store.load(&self.key).await
    }

    /// As [`State::load`], for those who look often: without a word in the log.
    #[cfg(feature = "schedule")]
    pub(crate) async fn load_quietly(&self) -> Result<Option<Versioned<T>>, StoreError> {
        let found = self.load_record().await?;
        found.map(|record| self.decode(&record)).transpose()
    }

    fn decode(&self, record: &Record) -> Result<Versioned<T>, StoreError> {
        let version = record.version;
        if record.entry.format > self.format {
            return Err(error::newer_format(
                &self.key,
                record.entry.format,
                self.format,
            ));
        }
        let value = serde_json::from_str(&record.entry.value)
            .map_err(|cause| error::unreadable(&self.key, version, cause))?;
        Ok(Versioned { version, value })
    }

    /// Saves the value, whatever is there. It is durable when this returns, and no try of an earlier save can take its
    /// place any more.
    ///
    /// Once it has begun, cancelling its task waits for it, inside the cancel phase. Dropped half-way, it leaves
    /// the old value or the new one.
    ///
    /// # Errors
    /// The store is not available, is full or is closed. What was saved before is intact.
    pub async fn save(&self, value: &T) -> Result<Version, StoreError> {
        self.save_as_owner(Expected::Any, self.entry(value)?).await
    }

    /// Saves the value if the last save is still this one.
    ///
    /// Dropped half-way, it leaves the old value or the new one.
    ///
    /// # Errors
    /// As [`State::save`]; and a [conflict](StoreError::is_conflict) if another process has saved. If the answer to a first
    /// try was lost and another process has saved by the second, it is [unknown](StoreError::is_unknown) whether this one
    /// came first.
    pub async fn compare_and_swap(
        &self,
        expected: Version,
        value: &T,
    ) -> Result<Version, StoreError> {
        self.save_if(Expected::Version(expected), value).await
    }

    /// Saves the value if there is none.
    ///
    /// Dropped half-way, it leaves nothing or the value.
    ///
    /// # Errors
    /// As [`State::save`]; and a [conflict](StoreError::is_conflict) if there is one already.
    pub async fn create(&self, value: &T) -> Result<Version, StoreError> {
        self.save_if(Expected::Absent, value).await
    }

    async fn save_if(&self, expected: Expected, value: &T) -> Result<Version, StoreError> {
        let entry = self.entry(value)?;
        let ownership = Ownership::Shared;
        self.store.save(&self.key, expected, entry, ownership).await
    }

    /// Saves for the one who owns this state.
    pub(crate) async fn save_as_owner(
        &self,
        expected: Expected,
        entry: Entry,
    ) -> Result<Version, StoreError> {
        let ownership = Ownership::Exclusive;
        self.store.save(&self.key, expected, entry, ownership).await
    }

    pub(crate) fn entry(&self, value: &T) -> Result<Entry, StoreError> {
        let value =
            serde_json::to_string(value).map_err(|cause| error::not_json(&self.key, cause))?;
        Ok(Entry::new(self.format, stamp(), value))
    }
}

impl<T> Clone for State<T> {
    fn clone(&self) -> Self {
        Self {
            store: self.store.clone(),
            key: Arc::clone(&self.key),
            format: self.format,
            value: PhantomData,
        }
    }
}

impl<T> fmt::Debug for State<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("key", &self.key)
            .field("format", &self.format)
            .finish_non_exhaustive()
    }
}
