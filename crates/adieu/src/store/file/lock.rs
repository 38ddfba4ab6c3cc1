//! One process a folder: a lock that the system lets go of when the process ends, however it ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;

use crate::store::error::{Kind, StoreError};

/// Takes the folder, and writes down who has it.
pub(super) fn take(folder: &Path) -> Result<File, StoreError> {
    let mut lock = open(folder)?;
    match lock.try_lock() {
        Ok(()) => Ok(signed(lock)),
        Err(TryLockError::WouldBlock) => {
            let (folder, holder) = (folder.to_owned(), holder(&mut lock));
            Err(StoreError::new(Kind::Locked { folder, holder }))
        }
        Err(TryLockError::Error(cause)) => Err(StoreError::io("lock", folder, cause)),
    }
}

/// The same, and waits for as long as somebody else has it.
pub(super) fn wait_for(folder: &Path) -> Result<File, StoreError> {
    let lock = open(folder)?;
    loop {
        match lock.lock() {
            Ok(()) => return Ok(signed(lock)),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(StoreError::io("lock", folder, cause)),
        }
    }
}

/// That somebody has it, and who.
pub(super) fn taken(folder: &Path) -> StoreError {
    let holder = open(folder).ok().and_then(|mut lock| holder(&mut lock));
    let folder = folder.to_owned();
    StoreError::new(Kind::Locked { folder, holder })
}

fn open(folder: &Path) -> Result<File, StoreError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    super::generations::private(&mut options);
    options
        .open(folder.join("lock"))
        .map_err(|cause| StoreError::io("write to state folder", folder, cause))
}

fn signed(mut lock: File) -> File {
    // For the reader of an error message only; on a full disk the lock holds without it.
    let _ = lock.set_len(0);
    let _ = lock.rewind();
    let _ = writeln!(lock, "{}", std::process::id());
    lock
}

/// Whoever has it has written its number, unless it took it this very moment.
fn holder(lock: &mut File) -> Option<u32> {
    let mut number = String::new();
    lock.take(20).read_to_string(&mut number).ok()?;
    number.trim().parse().ok()
}
