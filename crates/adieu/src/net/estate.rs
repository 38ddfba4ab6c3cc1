//! Whose the listeners are: ours, of the one who started us, of the process before us or of the one after.
//!
//! A listener that lives on in another process must be neither hidden nor emptied nor have its file removed when
//! this one ends: what is in its queue will be served there.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::inherit::{Inheritance, Origin};
use super::platform::Descriptor;
use crate::core::Core;
use crate::gate::Gate;

/// Who goes on with a listener when this process has stopped accepting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeper {
    /// Nobody: it ends with us.
    Nobody,
    /// Whoever started us, and holds it.
    Parent,
    /// The process that is about to hand it to us, and has not yet let go.
    Predecessor,
    /// The process that we have handed it to.
    Successor(u32),
}

/// Where the process that is about to hand over listens.
type Channel = Box<dyn Write + Send>;

/// A listener as it is given to the next process.
#[derive(Debug)]
pub(crate) struct Bequest {
    pub(crate) name: String,
    pub(crate) descriptor: Descriptor,
    pub(crate) ours: bool,
    pub(crate) file: Option<PathBuf>,
}

struct Listed {
    number: u64,
    bequest: Bequest,
}

/// The listeners of one service, and what becomes of them.
#[derive(Default)]
pub(crate) struct Estate {
    pub(crate) inheritance: Inheritance,
    listed: Mutex<Vec<Listed>>,
    /// Servers that do not listen yet.
    unopened: AtomicUsize,
    next: AtomicU64,
    /// The process that is about to hand over to us.
    predecessor: OnceLock<Mutex<Option<Channel>>>,
    /// The names of what it gave us and somebody has claimed.
    claimed: Mutex<BTreeSet<String>>,
    /// It has let go: what it gave us is ours.
    has_let_go: AtomicBool,
    /// Opens when the predecessor has let go, or has given up.
    decided: Gate,
    /// The next process and the names it has taken.
    successor: OnceLock<(u32, BTreeSet<String>)>,
    /// Opens with that.
    pub(crate) passed_on: Gate,
}

impl Estate {
    fn listed(&self) -> MutexGuard<'_, Vec<Listed>> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A server will listen.
    pub(super) fn announce(&self) {
        self.unopened.fetch_add(1, Ordering::AcqRel);
    }

    /// It does; says whether it was the last one.
    pub(super) fn opened(&self) -> bool {
        self.unopened.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Whether every server listens.
    pub(crate) fn is_open(&self) -> bool {
        self.unopened.load(Ordering::Acquire) == 0
    }

    /// A copy of every listener, for the next process.
    pub(crate) fn bequests(&self) -> std::io::Result<Vec<Bequest>> {
        self.listed()
            .iter()
            .map(|Listed { bequest, .. }| {
                Ok(Bequest {
                    name: bequest.name.clone(),
                    descriptor: bequest.descriptor.try_clone()?,
                    ours: bequest.ours,
                    file: bequest.file.clone(),
                })
            })
            .collect()
    }

    /// What the predecessor has given is its own until [`Estate::let_go`].
    /// It is to be spoken to over this channel.
    pub(crate) fn await_predecessor(&self, channel: impl Write + Send + 'static) {
        let _ = self.predecessor.set(Mutex::new(Some(Box::new(channel))));
    }

    /// Whether there is a predecessor that has not let go.
    pub(crate) fn is_on_probation(&self) -> bool {
        self.predecessor.get().is_some() && !self.has_let_go.load(Ordering::Acquire)
    }

    /// Tells the predecessor that set-up is done.
    pub(crate) fn say_ready(&self) {
        self.say("ready");
    }

    /// Tells the predecessor that every server listens, and what it may let go of.
    pub(crate) fn say_serving(&self) {
        let claimed = self.claimed.lock().unwrap_or_else(PoisonError::into_inner);
        let names = serde_json::to_string(&*claimed).unwrap_or_default();
        self.say(&format!("serving {names}"));
    }

    /// If it is gone, the end of the channel says so where it is listened to.
    fn say(&self, line: &str) {
        self.with_channel(|channel| {
            if let Some(channel) = channel {
                let _ = channel.write_all(format!("{line}\n").as_bytes());
            }
        });
    }

    fn with_channel(&self, talk: impl FnOnce(&mut Option<Channel>)) {
        if let Some(channel) = self.predecessor.get() {
            talk(&mut channel.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// What the predecessor gave us is ours.
    pub(crate) fn let_go(&self) {
        self.has_let_go.store(true, Ordering::Release);
        self.with_channel(|channel| *channel = None);
        self.decided.open();
    }

    /// The predecessor goes on by itself.
    pub(crate) fn given_up(&self) {
        self.with_channel(|channel| *channel = None);
        self.decided.open();
    }

    /// Completes when it is known whose the listeners are. Cancel-safe.
    pub(super) async fn decided(&self) {
        if self.predecessor.get().is_some() {
            self.decided.pass().await;
        }
    }

    /// The listeners of these names live on in this process.
    pub(crate) fn pass_on(&self, pid: u32, names: BTreeSet<String>) {
        let _ = self.successor.set((pid, names));
        self.passed_on.open();
    }
}

/// A listener's tie to the other processes that know it; also its file. Dropped, the file is removed if it is ours.
pub(crate) struct Hold {
    core: Arc<Core>,
    name: String,
    origin: Origin,
    file: Option<PathBuf>,
    /// Its number in the list for the next process.
    number: Option<u64>,
}

impl Hold {
    pub(super) fn new(
        core: Arc<Core>,
        name: String,
        origin: Origin,
        file: Option<PathBuf>,
    ) -> Self {
        if matches!(origin, Origin::Predecessor { .. }) {
            let claimed = core.estate.claimed.lock();
            claimed
                .unwrap_or_else(PoisonError::into_inner)
                .insert(name.clone());
        }
        Self {
            core,
            name,
            origin,
            file,
            number: None,
        }
    }

    /// Puts the listener on the list for the next process. Only a service that owns its process has one.
    pub(super) fn list(&mut self, descriptor: std::io::Result<Descriptor>) {
        let (Some(_), Ok(descriptor)) = (self.core.sentinel.get(), descriptor) else {
            return;
        };
        let estate = &self.core.estate;
        let number = estate.next.fetch_add(1, Ordering::Relaxed);
        estate.listed().push(Listed {
            number,
            bequest: Bequest {
                name: self.name.clone(),
                descriptor,
                ours: !matches!(
                    self.origin,
                    Origin::Parent { .. } | Origin::Predecessor { ours: false, .. }
                ),
                file: self.file.clone(),
            },
        });
        self.number = Some(number);
    }

    pub(crate) fn keeper(&self) -> Keeper {
        let estate = &self.core.estate;
        if let Some((pid, _)) = estate
            .successor
            .get()
            .filter(|(_, names)| names.contains(&self.name))
        {
            return Keeper::Successor(*pid);
        }
        match self.origin {
            Origin::Bound => Keeper::Nobody,
            Origin::Parent { .. } | Origin::Predecessor { ours: false, .. } => Keeper::Parent,
            Origin::Predecessor { .. } if estate.has_let_go.load(Ordering::Acquire) => {
                Keeper::Nobody
            }
            Origin::Predecessor { .. } => Keeper::Predecessor,
        }
    }

    /// Completes when it is known whose the listener is. Cancel-safe.
    pub(super) async fn decided(&self) {
        if matches!(self.origin, Origin::Predecessor { .. }) {
            self.core.estate.decided().await;
        }
    }

    /// Whether it came from the predecessor, who accepts from it until it lets go.
    #[cfg(feature = "admin")]
    pub(crate) const fn is_handed_over(&self) -> bool {
        matches!(self.origin, Origin::Predecessor { .. })
    }

    /// Where it came from, for the report.
    pub(super) fn provenance(&self) -> Option<String> {
        match &self.origin {
            Origin::Bound => None,
            Origin::Parent { descriptor } => {
                Some(format!("listener inherited as descriptor {descriptor}"))
            }
            Origin::Predecessor { pid, .. } => {
                Some(format!("listener handed over by process {pid}"))
            }
        }
    }

    /// Removes the file, once: by the next time another service may have put its own there.
    pub(super) fn remove_file(&mut self) {
        if self.keeper() == Keeper::Nobody
            && let Some(path) = self.file.take()
        {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.core
                .estate
                .listed()
                .retain(|listed| listed.number != number);
        }
        self.remove_file();
    }
}
