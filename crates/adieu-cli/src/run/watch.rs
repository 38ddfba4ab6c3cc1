//! `--watch`: a change under a path, heard from the kernel.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use tokio::io::unix::AsyncFd;

/// Editors and package managers change many files at once: a change counts when it has been quiet for so long.
const QUIET: Duration = Duration::from_millis(200);

/// What is watched.
pub(super) struct Watch {
    inotify: AsyncFd<OwnedFd>,
    /// By watch descriptor: the folder, and the one name in it that counts if it is a file that is watched.
    folders: Vec<(i32, PathBuf, Option<PathBuf>)>,
}

impl Watch {
    /// On the runtime that calls it.
    pub(super) fn on(paths: &[PathBuf]) -> io::Result<Self> {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let mut watch = Self {
            inotify: super::sys::on_runtime(inotify)?,
            folders: Vec::new(),
        };
        for path in paths {
            let named = |error: io::Error| {
                io::Error::new(error.kind(), format!("{}: {error}", path.display()))
            };
            let path = path.canonicalize().map_err(named)?;
            if path.is_dir() {
                watch.add_tree(&path).map_err(named)?;
            } else if let (Some(folder), Some(name)) = (path.parent(), path.file_name()) {
                // The folder, because a file is usually replaced and not written to.
                watch.add(folder, Some(name.into())).map_err(named)?;
            }
        }
        Ok(watch)
    }

    fn add(&mut self, folder: &Path, name: Option<PathBuf>) -> io::Result<()> {
        let flags = WatchFlags::CLOSE_WRITE
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVED_FROM
            | WatchFlags::CREATE
            | WatchFlags::DELETE;
        let number = inotify::add_watch(self.inotify.get_ref(), folder, flags)?;
        self.folders.push((number, folder.to_owned(), name));
        Ok(())
    }

    fn add_tree(&mut self, folder: &Path) -> io::Result<()> {
        self.add(folder, None)?;
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            // Links are not followed: they may lead in a circle.
            if entry.file_type()?.is_dir() && counts(&entry.file_name().to_string_lossy()) {
                self.add_tree(&entry.path())?;
            }
        }
        Ok(())
    }

    /// Completes when something has changed, and no more does. Not cancel-safe: a change that was read is forgotten.
    pub(super) async fn changed(&mut self) -> io::Result<()> {
        while !self.read().await? {}
        while let Ok(more) = tokio::time::timeout(QUIET, self.read()).await {
            more?;
        }
        Ok(())
    }

    /// Waits for events and says whether one of them counts.
    async fn read(&mut self) -> io::Result<bool> {
        let mut seen = Vec::new();
        {
            let mut ready = self.inotify.readable().await?;
            let mut buffer = [MaybeUninit::uninit(); 4_096];
            let mut reader = inotify::Reader::new(self.inotify.get_ref(), &mut buffer);
            loop {
                match reader.next() {
                    Ok(event) => {
                        let name = event
                            .file_name()
                            .map(|it| it.to_string_lossy().into_owned());
                        let is_folder = event.events().contains(ReadFlags::ISDIR);
                        seen.push((event.wd(), name.unwrap_or_default(), is_folder));
                    }
                    Err(rustix::io::Errno::WOULDBLOCK) => break,
                    Err(error) => return Err(error.into()),
                }
            }
            ready.clear_ready();
        }
        let mut counted = false;
        for (number, name, is_folder) in seen {
            let watched: Vec<(PathBuf, Option<PathBuf>)> = self
                .folders
                .iter()
                .filter(|(it, ..)| *it == number)
                .map(|(_, folder, only)| (folder.clone(), only.clone()))
                .collect();
            for (folder, only) in watched {
                match only {
                    Some(only) => counted |= only.as_os_str() == name.as_str(),
                    None if counts(&name) => {
                        counted = true;
                        if is_folder {
                            // It may be gone again.
                            let _ = self.add_tree(&folder.join(&name));
                        }
                    }
                    None => {}
                }
            }
        }
        Ok(counted)
    }
}

/// What programs write for themselves is no change; watching it would restart for ever.
fn counts(name: &str) -> bool {
    !name.starts_with('.') && !name.ends_with('~') && name != "__pycache__" && name != "target"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn changes_that_count_are_heard() {
        let folder = tempfile::TempDir::new().unwrap();
        let write = |name: &str| std::fs::write(folder.path().join(name), "x").unwrap();
        write("app.py");
        write("one.conf");
        std::fs::create_dir(folder.path().join("__pycache__")).unwrap();
        let mut tree = Watch::on(&[folder.path().to_owned()]).unwrap();
        let mut one = Watch::on(&[folder.path().join("one.conf")]).unwrap();
        write("__pycache__/app.pyc");
        write(".swap");
        // These alone would not be heard; this one is, in a folder that is new.
        std::fs::create_dir(folder.path().join("new")).unwrap();
        tree.changed().await.unwrap();
        write("new/module.py");
        tree.changed().await.unwrap();
        // A file replaced, as an editor does it.
        write("two.conf");
        std::fs::rename(
            folder.path().join("two.conf"),
            folder.path().join("one.conf"),
        )
        .unwrap();
        one.changed().await.unwrap();
        assert!(Watch::on(&[folder.path().join("gone")]).is_err());
    }
}
