//! Hears from the kernel when a path may lead to another file than before.
//!
//! Watched are the folders in which a name on the way decides where it leads: the last one, and that of every link.
//! A watch on the file itself would stay with the old one when it is replaced. Of the other folders on the way only
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

use super::watch::named;
use crate::{panics, sys};

/// So many links in a path are a circle, for the kernel too.
const MOST_LINKS: usize = 40;
/// So often the way is walked again because it has changed meanwhile.
const TRIES: usize = 8;

/// Which names in a watched folder are of interest.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Names {
    All,
    These(Vec<OsString>),
}

type Places = HashMap<PathBuf, Names>;

/// What is watched, before the runtime knows of it.
pub(super) struct Beginning {
    inotify: OwnedFd,
    names: HashMap<i32, Names>,
}

impl Beginning {
    /// On the runtime that calls it.
    pub(super) fn begin(self) -> io::Result<Lookout> {
        let Self { inotify, names } = self;
        // There is no other way to ask whether the runtime has its I/O enabled.
        let inotify = panics::quietly(|| sys::watch_readable(inotify))
            .map_err(|panic| io::Error::other(panic.message))??;
        Ok(Lookout { inotify, names })
    }
}

pub(super) struct Lookout {
    inotify: AsyncFd<OwnedFd>,
    names: HashMap<i32, Names>,
}

impl Lookout {
    /// Looks out for these paths, which are absolute. Blocks for a moment.
    pub(super) fn on(paths: &[PathBuf]) -> io::Result<Beginning> {
        let mut tries = TRIES;
        loop {
            let places = places(paths);
            let beginning = watch(&places);
            tries -= 1;
            // What was replaced between the look and the watch was seen by neither.
            if tries == 0 || self::places(paths) == places {
                return beginning;
            }
        }
    }

    /// Completes when something has happened to a name of interest. Cancel-safe: what was read is told in the same poll.
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
        // About the folder itself, or too much to tell.
        let Some(name) = name else {
            return true;
        };
        if events.contains(ReadFlags::QUEUE_OVERFLOW) {
            return true;
        }
        match self.names.get(&number) {
            Some(Names::All) => true,
            Some(Names::These(names)) => names.iter().any(|it| it == name),
            None => false,
        }
    }
}

fn watch(places: &Places) -> io::Result<Beginning> {
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
            Err(error) => return Err(named(folder, &error.into())),
        }
    }
    Ok(Beginning { inotify, names })
}

/// The folders on the ways to these files, and the names in them that decide where the way goes on.
fn places(paths: &[PathBuf]) -> Places {
    let mut places = Places::new();
    for path in paths {
        walk(path, &mut places);
    }
    places
}

fn walk(path: &Path, places: &mut Places) {
    let mut way = parts(path);
    let mut here = PathBuf::from("/");
    let mut links = 0;
    while let Some(name) = way.pop() {
        let step = match &name {
            Step::Root => {
                here = PathBuf::from("/");
                continue;
            }
            // There is no link in `here`, so this is where the kernel goes too.
            Step::Up => {
                here.pop();
                continue;
            }
            Step::Into(name) => here.join(name),
        };
        let Step::Into(name) = name else { continue };
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
                    _ => return,
                }
            }
            Ok(found) if way.is_empty() && found.is_dir() => {
                places.insert(step, Names::All);
                return;
            }
            Ok(_) => here = step,
            // It may come: its folder will say so.
            Err(_) => return,
        }
    }
}

fn note(places: &mut Places, folder: &Path, name: Option<OsString>) {
    let names = places
        .entry(folder.to_owned())
        .or_insert_with(|| Names::These(Vec::new()));
    if let (Names::These(names), Some(name)) = (names, name)
        && !names.contains(&name)
    {
        names.push(name);
    }
}

/// One step on the way.
enum Step {
    Root,
    Up,
    Into(OsString),
}

/// The steps of a path, the first one last.
fn parts(path: &Path) -> Vec<Step> {
    let step = |part: Component<'_>| match part {
        Component::RootDir => Some(Step::Root),
        Component::ParentDir => Some(Step::Up),
        Component::Normal(name) => Some(Step::Into(name.to_owned())),
        Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().rev().filter_map(step).collect()
}
