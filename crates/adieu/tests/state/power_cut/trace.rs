//! The calls of a process that change files, as strace records them.

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use adieu::BoxError;

/// A call that has succeeded.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Call {
    MakeFolder(PathBuf),
    /// And whether it makes the file, if it is not there.
    Open(PathBuf, bool),
    Write(PathBuf, Vec<u8>),
    Truncate(PathBuf, usize),
    Flush(PathBuf),
    Rename(PathBuf, PathBuf),
    Exchange(PathBuf, PathBuf),
    Link(PathBuf, PathBuf),
    Remove(PathBuf),
    /// The process says that a save has returned.
    Acknowledged(u64),
}

impl Call {
    /// In words, with paths from the root; without what changes no state.
    pub(super) fn said(&self, root: &Path) -> Option<String> {
        let at = |path: &Path| {
            let path = path.strip_prefix(root).unwrap_or(path);
            match path.as_os_str().is_empty() {
                true => ".".to_owned(),
                false => path.display().to_string(),
            }
        };
        let is_lock = |path: &Path| path.file_name() == Some(OsStr::new("lock"));
        Some(match self {
            Self::MakeFolder(path) | Self::Open(path, true) => format!("make {}", at(path)),
            Self::Open(..) => return None,
            // The number of the process, for people.
            Self::Write(path, _) | Self::Truncate(path, _) if is_lock(path) => return None,
            Self::Write(path, _) => format!("write {}", at(path)),
            Self::Truncate(path, _) => format!("cut {}", at(path)),
            Self::Flush(path) => format!("flush {}", at(path)),
            Self::Rename(from, to) => format!("rename {} {}", at(from), at(to)),
            Self::Exchange(one, other) => format!("exchange {} {}", at(one), at(other)),
            Self::Link(from, to) => format!("link {} {}", at(from), at(to)),
            Self::Remove(path) => format!("remove {}", at(path)),
            Self::Acknowledged(number) => format!("acknowledged {number}"),
        })
    }
}

const CALLS: &str = "trace=?open,openat,?creat,write,?pwrite64,writev,fsync,fdatasync,?rename,renameat,renameat2,?link,\
                     linkat,?unlink,unlinkat,?mkdir,mkdirat,ftruncate,fallocate,?sync_file_range";

/// Runs this program again under strace, with one variable set; `None` if strace is missing or may not trace.
pub(super) fn record(
    arguments: &[&str],
    (name, folder): (&str, &Path),
) -> Result<Option<Vec<Call>>, BoxError> {
    let output = tempfile::NamedTempFile::new()?;
    let run = Command::new("strace")
        .args([
            "-f",
            "-qq",
            "-xx",
            "-s",
            "1000000",
            "-e",
            "signal=none",
            "-e",
            CALLS,
            "-o",
        ])
        .arg(output.path())
        .arg(std::env::current_exe()?)
        .args(arguments)
        .env(name, folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output();
    let run = match run {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        run => run?,
    };
    let complaint = String::from_utf8_lossy(&run.stderr);
    if complaint.contains("Operation not permitted") {
        return Ok(None);
    }
    if !run.status.success() {
        return Err(format!("{}: {complaint}", run.status).into());
    }
    // The directory's own parent is part of it: the name of the directory is there.
    let root = folder.parent().ok_or("a directory in a directory")?;
    Ok(Some(read(&std::fs::read_to_string(output.path())?, root)?))
}

/// Calls that change something under the root, and the acknowledgements.
fn read(text: &str, root: &Path) -> Result<Vec<Call>, BoxError> {
    let mut halves: HashMap<&str, String> = HashMap::new();
    // All threads share their descriptors.
    let mut files: HashMap<i64, PathBuf> = HashMap::new();
    let mut known = HashSet::new();
    let mut calls = Vec::new();
    for line in text.lines() {
        let (process, line) = line.split_once(' ').ok_or("a process number")?;
        let line = line.trim_start();
        // A call of one thread that was interrupted by a line of another.
        let line = if let Some(half) = line.strip_suffix(" <unfinished ...>") {
            halves.insert(process, half.to_owned());
            continue;
        } else if let Some(rest) = line.strip_prefix("<... ") {
            let rest = rest.split_once(" resumed>").ok_or("the rest of a call")?.1;
            halves.remove(process).ok_or("the first half of a call")? + rest
        } else {
            line.to_owned()
        };
        let Some((call, result)) = line.rsplit_once(" = ") else {
            continue;
        };
        let result: i64 = result
            .split_whitespace()
            .next()
            .and_then(|number| number.parse().ok())
            .unwrap_or(-1);
        if result < 0 {
            continue;
        }
        let (name, arguments) = call.trim_end().split_once('(').ok_or("arguments")?;
        let strings = strings(arguments);
        let paths: Vec<_> = strings.iter().cloned().map(path).collect();
        let number = || {
            let digits: String = arguments.chars().take_while(char::is_ascii_digit).collect();
            digits.parse::<i64>().unwrap_or(-1)
        };
        let file = files.get(&number()).cloned();
        let call = match (name, &paths[..], file) {
            ("open" | "openat" | "creat", [path], _) => {
                files.insert(result, path.clone());
                let makes = arguments.contains("O_CREAT") && !known.contains(path);
                if arguments.contains("O_TRUNC") && path.starts_with(root) {
                    return Err(format!("a file is truncated when it is opened: {line}").into());
                }
                Call::Open(path.clone(), makes)
            }
            ("write", [_], _) if number() == 1 => {
                let text = String::from_utf8_lossy(&strings[0]);
                let number = text.strip_prefix("saved ").map(str::trim);
                match number.and_then(|number| number.parse().ok()) {
                    Some(number) => Call::Acknowledged(number),
                    None => continue,
                }
            }
            ("write", [_], Some(file)) => {
                assert_eq!(strings[0].len() as i64, result, "written as a whole");
                Call::Write(file, strings[0].clone())
            }
            ("fsync" | "fdatasync", _, Some(file)) => Call::Flush(file),
            ("ftruncate", _, Some(file)) => {
                let length = arguments.rsplit(", ").next().unwrap_or_default();
                Call::Truncate(file, length.trim_end_matches(')').parse()?)
            }
            ("rename" | "renameat" | "renameat2", [one, other], _) => {
                match arguments.contains("RENAME_EXCHANGE") {
                    true => Call::Exchange(one.clone(), other.clone()),
                    false => Call::Rename(one.clone(), other.clone()),
                }
            }
            ("link" | "linkat", [from, to], _) => Call::Link(from.clone(), to.clone()),
            ("unlink" | "unlinkat", [path], _) => Call::Remove(path.clone()),
            ("mkdir" | "mkdirat", [path], _) => Call::MakeFolder(path.clone()),
            (_, _, None) => continue,
            _ => return Err(format!("a call that the replay does not know: {line}").into()),
        };
        let is_inside = match &call {
            Call::MakeFolder(path)
            | Call::Open(path, _)
            | Call::Write(path, _)
            | Call::Truncate(path, _)
            | Call::Flush(path)
            | Call::Rename(path, _)
            | Call::Exchange(path, _)
            | Call::Link(path, _)
            | Call::Remove(path) => path.starts_with(root),
            Call::Acknowledged(_) => true,
        };
        if !is_inside {
            continue;
        }
        match &call {
            Call::Open(path, _) | Call::MakeFolder(path) => drop(known.insert(path.clone())),
            Call::Rename(from, to) => {
                known.remove(from);
                known.insert(to.clone());
            }
            Call::Remove(path) => drop(known.remove(path)),
            _ => {}
        }
        calls.push(call);
    }
    Ok(calls)
}

/// What is between quotes, each byte written as its number.
fn strings(arguments: &str) -> Vec<Vec<u8>> {
    let quoted = arguments.split('"').skip(1).step_by(2);
    let byte = |hex: &str| u8::from_str_radix(hex, 16).unwrap_or(b'?');
    quoted
        .map(|text| text.split("\\x").skip(1).map(byte).collect())
        .collect()
}

fn path(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes))
}
