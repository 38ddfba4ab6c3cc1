//! Without directories that can be held open: the directory is resolved, must be below the resolved root,
//! and every step after that uses the resolved path. On Windows a link takes a privilege to make.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::{is_link, not_regular, outside, random_name};

/// The directory of a file, resolved, and the file's name in it.
pub(super) struct Folder {
    folder: PathBuf,
    name: OsString,
}

impl Folder {
    pub(super) fn open(root: &Path, below: &Path) -> io::Result<Folder> {
        let name = below.file_name().ok_or_else(outside)?.to_owned();
        let root = fs::canonicalize(root)?;
        let plain = root.join(below.parent().unwrap_or(Path::new("")));
        let folder = fs::canonicalize(&plain)?;
        if folder != plain {
            return Err(is_link());
        }
        Ok(Folder { folder, name })
    }

    pub(super) fn file(&self) -> io::Result<File> {
        let path = self.folder.join(&self.name);
        let found = fs::symlink_metadata(&path)?;
        if found.is_symlink() {
            return Err(is_link());
        }
        if !found.is_file() {
            return Err(not_regular());
        }
        File::open(path)
    }

    pub(super) fn put(&self, old: Option<&File>, content: &[u8]) -> io::Result<()> {
        let part = self.folder.join(random_name());
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&part)?;
        let done = file
            .write_all(content)
            .and_then(|()| match old {
                Some(old) => file.set_permissions(old.metadata()?.permissions()),
                None => Ok(()),
            })
            .and_then(|()| file.sync_data());
        drop(file);
        let done = done.and_then(|()| fs::rename(&part, self.folder.join(&self.name)));
        if done.is_err() {
            // The first error is the one to tell.
            let _ = fs::remove_file(&part);
        }
        done
    }
}

pub(super) fn open(path: &Path) -> io::Result<File> {
    if fs::symlink_metadata(path)?.is_symlink() {
        return Err(is_link());
    }
    File::open(path)
}
