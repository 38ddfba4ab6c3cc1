//! Files whose change asks for a reload, as SIGHUP does.
//!
//! The kernel says when a name that leads to the file means something else; what counts is the file behind it when it
//! has been quiet for a moment. So a file that is written to, replaced by a rename or swapped by a link, as Kubernetes
//! does it with a whole folder, is one change each, and one that is gone for a moment is none.

use std::ffi::OsString;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::lookout::Lookout;
use super::request;
use crate::core::Core;
use crate::error::Failure;
use crate::report::Notice;
use crate::stop::Stop;

/// A change counts when nothing more has happened for so long: many files are written together.
const QUIET: Duration = Duration::from_millis(200);
/// And at the latest after this, if it is never quiet.
const LATEST: Duration = Duration::from_secs(2);

/// Paths, and what they stood for when somebody last looked.
pub(super) struct Watch {
    paths: Vec<PathBuf>,
    seen: Vec<Option<Print>>,
    lookout: Lookout,
}

impl Watch {
    /// From here on no change is missed. Dropped half-way, it leaves nothing behind.
    pub(super) async fn begin(paths: Vec<PathBuf>) -> io::Result<Self> {
        let look = move || {
            let paths: Vec<_> = paths
                .iter()
                .map(std::path::absolute)
                .collect::<Result<_, _>>()?;
            // One that is not there is more often a slip of the pen than a plan.
            for path in &paths {
                path.metadata().map_err(|error| named(path, &error))?;
            }
            let lookout = Lookout::on(&paths)?;
            Ok((lookout, prints(&paths), paths))
        };
        let (lookout, seen, paths) = blocking(look).await?;
        Ok(Self {
            paths,
            seen,
            lookout: lookout.begin()?,
        })
    }

    /// Completes when something has changed and it is quiet again. Dropped half-way, the change is still one the next
    /// time.
    async fn changed(&mut self) -> io::Result<()> {
        loop {
            self.lookout.heard().await?;
            let latest = Instant::now() + LATEST;
            while Instant::now() < latest
                && let Ok(more) = timeout(QUIET, self.lookout.heard()).await
            {
                more?;
            }
            // A link may lead elsewhere now. First the new look-out, then the look: nothing is missed in between.
            let paths = self.paths.clone();
            let look = move || Ok((Lookout::on(&paths)?, prints(&paths)));
            let (lookout, now) = blocking(look).await?;
            self.lookout = lookout.begin()?;
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
    /// Not tracked work: it ends nothing that the stop would have to wait for, and alone it is no reason to go on.
    pub(super) fn keep(mut self, core: &Arc<Core>, name: Arc<str>) {
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

/// What tells a file from another, and from itself before it was written to; of a folder, what is in it.
#[derive(PartialEq, Eq)]
enum Print {
    File(Mark),
    Folder(Vec<(OsString, Option<Mark>)>),
}

type Mark = (u64, u64, u64, (i64, i64), (i64, i64));

fn mark(file: &Metadata) -> Mark {
    (
        file.dev(),
        file.ino(),
        file.size(),
        (file.mtime(), file.mtime_nsec()),
        (file.ctime(), file.ctime_nsec()),
    )
}

fn prints(paths: &[PathBuf]) -> Vec<Option<Print>> {
    paths.iter().map(|path| print(path)).collect()
}

fn print(path: &Path) -> Option<Print> {
    let found = path.metadata().ok()?;
    if !found.is_dir() {
        return Some(Print::File(mark(&found)));
    }
    let mut entries: Vec<_> = std::fs::read_dir(path)
        .ok()?
        .flatten()
        .map(|entry| {
            let behind = entry.path().metadata();
            (entry.file_name(), behind.ok().as_ref().map(mark))
        })
        .collect();
    entries.sort();
    Some(Print::Folder(entries))
}
