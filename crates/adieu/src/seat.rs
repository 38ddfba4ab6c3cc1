//! Which task sits on which thread: written by every poll, read by the watchdog and by blame.
//!
//! A poll writes two words of its own thread's seat with plain stores; no clock is read and nothing is
//! shared, so the cost is a few nanoseconds. Whoever wants to know how long a poll takes looks twice: the
//! same turn number both times means the same poll.

use std::cell::{Cell, OnceCell};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::Thread;

/// What other threads may read of a thread's seat.
#[derive(Default)]
pub(crate) struct Seat {
    /// The task being polled, 0 if none.
    occupant: AtomicU64,
    /// Counts polls. Only the owner writes.
    turn: AtomicU64,
}

/// One look at a seat.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Glance {
    pub(crate) occupant: u64,
    pub(crate) turn: u64,
}

impl Seat {
    pub(crate) fn glance(&self) -> Glance {
        // Turn first: if the poll changes between the loads, the pair differs from the one seen before.
        let turn = self.turn.load(Ordering::Acquire);
        Glance {
            occupant: self.occupant.load(Ordering::Acquire),
            turn,
        }
    }
}

struct Here {
    seat: OnceCell<Arc<Seat>>,
    shields: Cell<u32>,
}

thread_local! {
    static HERE: Here = const { Here { seat: OnceCell::new(), shields: Cell::new(0) } };
}

static SEATS: Mutex<Vec<Weak<Seat>>> = Mutex::new(Vec::new());

/// Set while a watchdog sleeps without a time limit; the next poll wakes it.
static DOZING: AtomicBool = AtomicBool::new(false);
static WATCHERS: Mutex<Vec<Thread>> = Mutex::new(Vec::new());

fn register() -> Arc<Seat> {
    let seat = Arc::new(Seat::default());
    let mut seats = SEATS.lock().unwrap_or_else(PoisonError::into_inner);
    seats.retain(|seat| seat.strong_count() > 0);
    seats.push(Arc::downgrade(&seat));
    seat
}

/// All seats of living threads.
pub(crate) fn seats() -> Vec<Arc<Seat>> {
    SEATS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .iter()
        .filter_map(Weak::upgrade)
        .collect()
}

/// The tasks being polled at this moment.
pub(crate) fn occupants() -> Vec<u64> {
    seats()
        .iter()
        .map(|seat| seat.glance().occupant)
        .filter(|&occupant| occupant != 0)
        .collect()
}

/// Runs one poll of the task `occupant` under `shields`; gives the result and the shields afterwards.
///
/// Seats nest: a task polled inside another one's poll (a scope run by a task) gives the seat back.
pub(crate) fn occupy<T>(occupant: u64, shields: u32, poll: impl FnOnce() -> T) -> (T, u32) {
    let mut poll = Some(poll);
    let seated = HERE.try_with(|here| {
        let seat = here.seat.get_or_init(register);
        let outer = seat.occupant.load(Ordering::Relaxed);
        let outer_shields = here.shields.replace(shields);
        seat.turn.store(
            seat.turn.load(Ordering::Relaxed).wrapping_add(1),
            Ordering::Release,
        );
        seat.occupant.store(occupant, Ordering::Release);
        // Not ordered after the store above: a watchdog going to sleep looks again a whole period after it
        // has said so, and no store stays unseen that long.
        if DOZING.load(Ordering::Relaxed) {
            wake_watchers();
        }
        let result = poll.take().map(|poll| poll());
        seat.occupant.store(outer, Ordering::Release);
        (result, here.shields.replace(outer_shields))
    });
    match (seated, poll.take()) {
        (Ok((Some(result), shields)), _) => (result, shields),
        // The thread is being torn down and its locals are gone: poll without a seat.
        (_, Some(poll)) => (poll(), shields),
        (_, None) => unreachable!("the poll either ran or is still there"),
    }
}

#[cold]
fn wake_watchers() {
    if DOZING.swap(false, Ordering::AcqRel) {
        for watcher in WATCHERS
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
        {
            watcher.unpark();
        }
    }
}

/// From now on the calling thread is unparked by the first poll after [`doze`].
pub(crate) fn watch() {
    WATCHERS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(std::thread::current());
}

/// The calling thread watches no more.
pub(crate) fn unwatch() {
    let me = std::thread::current().id();
    WATCHERS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .retain(|watcher| watcher.id() != me);
}

/// Asks for a wake-up at the next poll.
pub(crate) fn doze() {
    DOZING.store(true, Ordering::Release);
}

/// Shields the task being polled: it is not cut while a shield is up.
pub(crate) fn raise_shield() {
    let _ = HERE.try_with(|here| here.shields.set(here.shields.get() + 1));
}

/// Lowers a shield.
pub(crate) fn lower_shield() {
    let _ = HERE.try_with(|here| here.shields.set(here.shields.get().saturating_sub(1)));
}

/// Whether the task being polled is under a shield.
pub(crate) fn is_shielded() -> bool {
    HERE.try_with(|here| here.shields.get() > 0)
        .unwrap_or(false)
}
