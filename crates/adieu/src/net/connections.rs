//! The connections of one server: registered at their accept, woken when the drain stage changes, removed when closed.

use std::cmp::Reverse;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// After an accept that failed for want of descriptors: how long to wait for one, if no connection closes before.
pub(crate) const DESCRIPTOR_WAIT: Duration = Duration::from_millis(250);

/// What a server must know of each of its connections.
pub(crate) trait ManagedConnection: Send + Sync {
    /// The drain stage has changed: look again.
    fn wake(&self);

    /// What its own task is doing, and with whom; or one of its streams that has a task of its own.
    fn activity(&self, stream: Option<u64>) -> Option<Activity>;

    /// How long it has had no request in flight, if it may be closed to make room for another. The longest goes first.
    fn idle(&self) -> Option<u64> {
        None
    }

    /// It is to be closed to make room, if it is still idle at its next look.
    fn request_eviction(&self) {}

    /// Whether it was asked to, and has neither refused nor gone.
    fn is_being_evicted(&self) -> bool {
        false
    }

    /// How many requests of it are in flight.
    #[cfg(feature = "admin")]
    fn requests(&self) -> u64 {
        0
    }
}

/// What a task does for a client.
pub(crate) struct Activity {
    pub(crate) what: String,
    /// The client, with a preposition before it: `from 10.0.0.7:41000`.
    pub(crate) with: String,
}

impl std::fmt::Display for Activity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.what, self.with)
    }
}

/// How busy a server is.
#[derive(Clone, Copy, Debug, Default)]
#[cfg(feature = "admin")]
pub(crate) struct ServerStats {
    pub(crate) connections: u64,
    pub(crate) requests: u64,
}

/// A waker kept where others can reach it.
#[derive(Default)]
pub(crate) struct WakerCell {
    waker: Mutex<Option<Waker>>,
    /// Whether there is one; written under the lock.
    is_set: AtomicBool,
}

impl WakerCell {
    /// Wakes this task from now on.
    pub(crate) fn register(&self, cx: &Context<'_>) {
        let mut waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        if !waker
            .as_ref()
            .is_some_and(|waker| waker.will_wake(cx.waker()))
        {
            *waker = Some(cx.waker().clone());
            self.is_set.store(true, Relaxed);
        }
    }

    /// Registers this task unless a waker is there: for a caller that is always this one task.
    ///
    /// A task that sees a waker that was just taken is about to be woken by it, and polls again: `wake` wakes after it
    /// has cleared the flag, and being woken orders the two.
    #[inline]
    pub(crate) fn register_if_unset(&self, cx: &Context<'_>) {
        if !self.is_set.load(Relaxed) {
            self.register(cx);
        }
    }

    pub(crate) fn wake(&self) {
        let waker = {
            let mut waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
            self.is_set.store(false, Relaxed);
            waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

#[derive(Clone)]
struct Registered {
    /// The task that looks after it.
    task: u64,
    /// How many were registered before it.
    order: u64,
    connection: Arc<dyn ManagedConnection>,
}

#[derive(Default)]
struct Slots {
    used: Vec<Option<Registered>>,
    free: Vec<usize>,
    count: usize,
    /// How many were ever registered.
    registered: u64,
    /// Cut in a stop, with streams that may outlive them: one that blocks its thread does.
    cut: Vec<Weak<dyn ManagedConnection>>,
}

/// A connection that may be closed to make room for another.
pub(super) struct Candidate {
    pub(super) idle: u64,
    number: usize,
    connection: Arc<dyn ManagedConnection>,
}

/// The open connections.
#[derive(Default)]
pub(crate) struct ConnectionRegistry {
    slots: Mutex<Slots>,
    closed: Notify,
}

impl ConnectionRegistry {
    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn len(&self) -> usize {
        self.slots().count
    }

    /// Counts a connection in, which this task looks after. It is counted out by [`ConnectionRegistry::remove`] with the number
    /// returned.
    pub(crate) fn insert(&self, task: u64, connection: Arc<dyn ManagedConnection>) -> usize {
        let mut slots = self.slots();
        let registered = Registered {
            task,
            order: slots.registered,
            connection,
        };
        slots.registered += 1;
        slots.count += 1;
        match slots.free.pop() {
            Some(number) => {
                slots.used[number] = Some(registered);
                number
            }
            None => {
                slots.used.push(Some(registered));
                slots.used.len() - 1
            }
        }
    }

    /// Whether it goes because it was asked to make room.
    pub(crate) fn remove(&self, number: usize) -> bool {
        let connection = {
            let mut slots = self.slots();
            let connection = slots.used.get_mut(number).and_then(Option::take);
            if connection.is_some() {
                slots.count -= 1;
                slots.free.push(number);
            }
            connection
        };
        // Outside the lock: whatever its destructor does is not ours to wait for.
        let was_evicted = connection
            .as_ref()
            .is_some_and(|its| its.connection.is_being_evicted());
        if connection.is_some() {
            self.closed.notify_waiters();
        }
        was_evicted
    }

    /// Lets [`ConnectionRegistry::activity`] find a connection that is cut, for as long as any of its streams is there.
    #[cfg(feature = "http")]
    pub(crate) fn keep_for_streams(&self, connection: Weak<dyn ManagedConnection>) {
        self.slots().cut.push(connection);
    }

    /// The connection that has been idle for the longest, if any is. Of those that have been so for the same time, the one
    /// that was accepted first: the client of the last may be about to send its request.
    pub(super) fn longest_idle(&self) -> Option<Candidate> {
        let slots = self.slots();
        let used = slots.used.iter().enumerate();
        let idle = used.filter_map(|(number, slot)| {
            let registered = slot.as_ref()?;
            Some((registered.connection.idle()?, number, registered))
        });
        let (idle, number, registered) =
            idle.max_by_key(|(idle, _, registered)| (*idle, Reverse(registered.order)))?;
        Some(Candidate {
            idle,
            number,
            connection: Arc::clone(&registered.connection),
        })
    }

    /// Asks a connection to make room. Not if it has left meanwhile.
    pub(super) fn evict(
        &self,
        Candidate {
            number, connection, ..
        }: Candidate,
    ) -> bool {
        let is_there = {
            let slots = self.slots();
            let slot = slots.used.get(number).and_then(Option::as_ref);
            let is_there = slot.is_some_and(|its| Arc::ptr_eq(&its.connection, &connection));
            if is_there {
                // Under the lock: `remove` after it sees that it was asked.
                connection.request_eviction();
            }
            is_there
        };
        if is_there {
            connection.wake();
        }
        is_there
    }

    /// Completes when a connection closes from now on, polled or not. Cancel-safe.
    pub(crate) fn next_close(&self) -> Notified<'_> {
        self.closed.notified()
    }

    /// Completes when an accept that failed for want of descriptors may succeed. Cancel-safe.
    pub(crate) async fn wait_for_descriptor(&self) {
        let _ = tokio::time::timeout(DESCRIPTOR_WAIT, self.next_close()).await;
    }

    /// Completes when no connection is open. Cancel-safe.
    pub(crate) async fn all_closed(&self) {
        loop {
            // Made before the look, so that a leave in between is not missed.
            let closed = self.closed.notified();
            if self.len() == 0 {
                return;
            }
            closed.await;
        }
    }

    /// Counted when asked for, so that a request costs no shared counter.
    #[cfg(feature = "admin")]
    pub(crate) fn stats(&self) -> ServerStats {
        let slots = self.slots();
        ServerStats {
            connections: slots.count as u64,
            requests: slots
                .used
                .iter()
                .flatten()
                .map(|registered| registered.connection.requests())
                .sum(),
        }
    }

    /// What the connection, or the stream of one, that this task looks after is doing.
    pub(crate) fn activity(&self, task: u64) -> Option<Activity> {
        let slots = self.slots();
        let connections = || slots.used.iter().flatten();
        match connections().find(|its| its.task == task) {
            Some(its) => its.connection.activity(None),
            None => connections()
                .map(|registered| Arc::clone(&registered.connection))
                .chain(slots.cut.iter().filter_map(Weak::upgrade))
                .find_map(|connection| connection.activity(Some(task))),
        }
    }

    pub(crate) fn wake_all(&self) {
        let registered: Vec<_> = self.slots().used.iter().flatten().cloned().collect();
        for Registered { connection, .. } in registered {
            connection.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct IdleFor(u64);

    impl ManagedConnection for IdleFor {
        fn wake(&self) {}

        fn activity(&self, _: Option<u64>) -> Option<Activity> {
            None
        }

        fn idle(&self) -> Option<u64> {
            Some(self.0)
        }
    }

    #[test]
    fn of_connections_idle_for_as_long_the_first_makes_room() {
        let registry = ConnectionRegistry::default();
        let insert = |idle| registry.insert(0, Arc::new(IdleFor(idle)));
        let (gone, first) = (insert(3), insert(3));
        insert(3);
        registry.remove(gone);
        assert_eq!(insert(3), gone, "the place is given again");
        let longest = || registry.longest_idle().expect("an idle connection").number;
        assert_eq!(longest(), first);
        let longer = insert(4);
        assert_eq!(longest(), longer);
    }
}
