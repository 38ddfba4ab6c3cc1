//! The connections of one server: who is there, woken when the tide turns, counted out when they are gone.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Waker};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// For want of descriptors, wait until one is free, or at most this long.
const BREATH: Duration = Duration::from_millis(250);

/// What a server must know of each of its connections.
pub(crate) trait Guest: Send + Sync {
    /// The tide has turned: look again.
    fn nudge(&self);

    /// What its own task is doing, and with whom; or one of its streams that has a task of its own.
    fn doing(&self, stream: Option<u64>) -> Option<Doing>;

    /// How many requests of it are under way.
    #[cfg(feature = "admin")]
    fn requests(&self) -> u64 {
        0
    }
}

/// What somebody does with a client.
pub(crate) struct Doing {
    pub(crate) what: String,
    /// With a preposition.
    pub(crate) with: String,
}

impl std::fmt::Display for Doing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.what, self.with)
    }
}

/// How busy a server is.
#[derive(Clone, Copy, Debug, Default)]
#[cfg(feature = "admin")]
pub(crate) struct Census {
    pub(crate) connections: u64,
    pub(crate) requests: u64,
}

/// A waker kept where others can reach it.
#[derive(Default)]
pub(crate) struct Bell {
    waker: Mutex<Option<Waker>>,
    /// Whether there is one; written under the lock.
    is_set: AtomicBool,
}

impl Bell {
    /// Rings for this task from now on.
    pub(crate) fn listen(&self, cx: &Context<'_>) {
        let mut waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        if !waker
            .as_ref()
            .is_some_and(|waker| waker.will_wake(cx.waker()))
        {
            *waker = Some(cx.waker().clone());
            self.is_set.store(true, Relaxed);
        }
    }

    /// The same, for a task that listened last, if any did.
    ///
    /// Who sees a waker that was just taken is about to be woken by it, and comes again: whoever rings does so after
    /// it has cleared the flag, and being woken orders the two.
    #[inline]
    pub(crate) fn listen_as_ever(&self, cx: &Context<'_>) {
        if !self.is_set.load(Relaxed) {
            self.listen(cx);
        }
    }

    pub(crate) fn ring(&self) {
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

#[derive(Default)]
struct Seats {
    /// With the number of the task that looks after each.
    taken: Vec<Option<(u64, Arc<dyn Guest>)>>,
    free: Vec<usize>,
    count: usize,
    /// Cut in a stop, with streams that may outlive them: one that blocks its thread does.
    cut: Vec<Weak<dyn Guest>>,
}

/// Everybody connected.
#[derive(Default)]
pub(crate) struct Crowd {
    seats: Mutex<Seats>,
    left: Notify,
}

impl Crowd {
    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn len(&self) -> usize {
        self.seats().count
    }

    /// Counts a connection in, which this task looks after. It is counted out by [`Crowd::leave`] with the number
    /// returned.
    pub(crate) fn enter(&self, task: u64, guest: Arc<dyn Guest>) -> usize {
        let mut seats = self.seats();
        seats.count += 1;
        match seats.free.pop() {
            Some(number) => {
                seats.taken[number] = Some((task, guest));
                number
            }
            None => {
                seats.taken.push(Some((task, guest)));
                seats.taken.len() - 1
            }
        }
    }

    pub(crate) fn leave(&self, number: usize) {
        let guest = {
            let mut seats = self.seats();
            let guest = seats.taken.get_mut(number).and_then(Option::take);
            if guest.is_some() {
                seats.count -= 1;
                seats.free.push(number);
            }
            guest
        };
        // Outside the lock: whatever its destructor does is not ours to wait for.
        if guest.is_some() {
            self.left.notify_waiters();
        }
    }

    /// Lets those who ask what streams do find one that is cut, for as long as any of its streams is there.
    #[cfg(feature = "http")]
    pub(crate) fn remember(&self, guest: Weak<dyn Guest>) {
        self.seats().cut.push(guest);
    }

    /// Completes when somebody leaves from now on, polled or not. Cancel-safe.
    pub(crate) fn somebody_leaves(&self) -> Notified<'_> {
        self.left.notified()
    }

    /// Completes when an accept that failed for want of descriptors may succeed. Cancel-safe.
    pub(crate) async fn breath(&self) {
        let _ = tokio::time::timeout(BREATH, self.somebody_leaves()).await;
    }

    /// Completes when nobody is there. Cancel-safe.
    pub(crate) async fn empty(&self) {
        loop {
            // Made before the look, so that a leave in between is not missed.
            let left = self.left.notified();
            if self.len() == 0 {
                return;
            }
            left.await;
        }
    }

    /// Counted when asked for, so that a request costs nobody a shared counter.
    #[cfg(feature = "admin")]
    pub(crate) fn census(&self) -> Census {
        let seats = self.seats();
        Census {
            connections: seats.count as u64,
            requests: seats
                .taken
                .iter()
                .flatten()
                .map(|(_, guest)| guest.requests())
                .sum(),
        }
    }

    /// What the connection, or the stream of one, that this task looks after is doing.
    pub(crate) fn doing(&self, task: u64) -> Option<Doing> {
        let seats = self.seats();
        let guests = || seats.taken.iter().flatten();
        match guests().find(|(its, _)| *its == task) {
            Some((_, guest)) => guest.doing(None),
            None => guests()
                .map(|(_, guest)| Arc::clone(guest))
                .chain(seats.cut.iter().filter_map(Weak::upgrade))
                .find_map(|guest| guest.doing(Some(task))),
        }
    }

    pub(crate) fn nudge_all(&self) {
        let guests: Vec<_> = self.seats().taken.iter().flatten().cloned().collect();
        for (_, guest) in guests {
            guest.nudge();
        }
    }
}
