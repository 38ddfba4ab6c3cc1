//! Reports in files: whole or not at all, and readable by their owner only unless they are meant for others.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

/// Writes a file so that a reader sees all of it or what was there before; mode 0600. A device or a pipe, like
/// `/dev/stdout`, is written to as it is.
///
/// # Errors
///
/// If it cannot be written. What was there before is still there then.
pub fn write(path: &Path, content: &[u8]) -> Result<(), Unwritable> {
    try_write(path, content, Readers::Owner).map_err(|error| Unwritable::new(path, error))
}

/// Writes a file that other programs pick up, as the step of a build server does that uploads reports: with the
/// mode that the umask leaves, as a rule 0644.
///
/// # Errors
///
/// As [`write()`].
pub fn write_shared(path: &Path, content: &[u8]) -> Result<(), Unwritable> {
    try_write(path, content, Readers::Umask).map_err(|error| Unwritable::new(path, error))
}

/// Who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Readers {
    Owner,
    Umask,
}

/// Finds out before a long drill whether its report can be written after it.
///
/// # Errors
///
/// If it cannot.
pub fn check_writable(path: &Path) -> Result<(), Unwritable> {
    try_check(path).map_err(|error| Unwritable::new(path, error))
}

fn try_write(path: &Path, content: &[u8], readers: Readers) -> io::Result<()> {
    if is_special(path) {
        return OpenOptions::new()
            .write(true)
            .open(path)?
            .write_all(content);
    }
    let mut part = beside(path, readers)?;
    part.write_all(content)?;
    part.as_file().sync_data()?;
    part.persist(path).map_err(|error| error.error)?;
    Ok(())
}

fn try_check(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Err(io::Error::new(
            io::ErrorKind::IsADirectory,
            "it is a directory",
        ));
    }
    if is_special(path) {
        return Ok(());
    }
    // Gone again at the end of this line.
    beside(path, Readers::Owner).map(drop)
}

/// Whether there is something that must not be replaced by a file.
fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

fn beside(path: &Path, readers: Readers) -> io::Result<NamedTempFile> {
    let Some(name) = path.file_name() else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it has no file name",
        ));
    };
    let directory = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let mut builder = Builder::new();
    builder.prefix(name).suffix(".part");
    #[cfg(unix)]
    if readers == Readers::Umask {
        use std::os::unix::fs::PermissionsExt as _;
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    #[cfg(not(unix))]
    let _ = readers;
    builder.tempfile_in(directory)
}

/// A report that cannot be written.
#[derive(Debug)]
pub struct Unwritable {
    path: PathBuf,
    error: io::Error,
}

impl Unwritable {
    fn new(path: &Path, error: io::Error) -> Self {
        let path = path.to_owned();
        Self { path, error }
    }
}

impl fmt::Display for Unwritable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot write {}: ", self.path.display())?;
        match self.error.kind() {
            io::ErrorKind::NotFound => f.write_str("its directory does not exist"),
            io::ErrorKind::IsADirectory => f.write_str("it is a directory"),
            _ => self.error.fmt(f),
        }
    }
}

impl std::error::Error for Unwritable {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_private() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("report.html");
        check_writable(&path).expect("writable");
        assert!(!path.exists(), "a look leaves nothing");
        write(&path, b"first").expect("written");
        write(&path, b"second").expect("replaced");
        assert_eq!(fs::read(&path).expect("readable"), b"second");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(&path).expect("there").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        let names = fs::read_dir(directory.path()).expect("readable").count();
        assert_eq!(names, 1, "nothing is left beside it");
    }

    /// A file made in the same directory in the plainest way has the mode that the umask leaves.
    #[cfg(unix)]
    #[test]
    fn a_file_for_others_has_the_mode_of_any_other_file() {
        use std::os::unix::fs::PermissionsExt as _;

        let directory = tempfile::tempdir().expect("a directory");
        let mode = |name: &str| {
            let found = fs::metadata(directory.path().join(name)).expect("there");
            found.permissions().mode() & 0o777
        };
        fs::write(directory.path().join("plain"), b"").expect("written");
        write_shared(&directory.path().join("report.xml"), b"x").expect("written");
        assert_eq!(mode("report.xml"), mode("plain"));
        write(&directory.path().join("own"), b"x").expect("written");
        assert_eq!(mode("own"), 0o600);
    }

    #[test]
    fn what_cannot_be_written_is_said_before_and_after() {
        let directory = tempfile::tempdir().expect("a directory");
        let nowhere = directory.path().join("no/such/report.html");
        for refused in [check_writable(&nowhere), write(&nowhere, b"")] {
            let words = refused.expect_err("no directory").to_string();
            assert_eq!(
                words,
                format!(
                    "cannot write {}: its directory does not exist",
                    nowhere.display()
                )
            );
        }
        let words = check_writable(directory.path())
            .expect_err("a directory")
            .to_string();
        assert!(words.ends_with(": it is a directory"), "{words}");
        assert!(check_writable(Path::new("..")).is_err());
        assert!(check_writable(Path::new("")).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_device_is_not_replaced() {
        check_writable(Path::new("/dev/null")).expect("writable");
        write(Path::new("/dev/null"), b"gone").expect("written");
        assert!(!fs::metadata("/dev/null").expect("there").is_file());
    }
}
