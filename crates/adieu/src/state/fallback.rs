//! Where a last save goes when its store is gone: a file on this machine, given back to the store at the next start.
//!
//! It is a bridge over one stop, not a second store: only while the service stops, and only for state with one
//! owner. What is kept says which version of the store it follows, and which saves of ours were not answered since.
//! If the store has that version or one of those saves when it is back, no other process has saved, and the kept value takes its
//! place; else the store is right, and what was kept stays in the file for a person to look at.

use adieu_core::{Entry, Expected, Record, Store, StoreError, Version};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::error::not_json;
use super::file::FileStore;
use super::handle::stamp;
use super::unanswered::UnansweredSaves;

#[derive(Debug)]
pub(super) struct Fallback {
    files: FileStore,
}

/// What is in the file.
#[derive(Debug, Serialize, Deserialize)]
struct FallbackDocument {
    /// Whether the store has it by now, or never will.
    settled: bool,
    /// The version it follows; none if there was no state.
    after: Option<u64>,
    /// Saves since then that may have arrived, the kept one included.
    #[serde(default)]
    unanswered: UnansweredSaves,
    format: u32,
    value: Box<RawValue>,
}

/// Something that the store does not know yet.
pub(super) struct PendingSave {
    pub(super) entry: Entry,
    document: FallbackDocument,
}

impl PendingSave {
    /// What the store must have for the kept value to be the next one, if this is what was found there.
    pub(super) fn expected(&self, found: Option<&Record>) -> Expected {
        match found {
            Some(found) if self.document.unanswered.has(found.entry.stamp) => {
                Expected::Version(found.version)
            }
            _ => self
                .document
                .after
                .map_or(Expected::Absent, |after| Expected::Version(Version(after))),
        }
    }
}

impl Fallback {
    pub(super) const fn new(files: FileStore) -> Self {
        Self { files }
    }

    pub(super) async fn write_pending(
        &self,
        key: &str,
        after: Option<Version>,
        unanswered: UnansweredSaves,
        entry: &Entry,
    ) -> Result<(), StoreError> {
        // A value that cannot be kept is not acknowledged.
        let value = serde_json::from_str(&entry.value).map_err(|cause| not_json(key, cause))?;
        let document = FallbackDocument {
            settled: false,
            after: after.map(|version| version.0),
            unanswered,
            format: entry.format,
            value,
        };
        self.write(key, &document).await
    }

    pub(super) async fn pending(&self, key: &str) -> Result<Option<PendingSave>, StoreError> {
        let Some(Record { entry, .. }) = self.files.load(key).await? else {
            return Ok(None);
        };
        // A file of another program is left as it is.
        let Ok(document) = serde_json::from_str::<FallbackDocument>(&entry.value) else {
            return Ok(None);
        };
        if document.settled {
            return Ok(None);
        }
        // Of the last try, which is this value: given to the store twice, it is recognised.
        let stamp = document.unanswered.last().unwrap_or_else(stamp);
        let entry = Entry::new(document.format, stamp, document.value.get());
        Ok(Some(PendingSave { entry, document }))
    }

    /// The store has it, or has something newer.
    pub(super) async fn mark_settled(
        &self,
        key: &str,
        mut pending: PendingSave,
    ) -> Result<(), StoreError> {
        pending.document.settled = true;
        self.write(key, &pending.document).await
    }

    async fn write(&self, key: &str, document: &FallbackDocument) -> Result<(), StoreError> {
        let value = serde_json::to_string(document).map_err(|cause| not_json(key, cause))?;
        let entry = Entry::new(1, 0, value);
        self.files.save(key, Expected::Any, &entry).await.map(drop)
    }

    pub(super) async fn close(&self) -> Result<(), StoreError> {
        self.files.close().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_cannot_be_kept_is_an_error_and_not_an_acknowledgement() {
        let folder = tempfile::tempdir().expect("a directory");
        let files = FileStore::open(folder.path()).await.expect("a store");
        let fallback = Fallback::new(files);
        let keep = async |value: &str| {
            let entry = Entry::new(1, 1, value.to_owned());
            let unanswered = UnansweredSaves::new();
            fallback
                .write_pending("key", None, unanswered, &entry)
                .await
        };
        let error = keep("{\"torn\": ").await.expect_err("it is not JSON");
        assert!(error.to_string().contains("`key` was not saved"), "{error}");
        assert!(fallback.pending("key").await.expect("a look").is_none());
        keep("{\"whole\": 1}").await.expect("it is kept");
        let kept = fallback
            .pending("key")
            .await
            .expect("a look")
            .expect("it is there");
        assert_eq!(&*kept.entry.value, "{\"whole\": 1}");
    }
}
