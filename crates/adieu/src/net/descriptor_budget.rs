//! How many connections the process has file descriptors for.
//!
//! One bound for all servers of a service, below the process's limit of open files: what is left is for the files and
//! database connections of the program itself, which would fail otherwise when clients have taken every descriptor.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::connections::{Candidate, ConnectionRegistry};
use super::os;
use super::server::Server;

/// One descriptor in so many of those that are free when the first server begins to listen is kept for the program.
const RESERVED_SHARE: usize = 8;

#[derive(Default)]
pub(crate) struct DescriptorBudget {
    /// Whether the soft limit may be raised to the hard one, and was not yet.
    may_raise: AtomicBool,
    max: OnceLock<usize>,
    taken: AtomicUsize,
    /// How many accept loops have a client at hand and no descriptor for it.
    waiting: AtomicUsize,
    /// How many connections were asked to make room, and have neither refused nor gone. One at a time.
    evicting: AtomicUsize,
    /// Notified when a connection has left, or has become idle while an accept loop waits for it.
    changed: Notify,
    servers: Mutex<Vec<Weak<Server>>>,
}

impl DescriptorBudget {
    /// Lets the first listener raise the process's soft limit of open files to the hard one.
    #[cfg(unix)]
    pub(crate) fn allow_raising_limit(&self) {
        self.may_raise.store(true, Ordering::Relaxed);
    }

    /// Does so, once.
    pub(super) fn raise_limit(&self) {
        if self.may_raise.swap(false, Ordering::Relaxed) {
            os::raise_descriptor_limit();
        }
    }

    /// Counts what is free, when the first server begins to listen: by then `setup` has opened its files.
    pub(super) fn add_server(&self, server: Weak<Server>) {
        self.max.get_or_init(|| {
            os::descriptor_limit().map_or(usize::MAX, |limit| {
                connections_within(limit, os::open_descriptors())
            })
        });
        let mut servers = self.servers();
        servers.retain(|server| server.strong_count() > 0);
        servers.push(server);
    }

    fn servers(&self) -> MutexGuard<'_, Vec<Weak<Server>>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn acquire(&self) {
        self.taken.fetch_add(1, Ordering::SeqCst);
    }

    /// A connection has left, as it was asked to or by itself.
    pub(super) fn release(&self, was_asked: bool) {
        self.taken.fetch_sub(1, Ordering::SeqCst);
        if was_asked {
            self.evicting.fetch_sub(1, Ordering::SeqCst);
        }
        self.notify();
    }

    /// A connection was asked to make room, and is not idle any more.
    #[cfg(feature = "http")]
    pub(super) fn eviction_declined(&self) {
        self.evicting.fetch_sub(1, Ordering::SeqCst);
        self.notify();
    }

    pub(super) fn is_full(&self) -> bool {
        let max = self.max.get().copied().unwrap_or(usize::MAX);
        self.taken.load(Ordering::SeqCst) >= max
    }

    /// Wakes the accept loops that wait for a place.
    pub(super) fn notify(&self) {
        self.changed.notify_waiters();
    }

    /// Completes at the next change from now on, polled or not. Cancel-safe.
    pub(super) fn changes(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Whether an accept loop waits for a descriptor.
    #[cfg(feature = "http")]
    pub(super) fn has_waiters(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }

    /// An accept loop waits for a descriptor until this is dropped.
    pub(super) fn wait(&self) -> WaitingForDescriptor<'_> {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        WaitingForDescriptor(self)
    }

    /// Asks the longest idle connection of all servers to leave, if any is idle.
    pub(super) fn evict_longest_idle(&self) {
        let servers: Vec<_> = self.servers().iter().filter_map(Weak::upgrade).collect();
        let candidates = servers
            .iter()
            .filter_map(|server| Some((&server.connections, server.connections.longest_idle()?)));
        self.evict(candidates.max_by_key(|(_, candidate)| candidate.idle));
    }

    /// Asks this connection, unless one is leaving already: the next is asked when it has left, if it must be.
    pub(super) fn evict(&self, candidate: Option<(&ConnectionRegistry, Candidate)>) {
        let Some((connections, candidate)) = candidate else {
            return;
        };
        let is_first = self.evicting.fetch_add(1, Ordering::SeqCst) == 0;
        if !(is_first && connections.evict(candidate)) {
            self.evicting.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

pub(super) struct WaitingForDescriptor<'room>(&'room DescriptorBudget);

impl Drop for WaitingForDescriptor<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

/// How many connections fit under a limit of descriptors, with so many of them open already.
fn connections_within(limit: usize, open: usize) -> usize {
    let free = limit.saturating_sub(open);
    (free - free / RESERVED_SHARE).max(1)
}

#[cfg(test)]
mod tests {
    use super::connections_within;

    #[test]
    fn an_eighth_of_what_is_free_is_kept_for_the_program() {
        assert_eq!(connections_within(1_024, 24), 875);
        assert_eq!(connections_within(256, 24), 203);
        assert_eq!(
            connections_within(usize::MAX, 24),
            usize::MAX - 24 - (usize::MAX - 24) / 8
        );
        // However few there are, the server serves.
        assert_eq!(connections_within(16, 20), 1);
    }
}
