//! Rooms: files to which every process appends lines, and which it reads.

use std::convert::Infallible;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use rustix::fs::inotify;
use rustix::io::Errno;
use tokio::sync::watch;

/// So much of a room is read at a time, and shown to one who joins. No line is longer.
const PIECE: u64 = 64 * 1_024;

/// All rooms, in one directory.
#[derive(Clone)]
pub(crate) struct Rooms {
    directory: Arc<Path>,
    /// Changes when a line was added to any room, by this process or by another.
    changed: watch::Sender<()>,
}

/// One room.
#[derive(Clone)]
pub(crate) struct Room {
    path: PathBuf,
    changed: watch::Sender<()>,
}

/// Whole lines of a room.
pub(crate) struct Lines {
    pub(crate) text: String,
    /// Where the next one begins.
    pub(crate) end: u64,
    pub(crate) has_more: bool,
}

impl Rooms {
    pub(crate) fn open(directory: PathBuf) -> io::Result<Self> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&directory)?;
        let inotify = inotify::init(inotify::CreateFlags::CLOEXEC)?;
        inotify::add_watch(&inotify, &directory, inotify::WatchFlags::MODIFY)?;
        let changed = watch::Sender::new(());
        let tell = changed.clone();
        // Waits in the kernel until the process ends.
        thread::Builder::new()
            .name("rooms".to_owned())
            .spawn(move || {
                let Err(error) = watch_rooms(&inotify, &tell);
                tracing::error!(%error, "new lines are seen late: the rooms cannot be watched");
            })?;
        Ok(Self {
            directory: directory.into(),
            changed,
        })
    }

    /// `None` if it cannot have this name.
    pub(crate) fn room(&self, name: &str) -> Option<Room> {
        let is_fine = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let is_name = (1..=32).contains(&name.len()) && name.bytes().all(is_fine);
        is_name.then(|| Room {
            path: self.directory.join(name),
            changed: self.changed.clone(),
        })
    }
}

/// Tells the sockets when the kernel says that a room has a new line.
fn watch_rooms(inotify: &OwnedFd, changed: &watch::Sender<()>) -> io::Result<Infallible> {
    let mut room = [MaybeUninit::uninit(); 4_096];
    let mut events = inotify::Reader::new(inotify, &mut room);
    loop {
        match events.next() {
            Ok(_) => changed.send_replace(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

impl Room {
    /// Told when there may be new lines.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Adds a line.
    pub(crate) async fn say(&self, mut line: String) -> io::Result<()> {
        line.push('\n');
        self.with(move |path| {
            let mut file = OpenOptions::new().create(true).append(true).open(path)?;
            // In one piece: the kernel puts it behind the lines of the other process.
            file.write_all(line.as_bytes())
        })
        .await
    }

    /// Where the last lines begin.
    pub(crate) async fn recent(&self) -> io::Result<u64> {
        self.with(|path| {
            let length = length(path)?;
            let Some(from) = length.checked_sub(PIECE) else {
                return Ok(0);
            };
            let piece = piece(path, from)?;
            let first = piece.iter().position(|byte| *byte == b'\n');
            Ok(from + first.map_or(0, |first| first as u64 + 1))
        })
        .await
    }

    /// What was said from this place on.
    pub(crate) async fn read(&self, from: u64) -> io::Result<Lines> {
        self.with(move |path| {
            let mut piece = piece(path, from)?;
            // Without a line that is being written.
            let whole = piece.iter().rposition(|byte| *byte == b'\n');
            piece.truncate(whole.map_or(0, |last| last + 1));
            let end = from + piece.len() as u64;
            Ok(Lines {
                has_more: !piece.is_empty() && end < length(path)?,
                text: String::from_utf8_lossy(&piece).into_owned(),
                end,
            })
        })
        .await
    }

    async fn with<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let path = self.path.clone();
        tokio::task::spawn_blocking(move || act(&path)).await?
    }
}

/// A room in which nothing was said has no file.
fn length(path: &Path) -> io::Result<u64> {
    match path.metadata() {
        Ok(found) => Ok(found.len()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
    }
}

fn piece(path: &Path, from: u64) -> io::Result<Vec<u8>> {
    let mut piece = Vec::new();
    match File::open(path) {
        Ok(mut file) => {
            file.seek(SeekFrom::Start(from))?;
            file.take(PIECE).read_to_end(&mut piece)?;
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    Ok(piece)
}
