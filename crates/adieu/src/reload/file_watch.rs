//! Files whose change asks for a reload, as SIGHUP does.
//!
//! The kernel says when a name that leads to the file means something else; what counts is the file behind it when it
//! has been quiet for a moment. So a file that is written to, replaced by a rename or swapped by a link, as Kubernetes
//! does it with a whole directory, is one change each, and one that is gone for a moment is none.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::inotify::InotifyWatcher;
use super::request;
use crate::error::Failure;
use crate::report::Notice;
use crate::runtime::shared::ServiceShared;
use crate::runtime::stop::Stop;

/// A change counts when nothing more has happened for so long: many files are written together.
const QUIET_TIME: Duration = Duration::from_millis(200);
/// And at the latest after this, if it is never quiet.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// Waits for changes of files, as [`ReloadBuilder::watch`](crate::reload::ReloadBuilder::watch) does, for a program that does
/// something other than a reload then. On Linux; feature `watch`.
///
/// A file that is written, replaced by a rename, or led to by a link that is swapped, as in a ConfigMap of Kubernetes,
/// has changed when it has been quiet for 200 ms. One that is removed has not, until it is there again. Nothing polls.
///
/// ```
/// # async fn setup(app: &mut adieu::App) -> adieu::Result {
/// # let file = std::env::current_exe()?;
/// let mut words = adieu::reload::FileWatch::on([file]).await?;
/// app.task("words", move |stop| async move {
///     while let Some(changed) = stop.until(words.changed()).await {
///         changed?;
///         println!("the list of words has changed");
///     }
///     Ok::<_, std::io::Error>(())
/// });
/// # Ok(())
/// # }
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// #     adieu::scope("words").run(async |app| { setup(app).await?; app.shutdown_handle().stop("seen"); Ok(()) }).await;
/// # }
/// ```
#[must_use = "a change is only seen by a call to `changed`"]
pub struct FileWatch {
    targets: Targets,
    /// What the paths stood for at the last look.
    seen: Vec<Option<Print>>,
    watcher: InotifyWatcher,
}

/// What is watched, and how deep.
#[derive(Clone)]
pub(super) struct Targets {
    pub(super) paths: Vec<PathBuf>,
    /// With directories below directories, as far as their names count.
    pub(super) below: Option<NameFilter>,
}

pub(super) type NameFilter = fn(&OsStr) -> bool;

impl FileWatch {
    /// Watches these files; of a directory, what is directly in it. From here on no change is missed.
    ///
    /// Dropped half-way, it leaves nothing behind. A path that is not there is an error, because it is more often a slip
    /// of the pen than a plan.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn on(paths: impl IntoIterator<Item = impl Into<PathBuf>>) -> io::Result<Self> {
        let paths = paths.into_iter().map(Into::into).collect();
        Self::begin(Targets { paths, below: None }).await
    }

    /// Watches also everything below a directory whose name counts, and whose directories' names do: leave out what the program
    /// itself writes there. Of a link in it, the file that it leads to is watched, and of one to a directory only where it leads.
    ///
    /// Dropped half-way, it leaves nothing behind.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn on_trees(
        paths: impl IntoIterator<Item = impl Into<PathBuf>>,
        counts: fn(&OsStr) -> bool,
    ) -> io::Result<Self> {
        let paths = paths.into_iter().map(Into::into).collect();
        let below = Some(counts);
        Self::begin(Targets { paths, below }).await
    }

    async fn begin(targets: Targets) -> io::Result<Self> {
        let look = move || {
            let absolute = targets.paths.iter().map(std::path::absolute);
            let targets = Targets {
                paths: absolute.collect::<Result<_, _>>()?,
                ..targets
            };
            for path in &targets.paths {
                path.metadata().map_err(|error| named(path, &error))?;
            }
            let watcher = InotifyWatcher::on(&targets)?;
            Ok((watcher, targets.prints(), targets))
        };
        let (watcher, seen, targets) = blocking(look).await?;
        Ok(Self {
            targets,
            seen,
            watcher: watcher.begin()?,
        })
    }

    /// Completes when something has changed and it is quiet again; an error is the end of it.
    ///
    /// Cancel-safe: dropped half-way, a change that is still there is one the next time.
    pub async fn changed(&mut self) -> io::Result<()> {
        loop {
            self.watcher.heard().await?;
            let latest = Instant::now() + LONGEST_WAIT;
            while Instant::now() < latest
                && let Ok(more) = timeout(QUIET_TIME, self.watcher.heard()).await
            {
                more?;
            }
            // A link may lead elsewhere now. First the new watcher, then the look: nothing is missed in between.
            let targets = self.targets.clone();
            let look = move || Ok((InotifyWatcher::on(&targets)?, targets.prints()));
            let (watcher, now) = blocking(look).await?;
            self.watcher = watcher.begin()?;
            let is_new =
                |(now, seen): (&Option<Print>, &Option<Print>)| now.is_some() && now != seen;
            if now.iter().zip(&self.seen).any(is_new) {
                for (seen, now) in self.seen.iter_mut().zip(now) {
                    *seen = now.or(seen.take());
                }
                return Ok(());
            }
        }
    }

    /// Asks for a reload at every change, until the service stops.
    ///
    /// Not tracked work: it ends nothing that the stop would have to wait for, and alone it does not keep the service running.
    pub(super) fn keep(mut self, core: &Arc<ServiceShared>, name: Arc<str>) {
        let stop = Stop::new(Arc::clone(core));
        core.runtime.spawn(async move {
            while let Some(changed) = stop.until(self.changed()).await {
                match changed {
                    Ok(()) => request(&stop.core),
                    Err(error) => {
                        let causes = vec![format!("{error}; from now on only SIGHUP reloads it")];
                        let failure = Failure {
                            causes,
                            panicked_at: None,
                        };
                        return stop.core.note(Notice::ReloadRefused {
                            part: name,
                            failure,
                        });
                    }
                }
            }
        });
    }
}

pub(super) fn named(path: &Path, error: &io::Error) -> io::Error {
    let text = format!("{} cannot be watched: {error}", path.display());
    io::Error::new(error.kind(), text)
}

async fn blocking<T: Send + 'static>(
    code: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(code).await?
}

impl std::fmt::Debug for FileWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("FileWatch")
            .field(&self.targets.paths)
            .finish()
    }
}

/// What tells a file from another, and from itself before it was written to; of a directory, what is in it. Only its hash is
/// kept: a tree may have many.
type Print = u64;

impl Targets {
    fn prints(&self) -> Vec<Option<Print>> {
        let print = |path: &PathBuf| {
            let found = path.metadata().ok()?;
            let mut print = DefaultHasher::new();
            match self.below {
                _ if !found.is_dir() => mark(&found).hash(&mut print),
                None => flat(path, &mut print)?,
                Some(counts) => deep(path, counts, &mut print)?,
            }
            Some(print.finish())
        };
        self.paths.iter().map(print).collect()
    }
}

fn mark(file: &Metadata) -> impl Hash {
    (
        (file.dev(), file.ino(), file.size()),
        (file.mtime(), file.mtime_nsec()),
        (file.ctime(), file.ctime_nsec()),
    )
}

fn flat(folder: &Path, print: &mut DefaultHasher) -> Option<()> {
    for path in entries(folder)? {
        path.file_name().hash(print);
        path.metadata().ok().as_ref().map(mark).hash(print);
    }
    Some(())
}

/// A directory that cannot be read, or is gone again, is as an empty one.
fn deep(folder: &Path, counts: NameFilter, print: &mut DefaultHasher) -> Option<()> {
    for path in entries(folder)? {
        if !path.file_name().is_some_and(counts) {
            continue;
        }
        path.hash(print);
        let is_link = path.is_symlink();
        match path.metadata() {
            Ok(found) if found.is_dir() && is_link => (found.dev(), found.ino()).hash(print),
            Ok(found) if found.is_dir() => drop(deep(&path, counts, print)),
            found => found.ok().as_ref().map(mark).hash(print),
        }
    }
    Some(())
}

fn entries(folder: &Path) -> Option<Vec<PathBuf>> {
    let found = std::fs::read_dir(folder).ok()?.flatten();
    let mut paths: Vec<_> = found.map(|entry| entry.path()).collect();
    paths.sort();
    Some(paths)
}
