//! Whose the listeners are: ours, of the parent process, of the old process or of the new one.
//!
//! A listener that lives on in another process must be neither hidden nor emptied nor have its file removed when
//! this one ends: what is in its queue will be served there.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::descriptor_budget::DescriptorBudget;
use super::inherited::{InheritedFds, Origin};
use super::os::{Descriptor, SocketFile};
use crate::report::Notice;
use crate::runtime::extension::Extension;
use crate::runtime::shared::ServiceShared;
use crate::util::latch::Latch;

/// Who goes on with a listener when this process has stopped accepting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SocketOwner {
    /// It ends with this process.
    ThisProcess,
    /// The parent process, which holds it.
    Parent,
    /// The process that is about to hand it to us, and has not yet let go.
    OldProcess,
    /// The process that we have handed it to.
    NewProcess(u32),
}

/// Where the process that is about to hand over listens.
type HandoffWriter = Box<dyn Write + Send>;

/// A listener as it is given to the next process.
#[derive(Debug)]
pub(crate) struct ListenerFd {
    pub(crate) name: String,
    pub(crate) descriptor: Descriptor,
    pub(crate) ours: bool,
    pub(crate) file: Option<SocketFile>,
}

struct ListedListener {
    number: u64,
    listener_fd: ListenerFd,
}

/// The listeners of one service, and what becomes of them.
#[derive(Default)]
pub(crate) struct ListenerRegistry {
    pub(crate) inheritance: InheritedFds,
    pub(crate) descriptors: DescriptorBudget,
    listed: Mutex<Vec<ListedListener>>,
    /// Servers that do not listen yet.
    unopened: AtomicUsize,
    /// Told when the last of them has begun to listen.
    opened: tokio::sync::Notify,
    next: AtomicU64,
    /// The process that is about to hand over to us.
    predecessor: OnceLock<Mutex<Option<HandoffWriter>>>,
    /// The names of what it gave us and a listener of the service has claimed.
    claimed: Mutex<BTreeSet<String>>,
    /// It has let go: what it gave us is ours.
    has_released: AtomicBool,
    /// Opens when the predecessor has let go, or has given up.
    decided: Latch,
    /// The next process and the names it has taken.
    successor: OnceLock<(u32, BTreeSet<String>)>,
    /// Opens with that.
    pub(crate) handed_over: Latch,
}

impl Extension for ListenerRegistry {
    fn on_setup_done(&self, core: &ServiceShared) {
        for (name, descriptor) in self.inheritance.leftovers() {
            core.note(Notice::Unclaimed { name, descriptor });
        }
    }

    fn is_ready_to_serve(&self) -> bool {
        self.all_open()
    }
}

impl ServiceShared {
    pub(crate) fn listeners(&self) -> &ListenerRegistry {
        self.extensions.get()
    }
}

impl ListenerRegistry {
    fn listed(&self) -> MutexGuard<'_, Vec<ListedListener>> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A server will listen.
    pub(super) fn expect_server(&self) {
        self.unopened.fetch_add(1, Ordering::AcqRel);
    }

    /// It does; says whether it was the last one.
    pub(super) fn server_opened(&self) -> bool {
        let is_last = self.unopened.fetch_sub(1, Ordering::AcqRel) == 1;
        if is_last {
            self.opened.notify_waiters();
        }
        is_last
    }

    /// Completes when every server listens. Cancel-safe.
    #[cfg(feature = "tonic")]
    pub(crate) async fn until_all_open(&self) {
        loop {
            // Made before the look: it completes for every opening from here on.
            let opened = self.opened.notified();
            if self.all_open() {
                return;
            }
            opened.await;
        }
    }

    /// Whether every server listens.
    pub(crate) fn all_open(&self) -> bool {
        self.unopened.load(Ordering::Acquire) == 0
    }

    /// A copy of every listener, for the next process.
    pub(crate) fn listener_fds(&self) -> std::io::Result<Vec<ListenerFd>> {
        self.listed()
            .iter()
            .map(|ListedListener { listener_fd, .. }| {
                Ok(ListenerFd {
                    name: listener_fd.name.clone(),
                    descriptor: listener_fd.descriptor.try_clone()?,
                    ours: listener_fd.ours,
                    file: listener_fd.file.clone(),
                })
            })
            .collect()
    }

    /// What the predecessor has given is its own until [`ListenerRegistry::predecessor_released`].
    /// It is to be spoken to over this channel.
    pub(crate) fn await_predecessor(&self, channel: impl Write + Send + 'static) {
        let _ = self.predecessor.set(Mutex::new(Some(Box::new(channel))));
    }

    /// Whether there is a predecessor that has not let go.
    pub(crate) fn awaiting_predecessor(&self) -> bool {
        self.predecessor.get().is_some() && !self.has_released.load(Ordering::Acquire)
    }

    /// Tells the predecessor that setup is done.
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

    fn with_channel(&self, talk: impl FnOnce(&mut Option<HandoffWriter>)) {
        if let Some(channel) = self.predecessor.get() {
            talk(&mut channel.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// What the predecessor gave us is ours.
    pub(crate) fn predecessor_released(&self) {
        self.has_released.store(true, Ordering::Release);
        self.with_channel(|channel| *channel = None);
        self.decided.open();
    }

    /// The predecessor goes on by itself.
    pub(crate) fn predecessor_gave_up(&self) {
        self.with_channel(|channel| *channel = None);
        self.decided.open();
    }

    /// Completes when it is known whose the listeners are. Cancel-safe.
    pub(super) async fn decided(&self) {
        if self.predecessor.get().is_some() {
            self.decided.wait().await;
        }
    }

    /// The listeners of these names live on in this process.
    pub(crate) fn handed_to(&self, pid: u32, names: BTreeSet<String>) {
        let _ = self.successor.set((pid, names));
        self.handed_over.open();
    }
}

/// A listener's tie to the other processes that know it; also its file. Dropped, the file is removed if it is ours.
pub(crate) struct ListenerRegistration {
    core: Arc<ServiceShared>,
    name: String,
    origin: Origin,
    file: Option<SocketFile>,
    /// Its number in the list for the next process.
    number: Option<u64>,
}

impl ListenerRegistration {
    pub(super) fn new(
        core: Arc<ServiceShared>,
        name: String,
        origin: Origin,
        file: Option<SocketFile>,
    ) -> Self {
        if matches!(origin, Origin::Predecessor { .. }) {
            let claimed = core.listeners().claimed.lock();
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
        let (Some(_), Ok(descriptor)) = (self.core.hard_exit.get(), descriptor) else {
            return;
        };
        let registry = &self.core.listeners();
        let number = registry.next.fetch_add(1, Ordering::Relaxed);
        registry.listed().push(ListedListener {
            number,
            listener_fd: ListenerFd {
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

    pub(crate) fn owner(&self) -> SocketOwner {
        let registry = &self.core.listeners();
        if let Some((pid, _)) = registry
            .successor
            .get()
            .filter(|(_, names)| names.contains(&self.name))
        {
            return SocketOwner::NewProcess(*pid);
        }
        match self.origin {
            Origin::Bound => SocketOwner::ThisProcess,
            Origin::Parent { .. } | Origin::Predecessor { ours: false, .. } => SocketOwner::Parent,
            Origin::Predecessor { .. } if registry.has_released.load(Ordering::Acquire) => {
                SocketOwner::ThisProcess
            }
            Origin::Predecessor { .. } => SocketOwner::OldProcess,
        }
    }

    /// Completes when it is known whose the listener is. Cancel-safe.
    pub(super) async fn decided(&self) {
        if matches!(self.origin, Origin::Predecessor { .. }) {
            self.core.listeners().decided().await;
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
        if self.owner() == SocketOwner::ThisProcess
            && let Some(file) = self.file.take()
        {
            // Gone already, or replaced: then there is nothing of ours to remove.
            let _ = file.remove();
        }
    }
}

impl Drop for ListenerRegistration {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.core
                .listeners()
                .listed()
                .retain(|listed| listed.number != number);
        }
        self.remove_file();
    }
}
