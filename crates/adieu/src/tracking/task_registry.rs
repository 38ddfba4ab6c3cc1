//! Every tracked task that is alive, with its name and the source location that spawned it.
//!
//! Invariants:
//! - A shard counts its living tasks that are not abandoned. `active` counts the shards that have such a task, and
//!   decides whether the first one of a shard may start: the word that all threads share changes when a shard
//!   fills or empties, not with every task.
//! - A task enters (counted and listed at once) before it can run, and leaves (unlisted first, then uncounted)
//!   after its future is dropped. So a thread that sees `active` at zero sees every effect of the work.
//! - Locks: a shard's lock is held for a few instructions, never while user code runs and never two at once. `active`
//!   is changed under it, so that a shard's count and its share in `active` never disagree.

use std::borrow::Cow;
use std::cell::Cell;
use std::panic::Location;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use adieu_lifecycle::ComponentId;

use crate::tracking::active_count::ActiveCount;
use crate::tracking::shard::{Listed, Shard};
use crate::util::sys;

pub(crate) use crate::tracking::active_count::Departure;

/// What runs: decides how its stop is requested and what the report can say of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum WorkKind {
    Task,
    Blocking,
    /// A connection of a server, which names by itself what was cut with it.
    #[cfg(feature = "net")]
    Connection,
}

impl WorkKind {
    /// Whether it says by itself what was lost with it, and what it is doing.
    pub(crate) const fn reports_own_losses(self) -> bool {
        match self {
            Self::Task | Self::Blocking => false,
            #[cfg(feature = "net")]
            Self::Connection => true,
        }
    }
}

/// A task about to be listed.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: Cow<'static, str>,
    pub(crate) place: &'static Location<'static>,
    pub(crate) kind: WorkKind,
    /// The part this task is, if it is one by itself.
    pub(crate) part: Option<ComponentId>,
}

/// What is left of a task that is not listed any more.
pub(crate) struct Removed {
    pub(crate) part: Option<ComponentId>,
    /// The stop does not wait for it any more: it is not counted.
    pub(crate) abandoned: bool,
}

/// The slot of a task: which shard, and where in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskSlot {
    pub(crate) shard: u16,
    pub(crate) index: u32,
}

impl TaskSlot {
    /// The slot that an id names.
    #[inline]
    pub(crate) const fn of_id(id: u64) -> Self {
        let [index, shard] = [id as u32, (id >> 32) as u32];
        Self {
            shard: shard as u16,
            index: index.wrapping_sub(1),
        }
    }
}

/// A snapshot of a living task.
pub(crate) struct TaskInfo {
    pub(crate) id: u64,
    pub(crate) name: Cow<'static, str>,
    pub(crate) place: &'static Location<'static>,
    pub(crate) age: Duration,
    pub(crate) part: Option<ComponentId>,
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

// In this order: the active changes often; what is only read must not be on the same cache line.
#[repr(C)]
pub(crate) struct TaskRegistry {
    active: ActiveCount,
    _gap: [u64; 8],
    /// Which registry this is, among all in the process; makes task ids unique.
    number: u16,
    shards: Box<[Aligned]>,
}

impl TaskRegistry {
    /// For a runtime with so many threads.
    pub(crate) fn new(threads: usize) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let shards = (threads * 4).next_power_of_two().min(256);
        Self {
            number: u16::try_from(NUMBER.fetch_add(1, Ordering::Relaxed) & 0xffff).unwrap_or(0),
            active: ActiveCount::default(),
            _gap: [0; 8],
            shards: (0..shards).map(|_| Aligned::default()).collect(),
        }
    }

    /// A number for this task that no other living task in the process has, and that is not 0.
    #[inline]
    pub(crate) fn id(&self, slot: TaskSlot) -> u64 {
        (u64::from(self.number) << 48) | (u64::from(slot.shard) << 32) | (u64::from(slot.index) + 1)
    }

    /// A number as unique as [`TaskRegistry::id`], for something that is not on the registry.
    pub(crate) fn reserved_id(&self, number: u32) -> u64 {
        self.id(TaskSlot {
            shard: u16::MAX,
            index: number,
        })
    }

    /// Counts and lists a task. If no work may start, gives back its name.
    #[inline(always)]
    pub(crate) fn enter(&self, entry: Entry) -> Result<TaskSlot, Cow<'static, str>> {
        let shard = next_shard(self.shards.len());
        let now = sys::coarse_now();
        let mut tasks = self.shards[shard].lock();
        if tasks.is_closed() || (tasks.count == 0 && self.active.enter().is_err()) {
            return Err(entry.name);
        }
        tasks.count += 1;
        Ok(TaskSlot {
            shard: u16::try_from(shard).unwrap_or(0),
            index: tasks.insert(entry, now),
        })
    }

    /// Whether no task is alive at this moment, except for the abandoned.
    pub(crate) fn is_idle(&self) -> bool {
        self.active.is_idle()
    }

    /// Unlists a task. Unless it was abandoned, [`TaskRegistry::release_count`] follows.
    pub(crate) fn remove(&self, slot: TaskSlot) -> Option<Removed> {
        let (gone, waker) = self.shard(slot).remove(slot.index)?;
        // What the drop of a waker does is not ours to know.
        drop(waker);
        Some(gone)
    }

    /// The second half of leaving, after what the task's end means has been said.
    pub(crate) fn release_count(&self, slot: TaskSlot) -> Departure {
        self.release_count_in(&mut self.shard(slot))
    }

    /// Both halves at once, if the task is not a component: then its good end only changes the count.
    #[inline]
    pub(crate) fn remove_and_release(&self, slot: TaskSlot) -> Option<(Removed, Departure)> {
        let mut shard = self.shard(slot);
        let (gone, waker) = shard.remove(slot.index)?;
        let left = if gone.part.is_some() || gone.abandoned {
            Departure::Unremarkable
        } else {
            self.release_count_in(&mut shard)
        };
        drop(shard);
        drop(waker);
        Some((gone, left))
    }

    #[inline]
    fn release_count_in(&self, shard: &mut Shard) -> Departure {
        shard.count -= 1;
        if shard.count == 0 {
            self.active.leave()
        } else {
            Departure::Unremarkable
        }
    }

    #[inline]
    fn shard(&self, slot: TaskSlot) -> MutexGuard<'_, Shard> {
        self.shards[usize::from(slot.shard)].lock()
    }

    /// From now on the last to leave says so; says whether none is alive already.
    pub(crate) fn watch(&self) -> Departure {
        self.active.watch()
    }

    /// No new work from the first moment on at which none is alive.
    pub(crate) fn seal_when_idle(&self) -> Departure {
        self.active.seal_when_idle()
    }

    /// How many tasks are alive, those left behind not counted.
    #[cfg(feature = "admin")]
    pub(crate) fn alive(&self) -> u64 {
        let counts = self.shards.iter().map(|shard| shard.lock().count);
        counts.map(u64::from).sum()
    }

    /// No new work.
    ///
    /// Each shard is closed as well: it asks the active for its first task only.
    pub(crate) fn close(&self) {
        self.active.close();
        for shard in &self.shards {
            shard.lock().close();
        }
    }

    /// Remembers how to wake a task that waits, so that it can be cancelled.
    pub(crate) fn set_waker(&self, slot: TaskSlot, waker: &Waker) {
        self.shard(slot).set_waker(slot.index, waker);
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
    pub(crate) fn infos(&self) -> Vec<TaskInfo> {
        let mut found = Vec::new();
        for (number, shard) in (0..).zip(&self.shards) {
            shard
                .lock()
                .each(|index, task| found.push(self.info(number, index, &task)));
        }
        found
    }

    /// Uncounts everything alive and gives its description: no waiter is left.
    pub(crate) fn abandon_all(&self) -> Vec<TaskInfo> {
        let mut found = Vec::new();
        for (number, shard) in (0..).zip(&self.shards) {
            let mut shard = shard.lock();
            let before = found.len();
            shard.abandon(|index, task| found.push(self.info(number, index, &task)));
            let abandoned = u32::try_from(found.len() - before).unwrap_or(u32::MAX);
            // Not all of its tasks, maybe: one that has left but for the count is still there.
            shard.count -= abandoned;
            if abandoned > 0 && shard.count == 0 {
                self.active.forget();
            }
        }
        found
    }

    /// The living task with this id.
    pub(crate) fn by_id(&self, id: u64) -> Option<TaskInfo> {
        if id >> 48 != u64::from(self.number) {
            return None;
        }
        self.get(TaskSlot::of_id(id))
    }

    /// The living task in this slot.
    pub(crate) fn get(&self, TaskSlot { shard, index }: TaskSlot) -> Option<TaskInfo> {
        let tasks = self.shards.get(usize::from(shard))?.lock();
        tasks.get(index).map(|task| self.info(shard, index, &task))
    }

    fn info(&self, shard: u16, index: u32, task: &Listed<'_>) -> TaskInfo {
        TaskInfo {
            id: self.id(TaskSlot { shard, index }),
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

    fn leave(registry: &TaskRegistry, slot: TaskSlot) -> Departure {
        assert!(registry.remove(slot).is_some());
        registry.release_count(slot)
    }

    #[test]
    fn the_last_to_leave_says_so_only_when_watched() {
        let registry = TaskRegistry::new(2);
        let (a, b) = (
            registry.enter(entry("a")).unwrap(),
            registry.enter(entry("b")).unwrap(),
        );
        assert_eq!(leave(&registry, a), Departure::Unremarkable);
        assert_eq!(registry.watch(), Departure::Unremarkable);
        assert_eq!(leave(&registry, b), Departure::Idle);
        assert_eq!(registry.watch(), Departure::Idle);
    }

    #[test]
    fn sealed_at_zero_and_not_before() {
        let registry = TaskRegistry::new(2);
        let a = registry.enter(entry("a")).unwrap();
        assert_eq!(registry.seal_when_idle(), Departure::Unremarkable);
        let b = registry.enter(entry("b")).unwrap();
        assert_eq!(leave(&registry, a), Departure::Unremarkable);
        assert_eq!(leave(&registry, b), Departure::Sealed);
        assert!(registry.enter(entry("c")).is_err());
        assert!(registry.enter(entry("d")).is_err());
    }

    #[test]
    fn an_abandoned_task_is_named_once_and_not_waited_for() {
        let registry = TaskRegistry::new(2);
        let stuck = registry.enter(entry("stuck")).unwrap();
        let names =
            |found: Vec<TaskInfo>| found.into_iter().map(|task| task.name).collect::<Vec<_>>();
        assert_eq!(names(registry.abandon_all()), ["stuck"]);
        assert_eq!(names(registry.abandon_all()), [""; 0]);
        assert_eq!(registry.seal_when_idle(), Departure::Sealed);
        assert_eq!(registry.get(stuck).unwrap().name, "stuck");
        assert!(registry.remove(stuck).is_some_and(|gone| gone.abandoned));
    }

    #[test]
    fn a_child_task_is_removed_and_released_at_once_and_a_component_in_two_steps() {
        let registry = TaskRegistry::new(2);
        let part = Entry {
            part: Some(ComponentId(7)),
            ..entry("part")
        };
        let (a, b) = (
            registry.enter(entry("a")).unwrap(),
            registry.enter(part).unwrap(),
        );
        assert_eq!(registry.watch(), Departure::Unremarkable);
        assert_eq!(
            registry.remove_and_release(a).unwrap().1,
            Departure::Unremarkable
        );
        let (gone, left) = registry.remove_and_release(b).unwrap();
        assert_eq!(
            (gone.part, left),
            (Some(ComponentId(7)), Departure::Unremarkable)
        );
        assert!(!registry.is_idle(), "its end has not been told yet");
        assert_eq!(registry.release_count(b), Departure::Idle);
    }

    #[test]
    fn a_removed_task_that_still_counts_is_waited_for_when_the_rest_is_abandoned() {
        let registry = TaskRegistry::new(2);
        let (a, _b) = (
            registry.enter(entry("a")).unwrap(),
            registry.enter(entry("b")).unwrap(),
        );
        assert!(registry.remove(a).is_some());
        registry.close();
        assert_eq!(registry.abandon_all().len(), 1);
        assert_eq!(registry.seal_when_idle(), Departure::Unremarkable);
        assert_eq!(registry.release_count(a), Departure::Sealed);
    }

    #[test]
    fn slots_are_used_again_and_ids_find_their_task() {
        let registry = TaskRegistry::new(2);
        let slots: Vec<_> = (0..1_000)
            .map(|_| registry.enter(entry("x")).unwrap())
            .collect();
        for &slot in &slots {
            assert_eq!(leave(&registry, slot), Departure::Unremarkable);
        }
        let again = registry.enter(entry("again")).unwrap();
        assert!(slots.contains(&again));
        assert_eq!(registry.by_id(registry.id(again)).unwrap().name, "again");
        assert!(registry.by_id(registry.id(slots[1])).is_none() || slots[1] == again);
        assert_eq!(registry.infos().len(), 1);
    }

    #[test]
    fn an_id_names_one_slot_in_one_registry() {
        let (one, other) = (TaskRegistry::new(2), TaskRegistry::new(2));
        let slot = one.enter(entry("a")).unwrap();
        let id = one.id(slot);
        assert_eq!(TaskSlot::of_id(id), slot);
        assert_ne!(other.id(slot), id);
        assert_eq!(other.enter(entry("b")).map(|it| it.index), Ok(slot.index));
        assert!(other.by_id(id).is_none(), "it is of the other registry");
        // What is not on the registry has numbers of its own.
        assert!(one.by_id(one.reserved_id(slot.index)).is_none());
        assert_ne!(one.reserved_id(1), one.reserved_id(2));
        assert_ne!(one.reserved_id(1), other.reserved_id(1));
    }

    #[test]
    fn there_are_four_shards_a_thread_and_no_more_than_256() {
        for (threads, shards) in [(1, 4), (2, 8), (3, 16), (64, 256), (1_000, 256)] {
            assert_eq!(TaskRegistry::new(threads).shards.len(), shards);
        }
    }
}
