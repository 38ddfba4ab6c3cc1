//! The folder: who is in it, and whose turn it is with which file.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::{Arc, Mutex as SyncMutex, PoisonError};

use tokio::sync::{Mutex, OwnedMutexGuard, OwnedRwLockReadGuard, RwLock};

use super::generations::Files;
use super::lock;
use crate::store::contract::{Entry, Expected, Record, Version};
use crate::store::error::{Kind, StoreError};

#[derive(Debug)]
pub(super) struct Folder {
    pub(super) path: PathBuf,
    slots: SyncMutex<HashMap<String, Arc<Mutex<Known>>>>,
    /// Held for reading by whoever works with a file. Closing takes it for writing, and takes the lock out.
    open: Arc<RwLock<Option<Desk>>>,
}

/// What an open folder has.
#[derive(Debug)]
struct Desk {
    /// For the flush of the folder itself; elsewhere than on Unix a folder cannot be opened.
    folder: Option<File>,
    _lock: File,
}

/// The version of a file, once it is known: nobody else changes it while we have the lock.
#[derive(Debug, Default)]
enum Known {
    #[default]
    Unknown,
    Version(Option<Version>),
}

impl Folder {
    pub(super) fn open(path: PathBuf) -> Result<Self, StoreError> {
        if !path.is_dir() {
            let mut builder = fs::DirBuilder::new();
            builder.recursive(true);
            #[cfg(unix)]
            std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
            builder
                .create(&path)
                .map_err(|cause| StoreError::io("make state folder", &path, cause))?;
        }
        let lock = lock::take(&path)?;
        let folder = if cfg!(unix) {
            let opened = File::open(&path);
            Some(opened.map_err(|cause| StoreError::io("open state folder", &path, cause))?)
        } else {
            None
        };
        let desk = Desk {
            folder,
            _lock: lock,
        };
        Ok(Self {
            path,
            slots: SyncMutex::default(),
            open: Arc::new(RwLock::new(Some(desk))),
        })
    }

    pub(super) fn files(&self, key: &str) -> Result<Files, StoreError> {
        Files::new(&self.path, key)
    }

    /// Waits for the file's turn: first come, first served.
    ///
    /// Dropping it gives up the place in the queue.
    pub(super) async fn turn(&self, key: &str) -> Result<Turn, StoreError> {
        let files = self.files(key)?;
        let slot = {
            let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            match slots.get(key) {
                Some(slot) => Arc::clone(slot),
                None => Arc::clone(slots.entry(key.to_owned()).or_default()),
            }
        };
        let known = slot.lock_owned().await;
        let open = Arc::clone(&self.open).read_owned().await;
        let desk = OwnedRwLockReadGuard::try_map(open, Option::as_ref)
            .map_err(|_| StoreError::new(Kind::Closed))?;
        Ok(Turn {
            key: key.to_owned(),
            files,
            known,
            desk,
        })
    }

    /// Waits for what was begun, then lets the next process in. Dropped half-way, nothing new is begun.
    pub(super) async fn close(&self) -> Result<(), StoreError> {
        let desk = self.open.write().await.take();
        drop(desk);
        Ok(())
    }
}

/// The right to work with one file, on whatever thread.
pub(super) struct Turn {
    key: String,
    files: Files,
    known: OwnedMutexGuard<Known>,
    desk: OwnedRwLockReadGuard<Option<Desk>, Desk>,
}

impl Turn {
    pub(super) fn load(mut self) -> Result<Option<Record>, StoreError> {
        let found = self.files.load(&self.key)?;
        *self.known = Known::Version(found.as_ref().map(|record| record.version));
        Ok(found)
    }

    pub(super) fn save(mut self, expected: Expected, entry: &Entry) -> Result<Version, StoreError> {
        let found = match *self.known {
            Known::Version(version) => version,
            Known::Unknown => self.files.load(&self.key)?.map(|record| record.version),
        };
        if !expected.matches(found) {
            *self.known = Known::Version(found);
            return Err(StoreError::conflict(&*self.key, expected, found));
        }
        let version = Version(found.map_or(1, |version| version.0 + 1));
        // A write that fails may have happened or not; then the file is looked at again.
        *self.known = Known::Unknown;
        self.files
            .save(&self.key, version, entry, self.desk.folder.as_ref())?;
        *self.known = Known::Version(Some(version));
        Ok(version)
    }
}
