//! Reload: everything that can be loaded anew is, as one transaction, while the service runs.
//!
//! Every source loads, without effect; every check looks; every component that asked applies, in the order of
//! registration. If one of them refuses, those before it take back what they did, last first, and nothing has
//! changed. Only then are the new values shown to those who watch, in one sweep that cannot fail.
//! [`App::reload`](crate::App::reload) adds a source.

#[cfg(all(target_os = "linux", feature = "watch"))]
mod file_watch;
#[cfg(all(target_os = "linux", feature = "watch"))]
mod inotify;
mod source;
mod transaction;
mod value;

use std::fmt::{self, Write};
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use crate::error::{Error, Failure};
use crate::report::Notice;
use crate::runtime::extension::Extension;
use crate::runtime::shared::ServiceShared;
use crate::runtime::spawn;
use crate::runtime::stop::Stop;
use crate::signal::Signal;
use crate::util::duration::show;

#[cfg(all(target_os = "linux", feature = "watch"))]
pub use file_watch::FileWatch;
pub(crate) use source::{Source, StagedValue, Step};
pub use value::{ReloadBuilder, Reloadable};

use transaction::{Verdict, transact};

/// What of a service can be reloaded, and how the last time went.
#[derive(Default)]
pub(crate) struct Reloads(Mutex<ReloadState>);

#[derive(Default)]
struct ReloadState {
    sources: Vec<Arc<dyn Source>>,
    running: bool,
    /// Asked for while one was running.
    again: bool,
    applied: u64,
    refused: u64,
    last: Option<Last>,
}

/// How the last reload went.
#[derive(Clone)]
pub(crate) struct Last {
    pub(crate) at: Instant,
    /// Who refused it, and why.
    pub(crate) refused: Option<(Arc<str>, Failure)>,
}

/// How often, and how the last time went.
pub(crate) struct Reloaded {
    pub(crate) sources: Vec<Arc<str>>,
    pub(crate) applied: u64,
    pub(crate) refused: u64,
    pub(crate) last: Option<Last>,
}

impl Extension for Reloads {
    /// Without anything to reload, SIGHUP stops the service.
    fn on_signal(&self, core: &Arc<ServiceShared>, signal: Signal) -> bool {
        let is_ours = signal == Signal::Hangup && self.is_wanted();
        if is_ours {
            request(core);
        }
        is_ours
    }

    fn write_status(&self, f: &mut String) -> fmt::Result {
        let Some(reloads) = self.summary() else {
            return Ok(());
        };
        write!(f, "  reload  {}: ", reloads.sources.join(", "))?;
        write!(
            f,
            "{}× applied, {}× refused",
            reloads.applied, reloads.refused
        )?;
        match reloads.last.and_then(|last| Some((last.at, last.refused?))) {
            Some((at, (part, failure))) => {
                let age = show(at.elapsed());
                writeln!(f, "; {age} ago refused by {part}: {failure}")
            }
            None => writeln!(f),
        }
    }
}

impl ServiceShared {
    pub(crate) fn reloads(&self) -> &Reloads {
        self.extensions.get()
    }
}

impl Reloads {
    fn state(&self) -> MutexGuard<'_, ReloadState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From here on SIGHUP reloads.
    pub(crate) fn add(&self, source: Arc<dyn Source>) -> Result<(), Error> {
        let mut state = self.state();
        if state
            .sources
            .iter()
            .any(|other| other.name() == source.name())
        {
            return Err(Error::config(format!(
                "two things to reload are named `{}`: give one of them a new name",
                source.name()
            )));
        }
        state.sources.push(source);
        Ok(())
    }

    pub(crate) fn is_wanted(&self) -> bool {
        !self.state().sources.is_empty()
    }

    /// What there is to say of it; nothing, if nothing can be reloaded.
    pub(crate) fn summary(&self) -> Option<Reloaded> {
        let state = self.state();
        (!state.sources.is_empty()).then(|| Reloaded {
            sources: names(&state.sources),
            applied: state.applied,
            refused: state.refused,
            last: state.last.clone(),
        })
    }

    /// Whether the caller is the one to do it now; if one is running, it is done once more after it.
    fn begin(&self) -> bool {
        let mut state = self.state();
        state.again = state.running;
        !std::mem::replace(&mut state.running, true)
    }

    /// Whether to do it once more.
    fn goes_on(&self) -> bool {
        let mut state = self.state();
        state.running = std::mem::take(&mut state.again);
        state.running
    }
}

fn names(sources: &[Arc<dyn Source>]) -> Vec<Arc<str>> {
    sources
        .iter()
        .map(|source| Arc::clone(source.name()))
        .collect()
}

/// Reloads soon, as tracked work: a stop waits until it is done, or taken back. Nothing happens while stopping.
#[track_caller]
pub(crate) fn request(core: &Arc<ServiceShared>) {
    if core.announced.is_open() || !core.reloads().begin() {
        return;
    }
    let stop = Stop::new(Arc::clone(core));
    let work = {
        let stop = stop.clone();
        async move {
            // What `setup` is about to register belongs to it.
            while stop.until(stop.core.running.wait()).await.is_some() {
                reload_once(&stop).await;
                if !stop.core.reloads().goes_on() {
                    return;
                }
            }
        }
    };
    // Too late means that the service is over.
    let _ = spawn::task(&stop, "reload".into(), Location::caller(), work);
}

async fn reload_once(stop: &Stop) {
    let core = &stop.core;
    let sources = core.reloads().state().sources.clone();
    for extension in core.extensions.iter() {
        extension.on_reload_started();
    }
    let verdict = transact(stop, &sources).await;
    let mut state = core.reloads().state();
    let notice = match verdict {
        Verdict::Applied => {
            state.applied += 1;
            Notice::Reloaded {
                parts: names(&sources),
            }
        }
        Verdict::Refused { part, failure } => {
            state.refused += 1;
            Notice::ReloadRefused { part, failure }
        }
        Verdict::Stopped => return,
    };
    let refused = match &notice {
        Notice::ReloadRefused { part, failure } => Some((Arc::clone(part), failure.clone())),
        _ => None,
    };
    state.last = Some(Last {
        at: Instant::now(),
        refused,
    });
    drop(state);
    core.note(notice);
}
