//! The files of one key: how a new generation replaces the last in one step.
//!
//! A save writes `key.new` and flushes it. Then `key.new` and `key.json` change their names in one step, and so do
//! `key.new` and `key.previous.json`; last the directory is flushed. What is `key.new` now was the previous generation, and
//! its file is [used again](super::reuse) for the next.
//!
//! Where names cannot be exchanged, the present file is linked to `key.previous.json` under a name of its own and that
//! renamed into place, and then `key.new` is renamed to `key.json`.
//!
//! At every moment `key.json` is a whole file, and so is the one before it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use adieu_core::{Entry, Record, StoreError, Version};
use tokio::runtime::Handle;

use super::format::{self, ReadError};
use super::{error, reuse};
use crate::state::error::not_json;

pub(super) struct KeyFiles {
    directory: PathBuf,
    stem: String,
    pub(super) current: PathBuf,
    previous: PathBuf,
    /// The new generation, while it is being written.
    new: PathBuf,
    /// A second name of the current one, which becomes the previous.
    kept: PathBuf,
}

/// What a file was found to be.
enum FileStatus {
    Missing,
    Valid(Record),
    Corrupt(String),
}

/// Readable by this user alone, from the moment it exists.
pub(super) fn private(options: &mut OpenOptions) {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    #[cfg(not(unix))]
    let _ = options;
}

impl KeyFiles {
    pub(super) fn new(directory: &Path, key: &str) -> Result<Self, StoreError> {
        let stem = stem(key)?;
        let file = |ending: &str| directory.join(format!("{stem}{ending}"));
        Ok(Self {
            directory: directory.to_owned(),
            current: file(".json"),
            previous: file(".previous.json"),
            new: file(".new"),
            kept: file(".kept"),
            stem,
        })
    }

    pub(super) fn load(&self, key: &str) -> Result<Option<Record>, StoreError> {
        let why = match self.read_file(&self.current, key)? {
            FileStatus::Valid(record) => return Ok(Some(record)),
            FileStatus::Missing => None,
            FileStatus::Corrupt(why) => Some(why),
        };
        let missing = match (self.read_file(&self.previous, key)?, why) {
            (FileStatus::Missing, None) => return Ok(None),
            // Killed between two renames, where there are no links: the save was not acknowledged.
            (FileStatus::Valid(record), None) => return Ok(Some(record)),
            (FileStatus::Valid(record), Some(why)) => {
                self.set_aside(&why, record.version)?;
                return Ok(Some(record));
            }
            (FileStatus::Missing, Some(why)) => (&self.current, why, "there is none".to_owned()),
            (FileStatus::Corrupt(why), None) => (&self.previous, why, "there is none".to_owned()),
            (FileStatus::Corrupt(other), Some(why)) => {
                let name = self.previous.display();
                (
                    &self.current,
                    why,
                    format!("{name} is corrupt too: {other}"),
                )
            }
        };
        let (path, why, previous) = missing;
        Err(error::corrupt(path, &why, &previous))
    }

    fn read_file(&self, path: &Path, key: &str) -> Result<FileStatus, StoreError> {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(FileStatus::Missing);
            }
            Err(cause) => return Err(error::io("read", path, cause)),
        };
        match format::read(key, &bytes) {
            Ok(record) => Ok(FileStatus::Valid(record)),
            Err(ReadError::Corrupt(why)) => Ok(FileStatus::Corrupt(why)),
            Err(ReadError::Newer(found)) => Err(error::newer_layout(path, found)),
        }
    }

    /// Keeps the damaged file for a person to look at, and logs where it is.
    fn set_aside(&self, why: &str, instead: Version) -> Result<(), StoreError> {
        let aside = (1_u32..)
            .map(|number| {
                self.directory
                    .join(format!("{}.corrupt-{number}.json", self.stem))
            })
            .find(|path| !path.exists())
            .unwrap_or_else(|| self.directory.join(format!("{}.corrupt.json", self.stem)));
        fs::rename(&self.current, &aside)
            .map_err(|cause| error::io("set aside", &self.current, cause))?;
        let (file, why) = (self.current.clone(), why.to_owned());
        let line = move || {
            tracing::warn!(
                file = %file.display(),
                aside = %aside.display(),
                version = instead.0,
                "state is corrupt ({why}): it was set aside, and the previous generation is used"
            );
        };
        // Beside the load: it holds the file, and must not hold it until a slow log has the line.
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(line)),
            Err(_) => line(),
        }
        Ok(())
    }

    pub(super) fn save(
        &self,
        key: &str,
        version: Version,
        entry: &Entry,
        directory: Option<&File>,
    ) -> Result<(), StoreError> {
        let text = format::write(key, version, entry).map_err(|cause| not_json(key, cause))?;
        let written = self
            .write(text.as_bytes())
            .map_err(|cause| error::io("write", &self.new, cause));
        let placed = written.and_then(|()| self.rename_into_place());
        if placed.is_err() {
            // On a full disk it would be in the way; the old generations are untouched.
            self.remove_new_file();
        }
        placed?;
        match directory {
            Some(directory) => directory
                .sync_all()
                .map_err(|cause| error::io("flush", &self.directory, cause)),
            None => Ok(()),
        }
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        if let Some(mut file) = reuse::open(&self.new, bytes.len() as u64) {
            file.write_all(bytes)?;
            return file.sync_data();
        }
        // A process that has it open goes on reading the old one.
        self.remove_new_file();
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        private(&mut options);
        let mut file = options.open(&self.new)?;
        file.write_all(bytes)?;
        file.sync_all()
    }

    /// Of use to the next save only.
    pub(super) fn remove_new_file(&self) {
        let _ = fs::remove_file(&self.new);
    }

    fn rename_into_place(&self) -> Result<(), StoreError> {
        let keeping = |cause| error::io("keep the previous generation of", &self.current, cause);
        if exchange(&self.new, &self.current).is_ok() {
            if exchange(&self.new, &self.previous).is_err() {
                // There was none.
                fs::rename(&self.new, &self.previous).map_err(keeping)?;
            }
            return Ok(());
        }
        self.keep_previous().map_err(keeping)?;
        fs::rename(&self.new, &self.current)
            .map_err(|cause| error::io("replace", &self.current, cause))
    }

    fn keep_previous(&self) -> io::Result<()> {
        match fs::hard_link(&self.current, &self.kept) {
            Ok(()) => {}
            // The first save, or the one after damage.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            // Left by a process that was killed right here.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                fs::remove_file(&self.kept)?;
                fs::hard_link(&self.current, &self.kept)?;
            }
            // No links on this file system: then there is a moment without a present file, and `load` knows.
            Err(_) => return fs::rename(&self.current, &self.previous),
        }
        fs::rename(&self.kept, &self.previous)
    }
}

/// Gives each of two files the other's name, in one step.
#[cfg(target_os = "linux")]
fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    Ok(renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
}

#[cfg(not(target_os = "linux"))]
fn exchange(_: &Path, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// The key as the beginning of a file's name: anything that could mean something to a file system is written as
/// `%` and its number, the dot too, so that no key can be taken for a file that belongs to another.
fn stem(key: &str) -> Result<String, StoreError> {
    let refuse = |why| {
        let key: String = key.chars().take(40).collect();
        Err(error::bad_key(&key, why))
    };
    let mut stem = String::with_capacity(key.len());
    // There, `a` and `A` are one file, and `nul` is none at all.
    let is_plain = |byte: u8| !cfg!(windows) || !byte.is_ascii_uppercase();
    let is_device = cfg!(windows) && is_device(key);
    for (at, byte) in key.bytes().enumerate() {
        let is_safe = byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if is_safe && is_plain(byte) && !(is_device && at == 0) {
            stem.push(char::from(byte));
        } else {
            stem.push_str(&format!("%{byte:02X}"));
        }
    }
    if stem.is_empty() {
        return refuse("a name is needed");
    }
    if stem.len() > 200 {
        return refuse("as a file's name it would be too long; 200 letters are the most");
    }
    Ok(stem)
}

/// Whether Windows takes a file of this name, with whatever ending, for a device.
fn is_device(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    let is_port = |port: &str| key.strip_prefix(port).is_some_and(|n| n.len() == 1);
    matches!(key.as_str(), "con" | "prn" | "aux" | "nul") || is_port("com") || is_port("lpt")
}
