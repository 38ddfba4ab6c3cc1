//! Hears from the kernel when a path may lead to another file than before.
//!
//! Reloadable are the directories in which a name on the way decides where it leads: the last one, and that of every link.
//! A watch on the file itself would stay with the old one when it is replaced. Of the other directories on the way only
//! their own end is of interest.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use tokio::io::unix::AsyncFd;

use super::file_watch::{NameFilter, Targets, named};
use crate::util::{panics, sys};

/// So many links in a path are a circle, for the kernel too.
const MOST_LINKS: usize = 40;
/// So often the way is walked again because it has changed meanwhile.
const TRIES: usize = 8;

/// Which names in a watched directory are of interest.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Names {
    All,
    /// Those that count, and these.
    Counting(Vec<OsString>),
    These(Vec<OsString>),
}

type Places = HashMap<PathBuf, Names>;

/// What is watched, before the runtime knows of it.
pub(super) struct PreparedWatch {
    inotify: OwnedFd,
    names: HashMap<i32, Names>,
    counts: Option<NameFilter>,
}

impl PreparedWatch {
    /// On the runtime that calls it.
    pub(super) fn begin(self) -> io::Result<InotifyWatcher> {
        let Self {
            inotify,
            names,
            counts,
        } = self;
        // There is no other way to ask whether the runtime has its I/O enabled.
        let inotify = panics::quietly(|| sys::watch_readable(inotify))
            .map_err(|panic| io::Error::other(panic.message))??;
        Ok(InotifyWatcher {
            inotify,
            names,
            counts,
        })
    }
}

pub(super) struct InotifyWatcher {
    inotify: AsyncFd<OwnedFd>,
    names: HashMap<i32, Names>,
    counts: Option<NameFilter>,
}

impl InotifyWatcher {
    /// Looks out for these paths, which are absolute. Blocks for a moment.
    pub(super) fn on(targets: &Targets) -> io::Result<PreparedWatch> {
        let mut tries = TRIES;
        loop {
            let places = places(targets);
            let beginning = watch(&places, targets.below);
            tries -= 1;
            // What was replaced between the look and the watch was seen by neither.
            if tries == 0 || self::places(targets) == places {
                return beginning;
            }
        }
    }

    /// Completes when something has happened to a name of interest. Cancel-safe: what was read is returned in the same poll.
    pub(super) async fn heard(&self) -> io::Result<()> {
        loop {
            let mut ready = self.inotify.readable().await?;
            let mut buffer = [MaybeUninit::uninit(); 4_096];
            let mut reader = inotify::Reader::new(self.inotify.get_ref(), &mut buffer);
            let mut heard = false;
            loop {
                match reader.next() {
                    Ok(event) => {
                        let name = event
                            .file_name()
                            .map(|name| OsStr::from_bytes(name.to_bytes()));
                        heard |= self.is_of_interest(event.wd(), event.events(), name);
                    }
                    Err(rustix::io::Errno::WOULDBLOCK) => break,
                    Err(rustix::io::Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            ready.clear_ready();
            if heard {
                return Ok(());
            }
        }
    }

    fn is_of_interest(&self, number: i32, events: ReadFlags, name: Option<&OsStr>) -> bool {
        // About the directory itself, or too much to tell.
        let Some(name) = name else {
            return true;
        };
        if events.contains(ReadFlags::QUEUE_OVERFLOW) {
            return true;
        }
        match self.names.get(&number) {
            Some(Names::All) => true,
            Some(Names::Counting(_)) if self.counts.is_some_and(|counts| counts(name)) => true,
            Some(Names::Counting(names) | Names::These(names)) => names.iter().any(|it| it == name),
            None => false,
        }
    }
}

fn watch(places: &Places, counts: Option<NameFilter>) -> io::Result<PreparedWatch> {
    let none_left = |error: rustix::io::Errno| {
        io::Error::other(format!(
            "no file can be watched: {error}; fs.inotify.max_user_instances may be too low"
        ))
    };
    let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).map_err(none_left)?;
    let itself = WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF | WatchFlags::ONLYDIR;
    let inside = WatchFlags::CLOSE_WRITE
        | WatchFlags::CREATE
        | WatchFlags::DELETE
        | WatchFlags::MOVED_FROM
        | WatchFlags::MOVED_TO
        | WatchFlags::ATTRIB;
    let mut names = HashMap::new();
    for (folder, wanted) in places {
        let flags = match wanted {
            Names::These(names) if names.is_empty() => itself,
            _ => itself | inside,
        };
        match inotify::add_watch(&inotify, folder, flags) {
            Ok(number) => drop(names.insert(number, wanted.clone())),
            // Gone since the look, which is repeated; or one that we may pass through and not read.
            Err(
                rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR | rustix::io::Errno::ACCESS,
            ) => {}
            Err(rustix::io::Errno::NOSPC) => {
                let full =
                    "so many directories cannot be watched; fs.inotify.max_user_watches is too low";
                return Err(named(folder, &io::Error::other(full)));
            }
            Err(error) => return Err(named(folder, &error.into())),
        }
    }
    Ok(PreparedWatch {
        inotify,
        names,
        counts,
    })
}

/// The directories on the ways to these files, and the names in them that decide where the way goes on.
fn places(targets: &Targets) -> Places {
    let mut places = Places::new();
    for path in &targets.paths {
        match (walk(path, &mut places), targets.below) {
            (Some(folder), Some(counts)) => note_tree(&folder, counts, &mut places),
            (Some(folder), None) => drop(places.insert(folder, Names::All)),
            (None, _) => {}
        }
    }
    places
}

/// Everything below a directory. Links to directories are not followed: they may lead in a circle.
fn note_tree(folder: &Path, counts: NameFilter, places: &mut Places) {
    let names = places
        .entry(folder.to_owned())
        .or_insert_with(|| Names::Counting(Vec::new()));
    if let Names::These(these) = names {
        *names = Names::Counting(std::mem::take(these));
    }
    // Gone again, or not for us to read: then nothing in it can be told either.
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, kind) = (entry.path(), entry.file_type());
        if !counts(&entry.file_name()) {
            continue;
        }
        match kind {
            Ok(kind) if kind.is_dir() => note_tree(&path, counts, places),
            Ok(kind) if kind.is_symlink() && path.is_file() => drop(walk(&path, places)),
            _ => {}
        }
    }
}

/// Notes the way to a file, and says which directory it is if it is one.
fn walk(path: &Path, places: &mut Places) -> Option<PathBuf> {
    let mut way = parts(path);
    let mut here = PathBuf::from("/");
    let mut links = 0;
    while let Some(name) = way.pop() {
        let step = match &name {
            WatchStep::Root => {
                here = PathBuf::from("/");
                continue;
            }
            // There is no link in `here`, so this is where the kernel goes too.
            WatchStep::Up => {
                here.pop();
                continue;
            }
            WatchStep::Into(name) => here.join(name),
        };
        let WatchStep::Into(name) = name else {
            continue;
        };
        let found = step.symlink_metadata();
        let is_link = found.as_ref().is_ok_and(|found| found.is_symlink());
        if is_link || found.is_err() || way.is_empty() {
            note(places, &here, Some(name));
        } else {
            note(places, &here, None);
        }
        match found {
            Ok(_) if is_link => {
                links += 1;
                match step.read_link() {
                    Ok(target) if links <= MOST_LINKS => way.extend(parts(&target)),
                    _ => return None,
                }
            }
            Ok(found) if way.is_empty() && found.is_dir() => return Some(step),
            Ok(_) => here = step,
            // It may come: its directory will say so.
            Err(_) => return None,
        }
    }
    None
}

fn note(places: &mut Places, folder: &Path, name: Option<OsString>) {
    let names = places
        .entry(folder.to_owned())
        .or_insert_with(|| Names::These(Vec::new()));
    if let (Names::These(names) | Names::Counting(names), Some(name)) = (names, name)
        && !names.contains(&name)
    {
        names.push(name);
    }
}

/// One step on the way.
enum WatchStep {
    Root,
    Up,
    Into(OsString),
}

/// The steps of a path, the first one last.
fn parts(path: &Path) -> Vec<WatchStep> {
    let step = |part: Component<'_>| match part {
        Component::RootDir => Some(WatchStep::Root),
        Component::ParentDir => Some(WatchStep::Up),
        Component::Normal(name) => Some(WatchStep::Into(name.to_owned())),
        Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().rev().filter_map(step).collect()
}
