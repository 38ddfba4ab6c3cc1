//! How many are alive, and whether more may come: one word, so that both are decided by one atomic operation.
//!
//! Every change of the word is an acquire and a release: what happened before a leave is seen by every thread that
//! finds the count at zero afterwards. The tests at the end try every interleaving, with loom.

#[cfg(all(test, loom))]
use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(all(test, loom)))]
use std::sync::atomic::{AtomicU64, Ordering};

/// Tell when the count reaches zero.
const WATCHED: u64 = 1;
/// Refuse newcomers whenever the count is zero.
const SEALS_AT_ZERO: u64 = 2;
/// Refuse newcomers.
const CLOSED: u64 = 4;
const ONE: u64 = 8;

/// The count, in steps of [`ONE`], with the flags in its low bits.
#[derive(Default)]
pub(crate) struct ActiveCount(AtomicU64);

/// What changed when a task left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Departure {
    /// Others are alive, or the count is not watched.
    Unremarkable,
    /// It was the last, and the count is watched.
    Idle,
    /// It was the last, and no task can enter any more.
    Sealed,
}

/// No task may enter any more.
#[derive(Debug)]
pub(crate) struct Refused;

impl ActiveCount {
    #[inline]
    pub(crate) fn enter(&self) -> Result<(), Refused> {
        // Compare-and-swap and not an addition that is undone: between the two, another one could slip in
        // after the seal.
        let enter = |now: u64| {
            let sealed = now & SEALS_AT_ZERO != 0 && now < ONE;
            (now & CLOSED == 0 && !sealed).then_some(now + ONE)
        };
        self.0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, enter)
            .map(drop)
            .map_err(|_| Refused)
    }

    #[inline]
    pub(crate) fn leave(&self) -> Departure {
        Self::left(self.0.fetch_sub(ONE, Ordering::AcqRel) - ONE)
    }

    /// Uncounts one whose leave has no waiter.
    pub(crate) fn forget(&self) {
        self.0.fetch_sub(ONE, Ordering::AcqRel);
    }

    const fn left(now: u64) -> Departure {
        if now >= ONE {
            Departure::Unremarkable
        } else if now & SEALS_AT_ZERO != 0 {
            Departure::Sealed
        } else if now & WATCHED != 0 {
            Departure::Idle
        } else {
            Departure::Unremarkable
        }
    }

    /// From now on the last to leave says so; says whether none is alive already.
    pub(crate) fn watch(&self) -> Departure {
        Self::left(self.0.fetch_or(WATCHED, Ordering::AcqRel) | WATCHED)
    }

    /// No task may enter from the first moment on at which none is alive.
    pub(crate) fn seal_when_idle(&self) -> Departure {
        Self::left(self.0.fetch_or(SEALS_AT_ZERO, Ordering::AcqRel) | SEALS_AT_ZERO)
    }

    /// No task may enter.
    pub(crate) fn close(&self) {
        self.0.fetch_or(CLOSED, Ordering::AcqRel);
    }

    /// Whether no task is alive at this moment.
    pub(crate) fn is_idle(&self) -> bool {
        self.0.load(Ordering::Acquire) < ONE
    }
}

#[cfg(all(test, loom))]
mod tests {
    use loom::sync::{Arc, Mutex};
    use loom::thread;

    use super::*;

    /// Runs `last` and two tasks that leave, in every interleaving; returns what each call returned.
    fn two_leave_and(last: fn(&ActiveCount) -> Departure) -> Vec<Departure> {
        let active = Arc::new(ActiveCount::default());
        let both: Vec<_> = (0..2)
            .map(|_| {
                active.enter().unwrap();
                let active = Arc::clone(&active);
                thread::spawn(move || active.leave())
            })
            .collect();
        let mut told = vec![last(&active)];
        told.extend(both.into_iter().map(|leaver| leaver.join().unwrap()));
        told
    }

    fn count(told: &[Departure], wanted: Departure) -> usize {
        told.iter().filter(|&&left| left == wanted).count()
    }

    #[test]
    fn exactly_one_says_that_it_is_idle() {
        loom::model(|| {
            assert_eq!(
                count(&two_leave_and(ActiveCount::watch), Departure::Idle),
                1
            )
        });
    }

    #[test]
    fn exactly_one_says_that_it_is_sealed() {
        loom::model(|| {
            assert_eq!(
                count(
                    &two_leave_and(ActiveCount::seal_when_idle),
                    Departure::Sealed
                ),
                1
            )
        });
    }

    #[test]
    fn no_task_enters_after_the_seal_and_its_reporter_sees_all_work() {
        loom::model(|| {
            let active = Arc::new(ActiveCount::default());
            // Relaxed: only the active makes one worker's effects visible to another.
            let done = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
            active.enter().unwrap();
            let (theirs, effects) = (Arc::clone(&active), Arc::clone(&done));
            let first = thread::spawn(move || work(0, &theirs, &effects));
            let (theirs, effects) = (Arc::clone(&active), Arc::clone(&done));
            let second = thread::spawn(move || match theirs.enter() {
                Ok(()) => (1, work(1, &theirs, &effects)),
                Err(Refused) => (0, None),
            });
            let mine = seen(active.seal_when_idle(), &active, &done);
            let first = first.join().unwrap();
            let (came, second) = second.join().unwrap();
            let seen: Vec<_> = [mine, first, second].into_iter().flatten().collect();
            assert_eq!(seen, [1 + came]);
        });
    }

    fn work(number: usize, active: &ActiveCount, done: &[AtomicU64; 2]) -> Option<u64> {
        done[number].store(1, Ordering::Relaxed);
        seen(active.leave(), active, done)
    }

    /// How much work the one who has sealed sees.
    fn seen(left: Departure, active: &ActiveCount, done: &[AtomicU64; 2]) -> Option<u64> {
        (left == Departure::Sealed).then(|| {
            // First, because the look at the active would make them visible as well.
            let seen = done.iter().map(|done| done.load(Ordering::Relaxed)).sum();
            assert!(active.is_idle() && active.enter().is_err());
            seen
        })
    }

    /// The registry's protocol around the active, for one shard: the active has a share of it while it counts
    /// a task; counted and listed at once; unlisted first, then uncounted.
    #[derive(Default)]
    struct TaskRegistry {
        active: ActiveCount,
        shard: Mutex<Shard>,
    }

    #[derive(Default)]
    struct Shard {
        is_closed: bool,
        count: u64,
        /// For each listed task, whether it has a waiter.
        listed: [Option<bool>; 2],
    }

    impl TaskRegistry {
        fn enter(&self, number: usize) -> Result<(), Refused> {
            let mut shard = self.shard.lock().unwrap();
            if shard.is_closed {
                return Err(Refused);
            }
            if shard.count == 0 {
                self.active.enter()?;
            }
            shard.count += 1;
            shard.listed[number] = Some(true);
            Ok(())
        }

        fn leave(&self, number: usize) -> Departure {
            let gone = self.shard.lock().unwrap().listed[number].take();
            match gone {
                Some(true) => self.uncount(),
                _ => Departure::Unremarkable,
            }
        }

        fn uncount(&self) -> Departure {
            let mut shard = self.shard.lock().unwrap();
            shard.count -= 1;
            match shard.count {
                0 => self.active.leave(),
                _ => Departure::Unremarkable,
            }
        }

        /// Closes, abandons who is listed, and seals.
        fn seal(&self) -> Departure {
            self.active.close();
            self.shard.lock().unwrap().is_closed = true;
            let mut shard = self.shard.lock().unwrap();
            let waited_for = shard.listed.iter_mut().flatten();
            let abandoned = waited_for.map(|waits| u64::from(std::mem::take(waits)));
            let abandoned: u64 = abandoned.sum();
            shard.count -= abandoned;
            if abandoned > 0 && shard.count == 0 {
                self.active.forget();
            }
            drop(shard);
            self.active.seal_when_idle()
        }
    }

    #[test]
    fn the_seal_is_reported_although_a_task_enters_and_hangs() {
        loom::model(|| {
            let registry = Arc::new(TaskRegistry::default());
            let theirs = Arc::clone(&registry);
            let comer = thread::spawn(move || theirs.enter(0).is_ok());
            assert_eq!(registry.seal(), Departure::Sealed);
            comer.join().unwrap();
            assert!(registry.active.is_idle());
        });
    }

    #[test]
    fn a_task_that_leaves_while_being_abandoned_is_uncounted_once() {
        loom::model(|| {
            let registry = Arc::new(TaskRegistry::default());
            registry.enter(0).unwrap();
            let theirs = Arc::clone(&registry);
            let leaver = thread::spawn(move || theirs.leave(0));
            let told = [registry.seal(), leaver.join().unwrap()];
            assert!(told.contains(&Departure::Sealed));
            assert!(registry.active.is_idle());
        });
    }

    #[test]
    fn a_shard_that_empties_while_another_comes_is_counted_right() {
        loom::model(|| {
            let registry = Arc::new(TaskRegistry::default());
            registry.enter(0).unwrap();
            let theirs = Arc::clone(&registry);
            let comer = thread::spawn(move || match theirs.enter(1) {
                Ok(()) => theirs.leave(1),
                Err(Refused) => Departure::Unremarkable,
            });
            let theirs = Arc::clone(&registry);
            let leaver = thread::spawn(move || theirs.leave(0));
            let mut told = vec![registry.active.seal_when_idle()];
            told.extend([comer.join().unwrap(), leaver.join().unwrap()]);
            assert_eq!(count(&told, Departure::Sealed), 1);
            assert!(registry.active.is_idle() && registry.enter(1).is_err());
        });
    }
}
