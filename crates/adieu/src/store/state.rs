//! One piece of state, with its type.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::contract::{Entry, Expected, Version};
use super::error::{Kind, StoreError};
use super::handle::{Saver, StoreHandle};

/// A piece of state under a key of a [store](StoreHandle): load it, save it, or save it only if nobody else has.
///
/// Cheap to clone. Made by [`StoreHandle::state`].
///
/// ```
/// # use serde::{Deserialize, Serialize};
/// #[derive(Default, Serialize, Deserialize)]
/// struct Seen { last_id: u64 }
///
/// # async fn follow(store: adieu::StoreHandle) -> adieu::Result {
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
        let Some(record) = self.store.load(&self.key).await? else {
            return Ok(None);
        };
        let (version, key) = (record.version, || self.key.to_string());
        if record.entry.format > self.format {
            return Err(StoreError::new(Kind::NewerFormat {
                key: key(),
                found: record.entry.format,
                known: self.format,
            }));
        }
        let value = serde_json::from_str(&record.entry.value).map_err(|cause| {
            StoreError::new(Kind::Unreadable {
                key: key(),
                version,
                cause,
            })
        })?;
        Ok(Some(Versioned { version, value }))
    }

    /// Saves the value, whatever is there. It is durable when this returns.
    ///
    /// Once it has begun, cancelling its task waits for it, inside the cancel phase. Dropped half-way, it leaves
    /// the old value or the new one.
    ///
    /// # Errors
    /// The store is not available, is full or is closed. What was saved before is intact.
    pub async fn save(&self, value: &T) -> Result<Version, StoreError> {
        self.keep(Expected::Any, self.entry(value)?).await
    }

    /// Saves the value if the last save is still this one.
    ///
    /// Dropped half-way, it leaves the old value or the new one.
    ///
    /// # Errors
    /// As [`State::save`]; and a [conflict](StoreError::is_conflict) if somebody else has saved.
    pub async fn compare_and_swap(
        &self,
        expected: Version,
        value: &T,
    ) -> Result<Version, StoreError> {
        self.put(Expected::Version(expected), value).await
    }

    /// Saves the value if there is none.
    ///
    /// Dropped half-way, it leaves nothing or the value.
    ///
    /// # Errors
    /// As [`State::save`]; and a [conflict](StoreError::is_conflict) if there is one already.
    pub async fn create(&self, value: &T) -> Result<Version, StoreError> {
        self.put(Expected::Absent, value).await
    }

    async fn put(&self, expected: Expected, value: &T) -> Result<Version, StoreError> {
        let entry = self.entry(value)?;
        let saver = Saver::Rival;
        self.store.save(&self.key, expected, entry, saver).await
    }

    /// Saves for the one who owns this state.
    pub(crate) async fn keep(
        &self,
        expected: Expected,
        entry: Entry,
    ) -> Result<Version, StoreError> {
        let saver = Saver::Owner;
        self.store.save(&self.key, expected, entry, saver).await
    }

    pub(crate) fn entry(&self, value: &T) -> Result<Entry, StoreError> {
        let value = serde_json::to_string(value).map_err(|cause| {
            let key = self.key.to_string();
            StoreError::new(Kind::NotJson { key, cause })
        })?;
        Ok(Entry {
            format: self.format,
            stamp: 0,
            value,
        })
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
