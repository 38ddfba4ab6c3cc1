//! Which task is being polled on which thread: written by every poll, read by the watchdog and by the report.
//!
//! A poll writes two words of its own thread's slot with plain stores; no clock is read and nothing is
//! shared, so the cost is a few nanoseconds. The watchdog samples a slot twice to know how long a poll takes: the
//! same turn number both times means the same poll.

use std::cell::{Cell, OnceCell};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::Thread;

/// What other threads may read of a thread's slot.
///
/// Alone in its piece of the cache, which processors fetch in pairs of lines: a write beside it would slow down
/// every poll of the thread.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct PollSlot {
    /// The task being polled, 0 if none.
    task: AtomicU64,
    /// Counts polls. Only the owner writes.
    turn: AtomicU64,
}

/// One look at a slot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) task: u64,
    pub(crate) turn: u64,
}

impl PollSlot {
    pub(crate) fn sample(&self) -> Sample {
        // Turn first: if the poll changes between the loads, the pair differs from the one seen before.
        let turn = self.turn.load(Ordering::Acquire);
        Sample {
            task: self.task.load(Ordering::Acquire),
            turn,
        }
    }
}

struct Here {
    slot: OnceCell<Arc<PollSlot>>,
    shields: Cell<u32>,
}

thread_local! {
    static HERE: Here = const { Here { slot: OnceCell::new(), shields: Cell::new(0) } };
}

static SLOTS: Mutex<Vec<Weak<PollSlot>>> = Mutex::new(Vec::new());

/// Set while a watchdog sleeps without a time limit; the next poll wakes it.
static WATCHDOG_PARKED: AtomicBool = AtomicBool::new(false);
static WATCHERS: Mutex<Vec<Thread>> = Mutex::new(Vec::new());

fn register() -> Arc<PollSlot> {
    let slot = Arc::new(PollSlot::default());
    let mut slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner);
    slots.retain(|slot| slot.strong_count() > 0);
    slots.push(Arc::downgrade(&slot));
    slot
}

/// All slots of living threads.
pub(crate) fn slots() -> Vec<Arc<PollSlot>> {
    SLOTS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .iter()
        .filter_map(Weak::upgrade)
        .collect()
}

/// The tasks being polled at this moment.
pub(crate) fn polled_tasks() -> Vec<u64> {
    slots()
        .iter()
        .map(|slot| slot.sample().task)
        .filter(|&task| task != 0)
        .collect()
}

/// Who had the slot before, to be given back by [`PollGuard::exit`].
///
/// Polls nest: a task polled inside another one's poll (a scope run by a task) gives the slot back.
#[must_use = "a slot that is not given back blames the wrong task"]
pub(crate) struct PollGuard {
    task: u64,
    shields: u32,
}

/// Begins a poll of the task `task` under `shields`. The poll must not unwind.
#[inline]
pub(crate) fn enter(task: u64, shields: u32) -> PollGuard {
    // Two short visits to the thread's locals, and no closure around the poll: the compiler would move the
    // poll and its result through every layer. If the thread is being torn down, its locals are gone and the
    // poll has no slot.
    let outer = HERE.try_with(|here| {
        let slot = here.slot.get().unwrap_or_else(|| make_slot(here));
        let outer = PollGuard {
            task: slot.task.load(Ordering::Relaxed),
            shields: here.shields.replace(shields),
        };
        slot.turn.store(
            slot.turn.load(Ordering::Relaxed).wrapping_add(1),
            Ordering::Release,
        );
        slot.task.store(task, Ordering::Release);
        // Not ordered after the store above: a watchdog going to sleep looks again a whole period after it
        // has said so, and no store stays unseen that long.
        if WATCHDOG_PARKED.load(Ordering::Relaxed) {
            wake_watchers();
        }
        outer
    });
    outer.unwrap_or(PollGuard { task: 0, shields })
}

impl PollGuard {
    /// Ends the poll; gives the shields that are up now.
    #[inline]
    pub(crate) fn exit(self) -> u32 {
        let Self { task, shields } = self;
        let risen = HERE.try_with(|here| {
            if let Some(slot) = here.slot.get() {
                slot.task.store(task, Ordering::Release);
            }
            here.shields.replace(shields)
        });
        risen.unwrap_or(shields)
    }
}

#[cold]
fn make_slot(here: &Here) -> &Arc<PollSlot> {
    here.slot.get_or_init(register)
}

#[cold]
fn wake_watchers() {
    if WATCHDOG_PARKED.swap(false, Ordering::AcqRel) {
        for watcher in WATCHERS
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
        {
            watcher.unpark();
        }
    }
}

/// From now on the calling thread is unparked by the first poll after [`park_watchdog`].
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
pub(crate) fn park_watchdog() {
    WATCHDOG_PARKED.store(true, Ordering::Release);
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
