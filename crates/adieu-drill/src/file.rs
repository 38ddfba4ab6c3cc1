//! Reports in files: whole or not at all, and readable by their owner only unless they are meant for others.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use adieu_os::file::{self, Readers};

/// Writes a file so that a reader sees all of it or what was there before; mode 0600. A device or a pipe, like
/// `/dev/stdout`, is written to as it is.
///
/// # Errors
///
/// If it cannot be written. What was there before is still there then.
pub fn write(path: &Path, content: &[u8]) -> Result<(), Unwritable> {
    file::write(path, content, Readers::Owner).map_err(|error| Unwritable::new(path, error))
}

/// Writes a file that other programs pick up, as the step of a build server does that uploads reports: with the
/// mode that the umask leaves, as a rule 0644.
///
/// # Errors
///
/// As [`write()`].
pub fn write_shared(path: &Path, content: &[u8]) -> Result<(), Unwritable> {
    file::write(path, content, Readers::Umask).map_err(|error| Unwritable::new(path, error))
}

/// Finds out before a long drill whether its report can be written after it.
///
/// # Errors
///
/// If it cannot.
pub fn check_writable(path: &Path) -> Result<(), Unwritable> {
    file::check(path).map_err(|error| Unwritable::new(path, error))
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
    use std::fs;

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
