//! What goes wrong with the files of a store.

use std::io;
use std::path::Path;

use adieu_core::StoreError;

pub(super) fn io(doing: &'static str, path: &Path, cause: io::Error) -> StoreError {
    let advice = match cause.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            ": no space is left; what was saved before is intact, make room and start again"
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            ": it is on a read-only file system; give another directory"
        }
        io::ErrorKind::PermissionDenied => {
            ": permission denied; the user that runs this program must own it"
        }
        io::ErrorKind::NotADirectory => ": it is not a directory",
        _ => "",
    };
    StoreError::refused(format!("cannot {doing} {}{advice}", path.display()), cause)
}

pub(super) fn corrupt(path: &Path, why: &str, previous: &str) -> StoreError {
    StoreError::unusable(format!(
        "{} is corrupt ({why}), and there is no previous generation to use instead ({previous}); nothing \
         was changed: restore the file, or move it away to start afresh",
        path.display()
    ))
}

pub(super) fn newer_layout(path: &Path, found: u64) -> StoreError {
    StoreError::newer(format!(
        "{} was written by a newer version of adieu (layout {found}); run the program it was written with",
        path.display()
    ))
}

pub(super) fn bad_key(key: &str, why: &str) -> StoreError {
    StoreError::unusable(format!("`{key}` cannot name a state: {why}"))
}

/// `holder` is the number of the process that has it, where it is known.
pub(super) fn locked(directory: &Path, holder: Option<u32>) -> StoreError {
    let holder = match holder {
        Some(pid) if pid == std::process::id() => {
            "by this process already; open it once, and share the handle".to_owned()
        }
        Some(pid) => {
            format!(
                "by process {pid}; stop that one first, or give this one a directory of its own"
            )
        }
        None => "by another process; stop that one first, or give this one a directory of its own"
            .to_owned(),
    };
    let directory = directory.display();
    StoreError::locked(format!("state directory {directory} is in use {holder}"))
}
