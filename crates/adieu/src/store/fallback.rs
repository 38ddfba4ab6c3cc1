//! Where a last save goes when its store is gone: a file on this machine, given back to the store at the next start.
//!
//! It is a bridge over one stop, not a second store: only while the service stops, and only for whoever owns the
//! state alone. What is kept says which version of the store it follows. If the store still has that one when it is
//! back, nobody else was at work, and the kept value takes its place; else the store is right, and what was kept
//! stays in the file for a person to look at.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::contract::{Entry, Expected, Record, Store, Version};
use super::error::StoreError;
use super::file::FileStore;

#[derive(Debug)]
pub(super) struct Fallback {
    files: FileStore,
}

/// What is in the file.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    /// Whether the store has it by now, or never will.
    settled: bool,
    /// The version it follows; none if there was no state.
    after: Option<u64>,
    format: u32,
    value: Box<RawValue>,
}

/// Something that the store does not know yet.
pub(super) struct Unsaved {
    pub(super) expected: Expected,
    pub(super) entry: Entry,
    kept: Kept,
}

impl Fallback {
    pub(super) const fn new(files: FileStore) -> Self {
        Self { files }
    }

    pub(super) async fn keep(
        &self,
        key: &str,
        after: Option<Version>,
        entry: &Entry,
    ) -> Result<(), StoreError> {
        let Ok(value) = serde_json::from_str(&entry.value) else {
            return Ok(());
        };
        let kept = Kept {
            settled: false,
            after: after.map(|version| version.0),
            format: entry.format,
            value,
        };
        self.write(key, &kept).await
    }

    pub(super) async fn unsaved(&self, key: &str) -> Result<Option<Unsaved>, StoreError> {
        let Some(Record { entry, .. }) = self.files.load(key).await? else {
            return Ok(None);
        };
        // Whatever else is in the folder is not ours to lose.
        let Ok(kept) = serde_json::from_str::<Kept>(&entry.value) else {
            return Ok(None);
        };
        if kept.settled {
            return Ok(None);
        }
        let after = kept.after.map(Version);
        Ok(Some(Unsaved {
            expected: after.map_or(Expected::Absent, Expected::Version),
            entry: Entry {
                format: kept.format,
                stamp: 0,
                value: kept.value.get().to_owned(),
            },
            kept,
        }))
    }

    /// The store has it, or has something newer.
    pub(super) async fn settle(&self, key: &str, mut unsaved: Unsaved) -> Result<(), StoreError> {
        unsaved.kept.settled = true;
        self.write(key, &unsaved.kept).await
    }

    async fn write(&self, key: &str, kept: &Kept) -> Result<(), StoreError> {
        let Ok(value) = serde_json::to_string(kept) else {
            return Ok(());
        };
        let entry = Entry {
            format: 1,
            stamp: 0,
            value,
        };
        self.files.save(key, Expected::Any, &entry).await.map(drop)
    }

    pub(super) async fn close(&self) -> Result<(), StoreError> {
        self.files.close().await
    }
}
