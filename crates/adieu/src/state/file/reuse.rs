//! The file of the generation before the last, used again.
//!
//! A new file costs the file system a transaction of its own before what is in it is safe on the disk; one that is there
//! already, and keeps its length, costs none. That is almost half the time of a save.
//!
//! But this file was the current one two saves ago, and a process that opened it then may still be reading it. So it is
//! used again only if no process has it open and no other name leads to it. And only after a save of our own that is safe on the
//! disk: before that, a file that another process left may still be the current one there.

use std::fs::File;
use std::path::Path;

/// Opens it for writing over all of it, if it has this length and no other process can see it.
#[cfg(target_os = "linux")]
pub(super) fn open(path: &Path, length: u64) -> Option<File> {
    use std::fs::OpenOptions;
    use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
    let mut options = OpenOptions::new();
    options.write(true).custom_flags(libc::O_NOFOLLOW);
    let file = options.open(path).ok()?;
    let found = file.metadata().ok()?;
    let is_private = found.is_file() && found.mode() & 0o777 == 0o600 && found.nlink() == 1;
    let fits = is_private && found.len() == length && !crate::util::sys::is_open_elsewhere(&file);
    fits.then_some(file)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn open(_: &Path, _: u64) -> Option<File> {
    None
}
