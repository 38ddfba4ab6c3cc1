//! State in a directory: one JSON file a key, replaced as a whole, with the generation before kept beside it.

mod directory;
mod error;
mod format;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod generations;
mod lock;
mod reuse;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use adieu_core::{Entry, Expected, Record, Store, StoreError, StoreFuture, Version};
use tokio::time::Instant;

use directory::Directory;

/// State in files of a directory: nothing to install, and nothing to lose.
///
/// A save writes beside the old file, flushes it to the disk, renames it into place and flushes the directory. Killed
/// at any instant, the process leaves the old state or the new one. The generation before is kept, and is used if
/// the last one is damaged; the damaged file is set aside and named in the log, never deleted.
///
/// | file | what it is |
/// |---|---|
/// | `importer.json` | the state `importer` |
/// | `importer.previous.json` | the save before |
/// | `importer.new` | room for the next one, while the program runs |
/// | `importer.corrupt-1.json` | a damaged file that was set aside |
/// | `lock` | held by the one process that uses the directory; its number is in it |
///
/// The files are JSON, with mode 0600; what was saved is under `value`:
///
/// ```json
/// {
///   "adieu": 1,
///   "key": "importer",
///   "version": 42,
///   "format": 1,
///   "checksum": "crc32:5d1f0a3c",
///   "value": {"processed_count":42,"last_id":42}
/// }
/// ```
///
/// To change one by hand while the program is not running, leave its `checksum` out.
///
/// Two processes cannot use a directory at a time: the error of the second has the process ID of the first, or it
/// [waits](FileStore::open_when_free) for its end. For several, there are stores on a server.
#[derive(Clone, Debug)]
pub struct FileStore {
    directory: Arc<Directory>,
}

impl FileStore {
    /// Opens the directory, and makes it if there is none.
    ///
    /// Dropped half-way, it leaves the directory unlocked.
    ///
    /// # Errors
    /// Another process uses it, or it cannot be written to.
    pub async fn open(directory: impl Into<PathBuf>) -> Result<Self, StoreError> {
        Self::enter(directory.into(), None).await
    }

    /// Opens the directory also if another process uses it: the first load or save then waits until that one has ended,
    /// for at most `patience` from now.
    ///
    /// For a service that hands over to its next version: that one is ready while the old one still drains, and its
    /// workers go on when the old one has let go.
    ///
    /// Dropped half-way, it leaves the directory unlocked.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # async fn setup(app: &mut adieu::App) -> adieu::Result {
    /// let directory = "/var/lib/orders";
    /// let store = app.store(adieu::state::FileStore::open_when_free(directory, Duration::from_secs(60))).await?;
    /// # drop(store);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// It cannot be written to. That another process still has it is the error of a load or a save, when `patience` is
    /// over.
    pub async fn open_when_free(
        directory: impl Into<PathBuf>,
        patience: Duration,
    ) -> Result<Self, StoreError> {
        let until = Instant::now() + patience;
        Self::enter(directory.into(), Some(until)).await
    }

    async fn enter(path: PathBuf, until: Option<Instant>) -> Result<Self, StoreError> {
        let directory = blocking(move || Directory::open(path, until)).await?;
        let directory = Arc::new(directory);
        Ok(Self { directory })
    }

    /// The file that the state under this key is in.
    ///
    /// # Errors
    /// The key is empty or far too long.
    pub fn path(&self, key: &str) -> Result<PathBuf, StoreError> {
        self.directory.files(key).map(|files| files.current)
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory.path
    }
}

impl Store for FileStore {
    fn load<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Record>> {
        Box::pin(async move {
            let guard = self.directory.lock_key(key).await?;
            blocking(move || guard.load()).await
        })
    }

    fn save<'a>(
        &'a self,
        key: &'a str,
        expected: Expected,
        entry: &'a Entry,
    ) -> StoreFuture<'a, Version> {
        Box::pin(async move {
            let guard = self.directory.lock_key(key).await?;
            let entry = entry.clone();
            // From here it runs to its end, also if this future is dropped: the guard is held until then, so what
            // is begun later is also written later.
            blocking(move || guard.save(expected, &entry)).await
        })
    }

    fn close(&self) -> StoreFuture<'_, ()> {
        Box::pin(self.directory.close())
    }
}

/// Runs file work on a thread where it blocks no other task.
async fn blocking<T, F>(work: F) -> Result<T, StoreError>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, StoreError> + Send + 'static,
{
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(joined) => match joined.try_into_panic() {
            Ok(payload) => std::panic::resume_unwind(payload),
            // Only a runtime that shuts down drops blocking work.
            Err(_) => Err(crate::state::error::closed()),
        },
    }
}
