//! The roster: every tracked task that is alive, with its name and the place it was spawned at.
//!
//! Invariants:
//! - A shard counts its living tasks that are not abandoned. `tally` counts the shards that have such a task, and
//!   decides whether the first one of a shard may start: the word that all threads share changes when a shard
//!   fills or empties, not with every task.
//! - A task enters (counted and listed at once) before it can run, and leaves (unlisted first, then uncounted)
//!   after its future is dropped. So whoever sees the tally at zero sees every effect of the work.
//! - Locks: a shard's lock is held for a few instructions, never while user code runs and never two at once. The
//!   tally is changed under it, so that a shard's count and its share in the tally never disagree.

use std::borrow::Cow;
use std::cell::Cell;
use std::panic::Location;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use crate::lifecycle::PartId;
use crate::shard::{Listed, Shard};
use crate::sys;
use crate::tally::Tally;

pub(crate) use crate::tally::Left;

/// What runs: decides how it is told to stop and what can be said of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum WorkKind {
    Task,
    Blocking,
    /// A connection of a server, which names by itself what was cut with it.
    #[cfg(feature = "net")]
    Connection,
}

/// A task about to be listed.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: Cow<'static, str>,
    pub(crate) place: &'static Location<'static>,
    pub(crate) kind: WorkKind,
    /// The part this task is, if it is one by itself.
    pub(crate) part: Option<PartId>,
}

/// What is left of a task that is not listed any more.
pub(crate) struct Gone {
    pub(crate) part: Option<PartId>,
    /// Nobody waited for it any more: it is not counted.
    pub(crate) abandoned: bool,
}

/// Where a task stands in the roster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) shard: u16,
    pub(crate) index: u32,
}

impl Place {
    /// The place in an id.
    #[inline]
    pub(crate) const fn of_id(id: u64) -> Self {
        let [index, shard] = [id as u32, (id >> 32) as u32];
        Self {
            shard: shard as u16,
            index: index.wrapping_sub(1),
        }
    }
}

/// What somebody else may know of a living task.
pub(crate) struct Sighting {
    pub(crate) id: u64,
    pub(crate) name: Cow<'static, str>,
    pub(crate) place: &'static Location<'static>,
    pub(crate) age: Duration,
    pub(crate) part: Option<PartId>,
    pub(crate) kind: WorkKind,
}

/// A shard on a cache line of its own, so that threads do not slow each other down.
#[repr(align(128))]
#[derive(Default)]
struct Aligned(Mutex<Shard>);

impl Aligned {
    #[inline]
    fn lock(&self) -> MutexGuard<'_, Shard> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// In this order: the tally changes often; what is only read must not be on the same cache line.
#[repr(C)]
pub(crate) struct Roster {
    tally: Tally,
    _gap: [u64; 8],
    /// Which roster this is, among all in the process; makes task ids unique.
    number: u16,
    shards: Box<[Aligned]>,
}

impl Roster {
    /// For a runtime with so many threads.
    pub(crate) fn new(threads: usize) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let shards = (threads * 4).next_power_of_two().min(256);
        Self {
            number: u16::try_from(NUMBER.fetch_add(1, Ordering::Relaxed) & 0xffff).unwrap_or(0),
            tally: Tally::default(),
            _gap: [0; 8],
            shards: (0..shards).map(|_| Aligned::default()).collect(),
        }
    }

    /// A number for this task that no other living task in the process has, and that is not 0.
    #[inline]
    pub(crate) fn id(&self, place: Place) -> u64 {
        (u64::from(self.number) << 48)
            | (u64::from(place.shard) << 32)
            | (u64::from(place.index) + 1)
    }

    /// A number as unique as [`Roster::id`], for something that is not on the roster.
    pub(crate) fn reserved_id(&self, number: u32) -> u64 {
        self.id(Place {
            shard: u16::MAX,
            index: number,
        })
    }

    /// Counts and lists a task. If no work may start, gives back its name.
    #[inline(always)]
    pub(crate) fn enter(&self, entry: Entry) -> Result<Place, Cow<'static, str>> {
        let shard = next_shard(self.shards.len());
        let now = sys::coarse_now();
        let mut tasks = self.shards[shard].lock();
        if tasks.is_closed() || (tasks.count == 0 && self.tally.enter().is_err()) {
            return Err(entry.name);
        }
        tasks.count += 1;
        Ok(Place {
            shard: u16::try_from(shard).unwrap_or(0),
            index: tasks.insert(entry, now),
        })
    }

    /// Whether nobody is alive at this moment, except for the abandoned.
    pub(crate) fn is_idle(&self) -> bool {
        self.tally.is_idle()
    }

    /// Unlists a task. Unless it was abandoned, [`Roster::uncount`] follows.
    pub(crate) fn leave(&self, place: Place) -> Option<Gone> {
        let (gone, waker) = self.shard(place).remove(place.index)?;
        // What the drop of a waker does is not ours to know.
        drop(waker);
        Some(gone)
    }

    /// The second half of leaving, after what the task's end means has been said.
    pub(crate) fn uncount(&self, place: Place) -> Left {
        self.uncount_in(&mut self.shard(place))
    }

    /// Both halves at once, if the task is no part: then its good end means nothing to anybody but the count.
    #[inline]
    pub(crate) fn depart(&self, place: Place) -> Option<(Gone, Left)> {
        let mut shard = self.shard(place);
        let (gone, waker) = shard.remove(place.index)?;
        let left = if gone.part.is_some() || gone.abandoned {
            Left::Unremarkable
        } else {
            self.uncount_in(&mut shard)
        };
        drop(shard);
        drop(waker);
        Some((gone, left))
    }

    #[inline]
    fn uncount_in(&self, shard: &mut Shard) -> Left {
        shard.count -= 1;
        if shard.count == 0 {
            self.tally.leave()
        } else {
            Left::Unremarkable
        }
    }

    #[inline]
    fn shard(&self, place: Place) -> MutexGuard<'_, Shard> {
        self.shards[usize::from(place.shard)].lock()
    }

    /// From now on the last to leave says so; says whether nobody is there already.
    pub(crate) fn watch(&self) -> Left {
        self.tally.watch()
    }

    /// No new work from the first moment on at which none is alive.
    pub(crate) fn seal_when_idle(&self) -> Left {
        self.tally.seal_when_idle()
    }

    /// How many tasks are alive, those left behind not counted.
    #[cfg(feature = "admin")]
    pub(crate) fn alive(&self) -> u64 {
        let counts = self.shards.iter().map(|shard| shard.lock().count);
        counts.map(u64::from).sum()
    }

    /// No new work.
    ///
    /// Each shard is closed as well: it asks the tally for its first task only.
    pub(crate) fn close(&self) {
        self.tally.close();
        for shard in &self.shards {
            shard.lock().close();
        }
    }

    /// Remembers how to wake a task that waits, so that it can be cancelled.
    pub(crate) fn set_waker(&self, place: Place, waker: &Waker) {
        self.shard(place).set_waker(place.index, waker);
    }

    /// Wakes every waiting task. The wakers are called outside the lock, a chunk at a time.
    pub(crate) fn wake_all(&self) {
        for shard in &self.shards {
            for chunk in 0.. {
                let Some(wakers) = shard.lock().wakers(chunk) else {
                    break;
                };
                wakers.into_iter().for_each(Waker::wake);
            }
        }
    }

    /// Everything alive.
    pub(crate) fn sightings(&self) -> Vec<Sighting> {
        let mut found = Vec::new();
        for (number, shard) in (0..).zip(&self.shards) {
            shard
                .lock()
                .each(|index, task| found.push(self.sighting(number, index, &task)));
        }
        found
    }

    /// Uncounts everything alive and gives its description: nobody waits for it any more.
    pub(crate) fn abandon_all(&self) -> Vec<Sighting> {
        let mut found = Vec::new();
        for (number, shard) in (0..).zip(&self.shards) {
            let mut shard = shard.lock();
            let before = found.len();
            shard.abandon(|index, task| found.push(self.sighting(number, index, &task)));
            let abandoned = u32::try_from(found.len() - before).unwrap_or(u32::MAX);
            // Not all of its tasks, maybe: one that has left but for the count is still there.
            shard.count -= abandoned;
            if abandoned > 0 && shard.count == 0 {
                self.tally.forget();
            }
        }
        found
    }

    /// The living task with this id.
    pub(crate) fn find(&self, id: u64) -> Option<Sighting> {
        if id >> 48 != u64::from(self.number) {
            return None;
        }
        self.see(Place::of_id(id))
    }

    /// The living task at this place.
    pub(crate) fn see(&self, Place { shard, index }: Place) -> Option<Sighting> {
        let tasks = self.shards.get(usize::from(shard))?.lock();
        tasks
            .get(index)
            .map(|task| self.sighting(shard, index, &task))
    }

    fn sighting(&self, shard: u16, index: u32, task: &Listed<'_>) -> Sighting {
        Sighting {
            id: self.id(Place { shard, index }),
            name: task.name.clone(),
            place: task.place,
            age: task.age,
            part: task.part,
            kind: task.kind,
        }
    }
}

/// The shard for the calling thread's next task.
///
/// A thread moves on to another one after so many tasks: what it has spawned is spread over the shards, and the
/// threads that end it, all at once when the service stops, do not wait for one lock.
#[inline]
fn next_shard(shards: usize) -> usize {
    const IN_A_ROW: usize = 64;
    // Threads begin at different shards.
    static FIRST: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static SPAWNED: Cell<usize> = Cell::new(FIRST.fetch_add(3 * IN_A_ROW, Ordering::Relaxed));
    }
    let spawned = SPAWNED.try_with(|spawned| spawned.replace(spawned.get().wrapping_add(1)));
    (spawned.unwrap_or(0) / IN_A_ROW) & (shards - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn entry(name: &'static str) -> Entry {
        Entry {
            name: Cow::Borrowed(name),
            place: Location::caller(),
            kind: WorkKind::Task,
            part: None,
        }
    }

    fn leave(roster: &Roster, place: Place) -> Left {
        assert!(roster.leave(place).is_some());
        roster.uncount(place)
    }

    #[test]
    fn the_last_to_leave_says_so_only_when_watched() {
        let roster = Roster::new(2);
        let (a, b) = (
            roster.enter(entry("a")).unwrap(),
            roster.enter(entry("b")).unwrap(),
        );
        assert_eq!(leave(&roster, a), Left::Unremarkable);
        assert_eq!(roster.watch(), Left::Unremarkable);
        assert_eq!(leave(&roster, b), Left::Idle);
        assert_eq!(roster.watch(), Left::Idle);
    }

    #[test]
    fn sealed_at_zero_and_not_before() {
        let roster = Roster::new(2);
        let a = roster.enter(entry("a")).unwrap();
        assert_eq!(roster.seal_when_idle(), Left::Unremarkable);
        let b = roster.enter(entry("b")).unwrap();
        assert_eq!(leave(&roster, a), Left::Unremarkable);
        assert_eq!(leave(&roster, b), Left::Sealed);
        assert!(roster.enter(entry("c")).is_err());
        assert!(roster.enter(entry("d")).is_err());
    }

    #[test]
    fn the_abandoned_are_named_once_and_wait_for_nobody() {
        let roster = Roster::new(2);
        let stuck = roster.enter(entry("stuck")).unwrap();
        let names =
            |found: Vec<Sighting>| found.into_iter().map(|task| task.name).collect::<Vec<_>>();
        assert_eq!(names(roster.abandon_all()), ["stuck"]);
        assert_eq!(names(roster.abandon_all()), [""; 0]);
        assert_eq!(roster.seal_when_idle(), Left::Sealed);
        assert_eq!(roster.see(stuck).unwrap().name, "stuck");
        assert!(roster.leave(stuck).is_some_and(|gone| gone.abandoned));
    }

    #[test]
    fn whoever_is_no_part_departs_at_once_and_a_part_in_two_steps() {
        let roster = Roster::new(2);
        let part = Entry {
            part: Some(PartId(7)),
            ..entry("part")
        };
        let (a, b) = (
            roster.enter(entry("a")).unwrap(),
            roster.enter(part).unwrap(),
        );
        assert_eq!(roster.watch(), Left::Unremarkable);
        assert_eq!(roster.depart(a).unwrap().1, Left::Unremarkable);
        let (gone, left) = roster.depart(b).unwrap();
        assert_eq!((gone.part, left), (Some(PartId(7)), Left::Unremarkable));
        assert!(!roster.is_idle(), "its end has not been told yet");
        assert_eq!(roster.uncount(b), Left::Idle);
    }

    #[test]
    fn who_has_left_but_for_the_count_is_waited_for_when_the_rest_is_abandoned() {
        let roster = Roster::new(2);
        let (a, _b) = (
            roster.enter(entry("a")).unwrap(),
            roster.enter(entry("b")).unwrap(),
        );
        assert!(roster.leave(a).is_some());
        roster.close();
        assert_eq!(roster.abandon_all().len(), 1);
        assert_eq!(roster.seal_when_idle(), Left::Unremarkable);
        assert_eq!(roster.uncount(a), Left::Sealed);
    }

    #[test]
    fn slots_are_used_again_and_ids_find_their_task() {
        let roster = Roster::new(2);
        let places: Vec<_> = (0..1_000)
            .map(|_| roster.enter(entry("x")).unwrap())
            .collect();
        for &place in &places {
            assert_eq!(leave(&roster, place), Left::Unremarkable);
        }
        let again = roster.enter(entry("again")).unwrap();
        assert!(places.contains(&again));
        assert_eq!(roster.find(roster.id(again)).unwrap().name, "again");
        assert!(roster.find(roster.id(places[1])).is_none() || places[1] == again);
        assert_eq!(roster.sightings().len(), 1);
    }
}
