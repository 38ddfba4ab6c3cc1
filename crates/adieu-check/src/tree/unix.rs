//! Directories are held open and every step is taken relative to the one before, so that a directory
//! swapped for a link between two steps leads nowhere.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;

use super::{is_link, not_regular, outside, random_name};

/// Names tried before giving up; the first is free unless the directory is hostile beyond belief.
const TRIES: usize = 8;

/// The directory of a file, held open, and the file's name in it.
pub(super) struct Folder {
    folder: OwnedFd,
    name: OsString,
}

impl Folder {
    /// Goes down from the root, which the user named, and follows no link below it.
    pub(super) fn open(root: &Path, below: &Path) -> io::Result<Folder> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut folder = rustix::fs::open(root, flags, Mode::empty())?;
        let name = below.file_name().ok_or_else(outside)?.to_owned();
        for part in below.parent().into_iter().flat_map(Path::iter) {
            folder =
                match rustix::fs::openat(&folder, part, flags | OFlags::NOFOLLOW, Mode::empty()) {
                    Ok(next) => next,
                    Err(error) => return Err(reason(&folder, part, error)),
                };
        }
        Ok(Folder { folder, name })
    }

    /// The file, opened for reading: a regular one.
    pub(super) fn file(&self) -> io::Result<File> {
        // Without NONBLOCK the open of a pipe waits for its writer.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(&self.folder, &self.name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(error) => return Err(reason(&self.folder, &self.name, error)),
        };
        if file.metadata()?.is_file() {
            Ok(file)
        } else {
            Err(not_regular())
        }
    }

    /// Puts a new file in the place of the old one, with its owner and mode.
    pub(super) fn put(&self, old: Option<&File>, content: &[u8]) -> io::Result<()> {
        let (part, mut file) = self.create(old.is_some())?;
        let done = fill(&mut file, old, content).and_then(|()| {
            rustix::fs::renameat(&self.folder, &part, &self.folder, &self.name)?;
            Ok(())
        });
        if done.is_err() {
            // The first error is the one to tell.
            let _ = rustix::fs::unlinkat(&self.folder, &part, AtFlags::empty());
        }
        done
    }

    fn create(&self, private: bool) -> io::Result<(String, File)> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // What replaces a file has the mode of that file in the end; the umask decides on others.
        let mode = Mode::from_raw_mode(if private { 0o600 } else { 0o666 });
        let mut refused = Errno::EXIST;
        for _ in 0..TRIES {
            let name = random_name();
            match rustix::fs::openat(&self.folder, &name, flags, mode) {
                Ok(file) => return Ok((name, File::from(file))),
                Err(Errno::EXIST) => {}
                Err(error) => {
                    refused = error;
                    break;
                }
            }
        }
        Err(refused.into())
    }
}

fn fill(file: &mut File, old: Option<&File>, content: &[u8]) -> io::Result<()> {
    file.write_all(content)?;
    if let Some(old) = old {
        let (old, own) = (old.metadata()?, file.metadata()?);
        if (old.uid(), old.gid()) != (own.uid(), own.gid()) {
            let owner = (Uid::from_raw(old.uid()), Gid::from_raw(old.gid()));
            rustix::fs::fchown(&*file, Some(owner.0), Some(owner.1))
                .map_err(|error| io::Error::other(format!("its owner cannot be kept: {error}")))?;
        }
        file.set_permissions(old.permissions())?;
    }
    file.sync_data()
}

/// What is in the way: a link gives different numbers on different kernels.
fn reason(folder: &OwnedFd, name: &OsStr, error: Errno) -> io::Error {
    let found = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
    match found.map(|found| FileType::from_raw_mode(found.st_mode)) {
        Ok(FileType::Symlink) => is_link(),
        _ => error.into(),
    }
}

/// Opens a file for reading unless its name is a link.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
        .map_err(|error| match error.raw_os_error() {
            Some(number) if number == Errno::LOOP.raw_os_error() => is_link(),
            _ => error,
        })
}
