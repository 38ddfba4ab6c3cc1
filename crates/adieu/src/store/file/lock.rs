//! One process a folder: a lock that the system lets go of when the process ends, however it ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;

use crate::store::error::{Kind, StoreError};

/// Takes the folder, and writes down who has it.
pub(super) fn take(folder: &Path) -> Result<File, StoreError> {
    let path = folder.join("lock");
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    super::generations::private(&mut options);
    let mut lock = options
        .open(&path)
        .map_err(|cause| StoreError::io("write to state folder", folder, cause))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(StoreError::new(Kind::Locked {
                folder: folder.to_owned(),
                holder: holder(&mut lock),
            }));
        }
        Err(TryLockError::Error(cause)) => return Err(StoreError::io("lock", &path, cause)),
    }
    // For the reader of an error message only; on a full disk the lock holds without it.
    let _ = lock.set_len(0);
    let _ = lock.rewind();
    let _ = writeln!(lock, "{}", std::process::id());
    Ok(lock)
}

/// Whoever has it has written its number, unless it took it this very moment.
fn holder(lock: &mut File) -> Option<u32> {
    let mut number = String::new();
    lock.take(20).read_to_string(&mut number).ok()?;
    number.trim().parse().ok()
}
