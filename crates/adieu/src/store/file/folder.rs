//! The folder: who is in it, and whose turn it is with which file.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex as SyncMutex, PoisonError};

use tokio::sync::{Mutex, OwnedMutexGuard, OwnedRwLockReadGuard, RwLock, watch};
use tokio::time::{Instant, timeout_at};

use super::generations::Files;
use super::{blocking, lock};
use crate::store::contract::{Entry, Expected, Record, Version};
use crate::store::error::{Kind, StoreError};

#[derive(Debug)]
pub(super) struct Folder {
    pub(super) path: PathBuf,
    slots: SyncMutex<HashMap<String, Arc<Mutex<Known>>>>,
    /// Held for reading by whoever works with a file. Closing takes it for writing, and takes the lock out.
    open: Arc<RwLock<Door>>,
    /// If another process had the folder when this one came.
    coming: Option<Coming>,
}

#[derive(Debug)]
enum Door {
    /// Another process is in there still.
    Waiting,
    Open(Desk),
    Closed,
}

/// Word of the folder's becoming free, and until when it is waited for.
#[derive(Debug)]
struct Coming {
    free: watch::Receiver<bool>,
    until: Instant,
}

/// What an open folder has.
#[derive(Debug)]
struct Desk {
    /// For the flush of the folder itself; elsewhere than on Unix a folder cannot be opened.
    folder: Option<File>,
    _lock: File,
}

/// What is known of the files of one key: nobody else changes them while we have the lock.
#[derive(Debug, Default)]
struct Known {
    version: Looked,
    /// The disk has the names as they are. Until then the file that lost its name last may still be the present one
    /// there, and is not to be written over.
    is_settled: bool,
}

/// The version of a file, once somebody has looked.
#[derive(Debug, Default)]
enum Looked {
    #[default]
    NotYet,
    Found(Option<Version>),
}

impl Desk {
    fn new(path: &Path, lock: File) -> Result<Self, StoreError> {
        let folder = if cfg!(unix) {
            let opened = File::open(path);
            Some(opened.map_err(|cause| StoreError::io("open state folder", path, cause))?)
        } else {
            None
        };
        Ok(Self {
            folder,
            _lock: lock,
        })
    }
}

impl Folder {
    /// Opens it; if another process has it, that is an error, or it is waited for until this moment when somebody
    /// wants something of it.
    pub(super) fn open(path: PathBuf, until: Option<Instant>) -> Result<Self, StoreError> {
        if !path.is_dir() {
            let mut builder = fs::DirBuilder::new();
            builder.recursive(true);
            #[cfg(unix)]
            std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
            builder.create(&path).map_err(|cause| {
                let cause = match cause.kind() {
                    kind @ io::ErrorKind::AlreadyExists => {
                        io::Error::new(kind, "it is a file: move it away, or name a folder")
                    }
                    _ => cause,
                };
                StoreError::io("make state folder", &path, cause)
            })?;
        }
        let (door, until) = match (lock::take(&path), until) {
            (Ok(lock), _) => (Door::Open(Desk::new(&path, lock)?), None),
            (Err(error), Some(until)) if error.is_locked() => (Door::Waiting, Some(until)),
            (Err(error), _) => return Err(error),
        };
        let open = Arc::new(RwLock::new(door));
        let coming = until.map(|until| Coming {
            free: await_turn(path.clone(), Arc::clone(&open)),
            until,
        });
        Ok(Self {
            path,
            slots: SyncMutex::default(),
            open,
            coming,
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
        if let Some(coming) = &self.coming {
            let mut free = coming.free.clone();
            // Whoever has gone without a word could not lock it.
            let is_free = timeout_at(coming.until, free.wait_for(|free| *free)).await;
            if !matches!(is_free, Ok(Ok(_))) {
                // adieu: ignore(ADR102) the way out: one look at a local file, to say who has the folder
                return Err(lock::taken(&self.path));
            }
        }
        let open = Arc::clone(&self.open).read_owned().await;
        let desk = OwnedRwLockReadGuard::try_map(open, Door::desk)
            .map_err(|_| StoreError::new(Kind::Closed))?;
        Ok(Turn {
            key: key.to_owned(),
            files,
            known,
            desk,
        })
    }

    /// Waits for what was begun, tidies up, and lets the next process in. Dropped half-way, nothing new is begun.
    pub(super) async fn close(&self) -> Result<(), StoreError> {
        let mut door = Arc::clone(&self.open).write_owned().await;
        let spares = match *door {
            Door::Open(_) => self.all_files(),
            Door::Waiting | Door::Closed => Vec::new(),
        };
        blocking(move || {
            spares.iter().for_each(Files::remove_spare);
            *door = Door::Closed;
            Ok(())
        })
        .await
    }

    /// Of all that somebody has worked with.
    fn all_files(&self) -> Vec<Files> {
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let files = slots.keys().map(|key| self.files(key));
        files.filter_map(Result::ok).collect()
    }
}

impl Door {
    const fn desk(&self) -> Option<&Desk> {
        match self {
            Self::Open(desk) => Some(desk),
            Self::Waiting | Self::Closed => None,
        }
    }
}

/// Waits for the lock on a thread of its own, because nothing ends that wait but the other process. Who has closed the
/// store meanwhile does not want it any more.
fn await_turn(path: PathBuf, open: Arc<RwLock<Door>>) -> watch::Receiver<bool> {
    let (tell, free) = watch::channel(false);
    let wait = move || {
        let desk = lock::wait_for(&path).and_then(|lock| Desk::new(&path, lock));
        let mut door = open.blocking_write();
        if let (Ok(desk), Door::Waiting) = (desk, &*door) {
            *door = Door::Open(desk);
            let _ = tell.send(true);
        }
    };
    // Without a thread nobody tells, and that is an error for whoever waits.
    let _ = std::thread::Builder::new()
        .name("adieu-lock".to_owned())
        .spawn(wait);
    free
}

/// The right to work with one file, on whatever thread.
pub(super) struct Turn {
    key: String,
    files: Files,
    known: OwnedMutexGuard<Known>,
    desk: OwnedRwLockReadGuard<Door, Desk>,
}

impl Turn {
    pub(super) fn load(mut self) -> Result<Option<Record>, StoreError> {
        let found = self.files.load(&self.key)?;
        self.known.version = Looked::Found(found.as_ref().map(|record| record.version));
        Ok(found)
    }

    pub(super) fn save(mut self, expected: Expected, entry: &Entry) -> Result<Version, StoreError> {
        let known = &mut *self.known;
        let found = match known.version {
            Looked::Found(version) => version,
            Looked::NotYet => self.files.load(&self.key)?.map(|record| record.version),
        };
        if !expected.matches(found) {
            known.version = Looked::Found(found);
            return Err(StoreError::conflict(&*self.key, expected, found));
        }
        let version = Version(found.map_or(1, |version| version.0 + 1));
        // A write that fails may have happened or not; then the file is looked at again.
        let is_settled = std::mem::take(known).is_settled;
        if !is_settled {
            self.files.remove_spare();
        }
        self.files
            .save(&self.key, version, entry, self.desk.folder.as_ref())?;
        *known = Known {
            version: Looked::Found(Some(version)),
            is_settled: true,
        };
        Ok(version)
    }
}
