//! Why nothing was started, in words that say what to do, and the exit code that goes with them.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::codes;

pub(super) const LIMIT_REACHED: &str =
    "the limit on processes is reached (ulimit -u, TasksMax=, pids.max)";

/// The exit code, and the words.
#[derive(Debug)]
pub(super) struct SpawnError(pub(super) u8, pub(super) String);

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.1)
    }
}

impl std::error::Error for SpawnError {}

/// What the error of a start means.
pub(super) fn spawn_error(command: &str, error: &io::Error) -> SpawnError {
    let not_executable = |why: &str| (codes::NOT_EXECUTABLE, why.to_owned());
    let (code, why) = match error.kind() {
        io::ErrorKind::NotFound => match found(command) {
            // The kernel says the same of a file whose interpreter is missing, and shows which.
            Some(path) => (codes::NOT_EXECUTABLE, lacking(&path)),
            None if command.contains('/') => (codes::NOT_FOUND, "there is no such file".to_owned()),
            None => (
                codes::NOT_FOUND,
                "there is no such command on PATH".to_owned(),
            ),
        },
        io::ErrorKind::PermissionDenied if found(command).is_some_and(|path| path.is_dir()) => {
            not_executable("it is a directory: name the program in it")
        }
        io::ErrorKind::PermissionDenied => {
            not_executable("it is not executable: chmod +x it, or name the interpreter first")
        }
        io::ErrorKind::WouldBlock => (
            codes::OWN,
            format!("no process can be made: {LIMIT_REACHED}"),
        ),
        _ if error.raw_os_error() == Some(libc::ENOEXEC) => not_executable(
            "it is of no kind that this system can execute; was it built for another processor?",
        ),
        _ => (codes::NOT_EXECUTABLE, error.to_string()),
    };
    SpawnError(code, format!("cannot start {command}: {why}"))
}

/// The file that the command names, if there is one.
fn found(command: &str) -> Option<PathBuf> {
    if command.is_empty() {
        return None;
    }
    if command.contains('/') {
        return Path::new(command).exists().then(|| command.into());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(command))
        .find(|path| path.is_file())
}

/// What a file lacks that is there and cannot be found.
fn lacking(path: &Path) -> String {
    let mut beginning = Vec::new();
    let _ = File::open(path).and_then(|file| file.take(256).read_to_end(&mut beginning));
    let line = beginning
        .split(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    match line.strip_prefix(b"#!") {
        Some(rest) if rest.ends_with(b"\r") => {
            "its first line ends as on Windows, which makes the interpreter another one: save it with Unix line ends"
                .to_owned()
        }
        Some(rest) => {
            let rest = String::from_utf8_lossy(rest);
            let interpreter = rest.split_whitespace().next().unwrap_or_default();
            format!("its interpreter {interpreter} is not there: install it, or mend the first line")
        }
        None => "it is there, but the loader it was linked for is not: a program for glibc in an image with musl, or \
                 the other way round?"
            .to_owned(),
    }
}
