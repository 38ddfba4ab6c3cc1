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
///
/// Alone in its piece of the cache, which processors fetch in pairs of lines: whoever wrote beside it would slow down
/// every poll of the thread.
#[derive(Default)]
#[repr(align(128))]
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

/// Who had the seat before, to be given back by [`Outer::rise`].
///
/// Seats nest: a task polled inside another one's poll (a scope run by a task) gives the seat back.
#[must_use = "a seat that is not given back blames the wrong task"]
pub(crate) struct Outer {
    occupant: u64,
    shields: u32,
}

/// Begins a poll of the task `occupant` under `shields`. The poll must not unwind.
#[inline]
pub(crate) fn sit(occupant: u64, shields: u32) -> Outer {
    // Two short visits to the thread's locals, and no closure around the poll: the compiler would move the
    // poll and its result through every layer. If the thread is being torn down, its locals are gone and the
    // poll has no seat.
    let outer = HERE.try_with(|here| {
        let seat = here.seat.get().unwrap_or_else(|| make_seat(here));
        let outer = Outer {
            occupant: seat.occupant.load(Ordering::Relaxed),
            shields: here.shields.replace(shields),
        };
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
        outer
    });
    outer.unwrap_or(Outer {
        occupant: 0,
        shields,
    })
}

impl Outer {
    /// Ends the poll; gives the shields that are up now.
    #[inline]
    pub(crate) fn rise(self) -> u32 {
        let Self { occupant, shields } = self;
        let risen = HERE.try_with(|here| {
            if let Some(seat) = here.seat.get() {
                seat.occupant.store(occupant, Ordering::Release);
            }
            here.shields.replace(shields)
        });
        risen.unwrap_or(shields)
    }
}

#[cold]
fn make_seat(here: &Here) -> &Arc<Seat> {
    here.seat.get_or_init(register)
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
#[inline]
pub(crate) fn is_shielded() -> bool {
    HERE.try_with(|here| here.shields.get() > 0)
        .unwrap_or(false)
}
