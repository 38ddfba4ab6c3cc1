//! One process a directory: a lock that the kernel releases when the process ends, however it ends.
//!
//! Two things are locked. The directory itself, because its name cannot be taken from it while it is in use. And the file
//! `lock` in it, which has the number of the process in it, and which is all that earlier versions and file systems
//! without locks on directories know. A program that tidies up may delete the file; the directory's lock holds without it.

use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::Path;

use adieu_core::StoreError;

use super::error;

/// How often the file is opened anew because another process deleted it in the meantime.
const MAX_REOPENS: u32 = 16;
/// As long as a number of a process, and then some.
const MAX_PID_LENGTH: u64 = 20;

/// Both locks, for as long as this lives.
#[derive(Debug)]
pub(super) struct Lock {
    /// Also for the flush of the directory; elsewhere than on Unix a directory cannot be opened.
    pub(super) directory: Option<File>,
    _file: File,
}

/// Takes the directory, and writes down which process has it.
pub(super) fn try_take(path: &Path) -> Result<Lock, StoreError> {
    let directory = open_directory(path)?;
    if let Some(directory) = &directory
        && let Err(TryLockError::WouldBlock) = directory.try_lock()
    {
        return Err(held_by_another(path));
    }
    for _ in 0..MAX_REOPENS {
        let file = open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(held_by_another(path)),
            Err(TryLockError::Error(cause)) => return Err(error::io("lock", path, cause)),
        }
        if is_named(&file, path) {
            return Ok(write_pid(file, directory));
        }
    }
    Err(deleted_repeatedly(path))
}

/// As [`try_take`], but waits while another process has it.
pub(super) fn wait_for(path: &Path) -> Result<Lock, StoreError> {
    let directory = open_directory(path)?;
    if let Some(directory) = &directory {
        // Where a directory cannot be locked, the file alone decides.
        let _ = retry_interrupted(|| directory.lock());
    }
    for _ in 0..MAX_REOPENS {
        let file = open(path)?;
        retry_interrupted(|| file.lock()).map_err(|cause| error::io("lock", path, cause))?;
        if is_named(&file, path) {
            return Ok(write_pid(file, directory));
        }
    }
    Err(deleted_repeatedly(path))
}

/// That another process has it, and which.
pub(super) fn held_by_another(path: &Path) -> StoreError {
    let holder = open(path).ok().and_then(|mut file| holder(&mut file));
    error::locked(path, holder)
}

fn retry_interrupted(mut call: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

fn open_directory(path: &Path) -> Result<Option<File>, StoreError> {
    if cfg!(not(unix)) {
        return Ok(None);
    }
    let opened = File::open(path);
    let opened = opened.map_err(|cause| error::io("open state directory", path, cause))?;
    Ok(Some(opened))
}

/// Opens the file, and makes it if there is none. It is written to later: so it has to be what we would have made, and
/// not the way to a file of another user or of another program.
fn open(path: &Path) -> Result<File, StoreError> {
    let name = path.join("lock");
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    super::generations::private(&mut options);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        &mut options,
        libc::O_NOFOLLOW | libc::O_NONBLOCK,
    );
    let refused = |why: &'static str| {
        let cause = io::Error::new(io::ErrorKind::InvalidInput, why);
        Err(error::io("use", &name, cause))
    };
    let mut file = match options.open(&name) {
        Ok(file) => file,
        #[cfg(unix)]
        Err(error) if error.raw_os_error() == Some(libc::ELOOP) => return refused(A_LINK),
        Err(cause) => return Err(error::io("write to state directory", path, cause)),
    };
    let look = || Ok::<_, io::Error>((file.metadata()?, path.metadata()?));
    let (found, directory) =
        look().map_err(|cause| error::io("look at state directory", path, cause))?;
    if !found.is_file() {
        return refused(NO_FILE);
    }
    if !is_ours(&found, &directory) {
        return refused(NOT_OURS);
    }
    if !is_pid_text(&mut file, found.len()) {
        return refused(OTHER_TEXT);
    }
    Ok(file)
}

const A_LINK: &str =
    "it is a symbolic link, which is not followed: remove it, or name another directory";
const NO_FILE: &str = "it is not a regular file: remove it, or name another directory";
const NOT_OURS: &str = "it belongs to another user, or has a second name: remove it, or name a directory that only this \
                        user can write to";
const OTHER_TEXT: &str =
    "it is not the lock of a state directory: move it away, or name another directory";

/// Whether this is the number of a process, or what a power cut leaves of one: it is not flushed.
fn is_pid_text(file: &mut File, length: u64) -> bool {
    let mut bytes = Vec::new();
    let is_read = file.take(MAX_PID_LENGTH).read_to_end(&mut bytes).is_ok();
    let is_part = |byte: &u8| byte.is_ascii_digit() || b"\n\0".contains(byte);
    is_read && length <= MAX_PID_LENGTH && bytes.iter().all(is_part)
}

/// Whether the file is this user's, or the directory's owner's as where a server or a mount gives all files one owner;
/// and whether it has this name alone.
#[cfg(unix)]
fn is_ours(found: &Metadata, directory: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    let owners = [crate::util::sys::effective_user(), directory.uid()];
    owners.contains(&found.uid()) && found.nlink() <= 1
}

#[cfg(not(unix))]
fn is_ours(_: &Metadata, _: &Metadata) -> bool {
    true
}

/// Whether the name still leads to the file that was locked: another process may have deleted it in between, and a
/// third have made and locked a new one.
#[cfg(unix)]
fn is_named(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let named = path.join("lock").symlink_metadata();
    match (file.metadata(), named) {
        (Ok(file), Ok(named)) => (file.dev(), file.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

/// A file that is open cannot be deleted.
#[cfg(not(unix))]
fn is_named(_: &File, _: &Path) -> bool {
    true
}

fn deleted_repeatedly(path: &Path) -> StoreError {
    let why =
        "another process deletes it again and again: stop that one, or name another directory";
    error::io("keep", &path.join("lock"), io::Error::other(why))
}

fn write_pid(mut file: File, directory: Option<File>) -> Lock {
    // For the reader of an error message only; on a full disk the lock holds without it.
    let _ = file.set_len(0);
    let _ = file.rewind();
    let _ = writeln!(file, "{}", std::process::id());
    Lock {
        directory,
        _file: file,
    }
}

/// The process that has it has written its number, unless it took it this very moment.
fn holder(file: &mut File) -> Option<u32> {
    let mut number = String::new();
    file.rewind().ok()?;
    file.take(MAX_PID_LENGTH).read_to_string(&mut number).ok()?;
    number.trim().parse().ok()
}
