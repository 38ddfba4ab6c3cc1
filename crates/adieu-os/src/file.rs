//! How a file is written: whole or not at all, and never through a link.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// How long a pipe or a device may take for a whole report.
const READER_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a name is made up; one that is taken by chance is as good as never taken twice.
const TRIES: usize = 8;

/// Who may read a file that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Readers {
    /// Its owner: mode 0600.
    Owner,
    /// Those that the umask allows, as a rule all: mode 0644.
    Umask,
}

/// Writes a file so that a reader sees all of it or what was there before. A device or a pipe, as `/dev/stdout`, is written to
/// as it is; a pipe whose reader takes nothing is given up after 5 seconds.
///
/// # Errors
///
/// If it cannot be written. What was there before is still there then.
pub fn write(path: &Path, text: &[u8], readers: Readers) -> io::Result<()> {
    if is_written_in_place(path) {
        return write_in_place(path, text);
    }
    let (mut file, beside) = create_beside(path, readers)?;
    // A link in the place of the report is replaced, and what it leads to stays as it is.
    let written = file
        .write_all(text)
        .and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written
}

/// Finds out whether a file can be [written](write()) later.
///
/// # Errors
///
/// If it cannot.
pub fn check(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Err(io::Error::new(
            io::ErrorKind::IsADirectory,
            "it is a directory",
        ));
    }
    if path.file_name().is_none() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it has no file name",
        ));
    }
    // A pipe may have its reader by the time there is something to read.
    if is_written_in_place(path) {
        return Ok(());
    }
    let (_, beside) = create_beside(path, Readers::Owner)?;
    fs::remove_file(&beside)
}

/// Whether there is something that must not be replaced by a file: a stream of this process, a device, a named pipe. A
/// link to one is replaced all the same: another user may have made it.
fn is_written_in_place(path: &Path) -> bool {
    let is_stream = ["/dev/fd", "/dev/stdout", "/dev/stderr", "/proc"];
    is_stream.iter().any(|start| path.starts_with(start))
        || fs::symlink_metadata(path)
            .is_ok_and(|found| !found.is_file() && !found.file_type().is_symlink())
}

/// Writes to what is there. A pipe whose reader takes nothing is given up: otherwise it could keep the process alive.
fn write_in_place(path: &Path, text: &[u8]) -> io::Result<()> {
    ask_for_reader(path)?;
    let (path, text) = (path.to_owned(), text.to_owned());
    let (tell, told) = mpsc::sync_channel(1);
    // A thread of its own, because a write to a pipe cannot be given up. It ends with the process.
    thread::Builder::new()
        .name("adieu-file".into())
        .spawn(move || {
            let opened = OpenOptions::new().append(true).open(path);
            let _ = tell.send(opened.and_then(|mut file| file.write_all(&text)));
        })?;
    told.recv_timeout(READER_TIMEOUT).unwrap_or_else(|_| {
        let why = "the process that reads the pipe takes nothing";
        Err(io::Error::new(io::ErrorKind::TimedOut, why))
    })
}

/// An error for a pipe that no process reads. To open it for writing would wait for one.
#[cfg(unix)]
fn ask_for_reader(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = OpenOptions::new();
    options
        .append(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
    match options.open(path) {
        Err(error) if error.raw_os_error() == Some(libc::ENXIO) => {
            let why = "it is a pipe that no process reads: start the reader first, or name a file";
            Err(io::Error::new(io::ErrorKind::NotConnected, why))
        }
        opened => opened.map(drop),
    }
}

#[cfg(not(unix))]
fn ask_for_reader(_: &Path) -> io::Result<()> {
    Ok(())
}

/// A new file of the same directory: one that is there already, or a link, is never opened.
fn create_beside(path: &Path, readers: Readers) -> io::Result<(File, PathBuf)> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if readers == Readers::Owner {
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    #[cfg(not(unix))]
    let _ = readers;
    let mut last = None;
    for number in 0..TRIES {
        // Other users cannot guess it: the keys of the hash are random.
        let random = RandomState::new().hash_one(number);
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{random:016x}.part"));
        let beside = path.with_file_name(name);
        match options.open(&beside) {
            Ok(file) => return Ok((file, beside)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => last = Some(error),
            Err(error) => return Err(error),
        }
    }
    Err(last.unwrap_or_else(|| io::ErrorKind::AlreadyExists.into()))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    fn listed(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a directory").flatten();
        let mut names: Vec<_> = entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_link_is_replaced_and_what_it_leads_to_is_left_alone() {
        let folder = tempfile::tempdir().expect("a directory");
        let (victim, report) = (folder.path().join("victim"), folder.path().join("r.json"));
        fs::write(&victim, "precious").expect("a file");
        symlink(&victim, &report).expect("a link");
        // As it was named by versions before, and could be guessed.
        let guessed = format!("r.json.{}.part", std::process::id());
        symlink(&victim, folder.path().join(&guessed)).expect("a link");
        check(&report).expect("it can be written");
        assert_eq!(
            fs::read_to_string(&victim).expect("it is there"),
            "precious"
        );
        assert!(
            fs::symlink_metadata(&report)
                .expect("it is there")
                .is_symlink()
        );
        write(&report, b"report", Readers::Owner).expect("it is written");
        assert_eq!(
            fs::read_to_string(&victim).expect("it is there"),
            "precious"
        );
        let found = fs::symlink_metadata(&report).expect("it is there");
        assert!(found.is_file());
        assert_eq!(found.permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_to_string(&report).expect("it is there"), "report");
        assert_eq!(
            listed(folder.path()),
            ["r.json", guessed.as_str(), "victim"]
        );
    }

    #[test]
    fn a_file_of_others_keeps_neither_its_mode_nor_its_inode() {
        let folder = tempfile::tempdir().expect("a directory");
        let report = folder.path().join("r.json");
        fs::write(&report, "older").expect("a file");
        fs::set_permissions(&report, fs::Permissions::from_mode(0o666)).expect("a mode");
        let before = fs::metadata(&report).expect("it is there").ino();
        check(&report).expect("it can be written");
        assert_eq!(fs::read_to_string(&report).expect("it is there"), "older");
        write(&report, b"newer", Readers::Owner).expect("it is written");
        let after = fs::metadata(&report).expect("it is there");
        assert_ne!(after.ino(), before);
        assert_eq!(after.permissions().mode() & 0o777, 0o600);
    }

    /// A link to a pipe or a device may have been made by another user.
    #[test]
    fn a_link_to_a_device_is_replaced_too() {
        let folder = tempfile::tempdir().expect("a directory");
        let report = folder.path().join("r.json");
        symlink("/dev/null", &report).expect("a link");
        write(&report, b"report", Readers::Owner).expect("it is written");
        assert_eq!(fs::read_to_string(&report).expect("it is there"), "report");
    }

    /// A file made in the same directory in the plainest way has the mode that the umask leaves.
    #[test]
    fn a_file_for_others_has_the_mode_of_any_other_file() {
        let folder = tempfile::tempdir().expect("a directory");
        let mode = |name: &str| {
            let found = fs::metadata(folder.path().join(name)).expect("it is there");
            found.permissions().mode() & 0o777
        };
        fs::write(folder.path().join("plain"), b"").expect("it is written");
        write(&folder.path().join("shared"), b"x", Readers::Umask).expect("it is written");
        assert_eq!(mode("shared"), mode("plain"));
        write(&folder.path().join("own"), b"x", Readers::Owner).expect("it is written");
        assert_eq!(mode("own"), 0o600);
    }
}
