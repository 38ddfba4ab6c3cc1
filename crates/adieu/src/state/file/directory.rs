//! The directory: who is in it, and whose turn it is with which file.

use std::collections::HashMap;
use std::fs;
#[cfg(unix)]
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex as SyncMutex, PoisonError};

use adieu_core::{Entry, Expected, Record, StoreError, Version};
use tokio::sync::{Mutex, OwnedMutexGuard, OwnedRwLockReadGuard, RwLock, watch};
use tokio::time::{Instant, timeout_at};

use super::generations::KeyFiles;
use super::lock::{self, Lock};
use super::{blocking, error};
use crate::state::error::closed;

#[derive(Debug)]
pub(super) struct Directory {
    pub(super) path: PathBuf,
    slots: SyncMutex<HashMap<String, Arc<Mutex<FileCache>>>>,
    /// A load or save holds it for reading. Closing takes it for writing, and takes the lock out.
    open: Arc<RwLock<DirectoryState>>,
    /// If another process had the directory when this one came.
    waiter: Option<Waiter>,
}

#[derive(Debug)]
enum DirectoryState {
    /// Another process is in there still.
    Waiting,
    Open(Lock),
    Closed,
}

/// Whether the directory is free by now, and until when a load or save waits for that.
#[derive(Debug)]
struct Waiter {
    free: watch::Receiver<bool>,
    until: Instant,
}

/// What is known of the files of one key: no other process changes them while this one has the lock.
#[derive(Debug, Default)]
struct FileCache {
    version: CachedVersion,
    /// The stamp of that version, if this process saved it. It is not in the file: a process that was killed waits for no
    /// answer.
    stamp: u64,
    /// The disk has the names as they are. Until then the file that lost its name last may still be the current one
    /// there, and is not to be written over.
    is_settled: bool,
}

/// The version of a file, once a load or save has read it.
#[derive(Debug, Default, PartialEq)]
enum CachedVersion {
    #[default]
    Unread,
    Found(Option<Version>),
}

impl Directory {
    /// Opens it; if another process has it, that is an error, or the first load or save waits until
    /// this moment.
    pub(super) fn open(path: PathBuf, until: Option<Instant>) -> Result<Self, StoreError> {
        make(&path)?;
        let (state, until) = match (lock::try_take(&path), until) {
            (Ok(lock), _) => (DirectoryState::Open(lock), None),
            (Err(error), Some(until)) if error.is_locked() => {
                (DirectoryState::Waiting, Some(until))
            }
            (Err(error), _) => return Err(error),
        };
        let open = Arc::new(RwLock::new(state));
        let waiter = until.map(|until| Waiter {
            free: wait_for_lock(path.clone(), Arc::clone(&open)),
            until,
        });
        Ok(Self {
            path,
            slots: SyncMutex::default(),
            open,
            waiter,
        })
    }

    pub(super) fn files(&self, key: &str) -> Result<KeyFiles, StoreError> {
        KeyFiles::new(&self.path, key)
    }

    /// Waits for the file's turn: first come, first served.
    ///
    /// Dropping it gives up the place in the queue.
    pub(super) async fn lock_key(&self, key: &str) -> Result<FileGuard, StoreError> {
        let files = self.files(key)?;
        let slot = {
            let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            match slots.get(key) {
                Some(slot) => Arc::clone(slot),
                None => Arc::clone(slots.entry(key.to_owned()).or_default()),
            }
        };
        let known = slot.lock_owned().await;
        if let Some(waiter) = &self.waiter {
            let mut free = waiter.free.clone();
            // The waiting thread has ended without the lock, or the time is over.
            let is_free = timeout_at(waiter.until, free.wait_for(|free| *free)).await;
            if !matches!(is_free, Ok(Ok(_))) {
                // adieu: ignore(ADR102) on an error only: one look at a local file, to say who has the directory
                return Err(lock::held_by_another(&self.path));
            }
        }
        let open = Arc::clone(&self.open).read_owned().await;
        let lock =
            OwnedRwLockReadGuard::try_map(open, DirectoryState::lock).map_err(|_| closed())?;
        Ok(FileGuard {
            key: key.to_owned(),
            files,
            known,
            lock,
        })
    }

    /// Waits for what was begun, tidies up, and lets the next process in. Dropped half-way, nothing new is begun.
    pub(super) async fn close(&self) -> Result<(), StoreError> {
        let mut state = Arc::clone(&self.open).write_owned().await;
        let used = match *state {
            DirectoryState::Open(_) => self.all_files(),
            DirectoryState::Waiting | DirectoryState::Closed => Vec::new(),
        };
        blocking(move || {
            used.iter().for_each(KeyFiles::remove_new_file);
            *state = DirectoryState::Closed;
            Ok(())
        })
        .await
    }

    /// The files of every key that was loaded or saved.
    fn all_files(&self) -> Vec<KeyFiles> {
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let files = slots.keys().map(|key| self.files(key));
        files.filter_map(Result::ok).collect()
    }
}

/// Makes the directory if there is none. What is saved in it is durable only if its name is, and the names of the directories
/// above it that were missing: each is flushed into the one above it.
fn make(path: &Path) -> Result<(), StoreError> {
    let is_missing = |directory: &&Path| !directory.as_os_str().is_empty() && !directory.is_dir();
    // Its own name also when it was there: the process that made it may have been killed before the flush.
    let made = path.ancestors().skip(1).take_while(is_missing).count() + 1;
    if !path.is_dir() {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(path).map_err(|cause| {
            let cause = match cause.kind() {
                kind @ io::ErrorKind::AlreadyExists => {
                    io::Error::new(kind, "it is a file: move it away, or name a directory")
                }
                _ => cause,
            };
            error::io("make state directory", path, cause)
        })?;
    }
    for above in path.ancestors().skip(1).take(made) {
        flush_directory(above)?;
    }
    Ok(())
}

#[cfg(unix)]
fn flush_directory(path: &Path) -> Result<(), StoreError> {
    let path = match path.as_os_str().is_empty() {
        true => Path::new("."),
        false => path,
    };
    match File::open(path).and_then(|directory| directory.sync_all()) {
        // One that this user may pass through and not read, or of a file system that flushes no directories.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::PermissionDenied
                    | io::ErrorKind::InvalidInput
                    | io::ErrorKind::ReadOnlyFilesystem
                    | io::ErrorKind::Unsupported
            ) =>
        {
            Ok(())
        }
        flushed => flushed.map_err(|cause| error::io("flush", path, cause)),
    }
}

#[cfg(not(unix))]
fn flush_directory(_: &Path) -> Result<(), StoreError> {
    Ok(())
}

impl DirectoryState {
    const fn lock(&self) -> Option<&Lock> {
        match self {
            Self::Open(lock) => Some(lock),
            Self::Waiting | Self::Closed => None,
        }
    }
}

/// Waits for the lock on a thread of its own, because nothing ends that wait but the other process. Who has closed the
/// store meanwhile does not want it any more.
fn wait_for_lock(path: PathBuf, open: Arc<RwLock<DirectoryState>>) -> watch::Receiver<bool> {
    let (tell, free) = watch::channel(false);
    let wait = move || {
        let lock = lock::wait_for(&path);
        let mut state = open.blocking_write();
        if let (Ok(lock), DirectoryState::Waiting) = (lock, &*state) {
            *state = DirectoryState::Open(lock);
            let _ = tell.send(true);
        }
    };
    // Without a thread the sender is dropped, and the load or save that waits fails.
    let _ = std::thread::Builder::new()
        .name("adieu-lock".to_owned())
        .spawn(wait);
    free
}

/// Exclusive use of the files of one key, on any thread.
pub(super) struct FileGuard {
    key: String,
    files: KeyFiles,
    known: OwnedMutexGuard<FileCache>,
    lock: OwnedRwLockReadGuard<DirectoryState, Lock>,
}

impl FileGuard {
    pub(super) fn load(mut self) -> Result<Option<Record>, StoreError> {
        let mut found = self.files.load(&self.key)?;
        let version = found.as_ref().map(|record| record.version);
        match &mut found {
            Some(record) if self.known.version == CachedVersion::Found(version) => {
                record.entry.stamp = self.known.stamp;
            }
            _ => self.known.stamp = 0,
        }
        self.known.version = CachedVersion::Found(version);
        Ok(found)
    }

    pub(super) fn save(mut self, expected: Expected, entry: &Entry) -> Result<Version, StoreError> {
        let known = &mut *self.known;
        let found = match known.version {
            CachedVersion::Found(version) => version,
            CachedVersion::Unread => self.files.load(&self.key)?.map(|record| record.version),
        };
        if !expected.matches(found) {
            if known.version != CachedVersion::Found(found) {
                (known.version, known.stamp) = (CachedVersion::Found(found), 0);
            }
            return Err(StoreError::conflict(&*self.key, expected, found));
        }
        let version = Version(found.map_or(1, |version| version.0 + 1));
        // A write that fails may have happened or not; then the file is looked at again.
        let is_settled = std::mem::take(known).is_settled;
        if !is_settled {
            self.files.remove_new_file();
        }
        self.files
            .save(&self.key, version, entry, self.lock.directory.as_ref())?;
        *known = FileCache {
            version: CachedVersion::Found(Some(version)),
            stamp: entry.stamp,
            is_settled: true,
        };
        Ok(version)
    }
}
