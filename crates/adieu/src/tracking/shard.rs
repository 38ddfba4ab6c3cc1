//! One piece of the registry: who is alive, in as few bytes as that takes.
//!
//! A million tasks may be listed at once, and each of them is listed and unlisted once. What tasks have in
//! common (name, place, kind) is written down once, as a label; what is left for each is a small slot that
//! is written in place. Wakers have their own rows, which are made when the first task of a chunk waits.

use std::borrow::Cow;
use std::collections::HashMap;
use std::panic::Location;
use std::task::Waker;
use std::time::Duration;

use adieu_lifecycle::ComponentId;

use crate::tracking::task_registry::{Entry, Removed, WorkKind};
use crate::util::sys;

const NONE: u32 = u32::MAX;
/// Slots are allocated in chunks: growing neither copies nor doubles, so memory is what the tasks need.
const CHUNK: usize = 64;

/// One living task, or room for one.
#[derive(Clone, Copy)]
struct Slot {
    /// Seconds and nanoseconds.
    born: (u32, u32),
    label: u32,
    /// The part's number, or [`NONE`]. In a free slot, the next free one.
    link: u32,
    state: SlotState,
    /// Whether the label is this task's alone.
    own_label: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SlotState {
    Free,
    Taken,
    Abandoned,
}

struct Chunk {
    slots: Box<[Slot; CHUNK]>,
    /// Empty until the first task here has waited for something.
    wakers: Box<[Option<Waker>]>,
}

/// What tasks have in common.
struct Label {
    name: Cow<'static, str>,
    place: &'static Location<'static>,
    kind: WorkKind,
}

/// The tasks that one thread has spawned, or a few threads have.
pub(crate) struct Shard {
    /// How many of its tasks are waited for; kept by the registry.
    pub(crate) count: u32,
    chunks: Vec<Chunk>,
    /// The first free slot, or [`NONE`].
    free: u32,
    /// No task is listed any more.
    closed: bool,
    /// The label that was asked for last: a loop that spawns asks for the same again and again.
    last: (Key, u32),
    /// Apart, so that what every task touches lies together.
    labels: Box<Labels>,
}

/// A listed task, as seen from outside the shard.
pub(crate) struct Listed<'a> {
    pub(crate) name: &'a Cow<'static, str>,
    pub(crate) place: &'static Location<'static>,
    pub(crate) kind: WorkKind,
    pub(crate) part: Option<ComponentId>,
    pub(crate) age: Duration,
}

impl Default for Shard {
    fn default() -> Self {
        Self {
            count: 0,
            chunks: Vec::new(),
            free: NONE,
            closed: false,
            last: (Key::NOBODY, NONE),
            labels: Box::default(),
        }
    }
}

impl Shard {
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    #[inline(always)]
    pub(crate) fn insert(&mut self, entry: Entry, now: Duration) -> u32 {
        let part = entry.part.map_or(NONE, |ComponentId(number)| number);
        let own_label = matches!(entry.name, Cow::Owned(_));
        let label = self.label(entry);
        if self.free == NONE {
            self.grow();
        }
        let index = self.free;
        let slot = self.slot(index);
        let next = slot.link;
        *slot = Slot {
            // Enough for 136 years since the machine was started.
            born: (now.as_secs() as u32, now.subsec_nanos()),
            label,
            link: part,
            state: SlotState::Taken,
            own_label,
        };
        self.free = next;
        index
    }

    #[cold]
    fn grow(&mut self) {
        let mut next = u32::try_from(self.chunks.len() * CHUNK).unwrap_or(NONE);
        self.free = next;
        let slots = Box::new([(); CHUNK].map(|()| {
            next += 1;
            Slot {
                born: (0, 0),
                label: 0,
                link: next,
                state: SlotState::Free,
                own_label: false,
            }
        }));
        self.chunks.push(Chunk {
            slots,
            wakers: Box::default(),
        });
        self.slot(next - 1).link = NONE;
    }

    #[inline]
    fn slot(&mut self, index: u32) -> &mut Slot {
        let index = index as usize;
        &mut self.chunks[index / CHUNK].slots[index % CHUNK]
    }

    /// Whether a living task has this index.
    pub(crate) fn has(&self, index: u32) -> bool {
        let index = index as usize;
        (self.chunks.get(index / CHUNK))
            .is_some_and(|chunk| chunk.slots[index % CHUNK].state != SlotState::Free)
    }

    /// Takes a living task off the list. The waker is for the caller to drop, outside the lock.
    #[inline]
    pub(crate) fn remove(&mut self, index: u32) -> Option<(Removed, Option<Waker>)> {
        let next = self.free;
        let chunk = &mut self.chunks[index as usize / CHUNK];
        let waker = match chunk.wakers.get_mut(index as usize % CHUNK) {
            Some(waker) => waker.take(),
            None => None,
        };
        let slot = &mut chunk.slots[index as usize % CHUNK];
        let gone = Removed {
            part: (slot.link != NONE).then_some(ComponentId(slot.link)),
            abandoned: slot.state == SlotState::Abandoned,
        };
        if slot.state == SlotState::Free {
            return None;
        }
        slot.state = SlotState::Free;
        slot.link = next;
        if slot.own_label {
            self.labels.release(slot.label);
        }
        self.free = index;
        Some((gone, waker))
    }

    #[inline(always)]
    fn label(&mut self, entry: Entry) -> u32 {
        let Some(key) = Key::of(&entry) else {
            return self.labels.add(entry);
        };
        if self.last.0 != key {
            self.last = (key, self.labels.find(key, entry));
        }
        self.last.1
    }

    pub(crate) fn set_waker(&mut self, index: u32, waker: &Waker) {
        if self.has(index) {
            let chunk = &mut self.chunks[index as usize / CHUNK];
            if chunk.wakers.is_empty() {
                chunk.wakers = (0..CHUNK).map(|_| None).collect();
            }
            chunk.wakers[index as usize % CHUNK] = Some(waker.clone());
        }
    }

    /// The wakers of one chunk, or `None` after the last chunk.
    pub(crate) fn wakers(&self, chunk: usize) -> Option<Vec<Waker>> {
        let chunk = self.chunks.get(chunk)?;
        Some(chunk.wakers.iter().flatten().cloned().collect())
    }

    /// A living task, by its index.
    pub(crate) fn get(&self, index: u32) -> Option<Listed<'_>> {
        let chunk = self.chunks.get(index as usize / CHUNK)?;
        let slot = &chunk.slots[index as usize % CHUNK];
        (slot.state != SlotState::Free).then(|| self.listed(slot))
    }

    fn listed(&self, slot: &Slot) -> Listed<'_> {
        let label = self.labels.get(slot.label);
        let (seconds, nanos) = slot.born;
        Listed {
            name: &label.name,
            place: label.place,
            kind: label.kind,
            part: (slot.link != NONE).then_some(ComponentId(slot.link)),
            age: sys::coarse_now().saturating_sub(Duration::new(seconds.into(), nanos)),
        }
    }

    /// Shows every living task.
    pub(crate) fn each(&self, mut see: impl FnMut(u32, Listed<'_>)) {
        let slots = self.chunks.iter().flat_map(|chunk| chunk.slots.iter());
        for (index, slot) in (0_u32..).zip(slots) {
            if slot.state != SlotState::Free {
                see(index, self.listed(slot));
            }
        }
    }

    /// Shows every living task that is not abandoned, and abandons it.
    pub(crate) fn abandon(&mut self, mut see: impl FnMut(u32, Listed<'_>)) {
        for index in 0..u32::try_from(self.chunks.len() * CHUNK).unwrap_or(NONE) {
            if self.slot(index).state == SlotState::Taken {
                self.slot(index).state = SlotState::Abandoned;
                if let Some(listed) = self.get(index) {
                    see(index, listed);
                }
            }
        }
    }
}

/// All labels of a shard.
///
/// A name that is part of the program gets its label once, forever; the program has only so many places that
/// spawn. A name that was made at run time has a label of its own as long as its task lives.
#[derive(Default)]
struct Labels {
    all: Vec<Label>,
    /// Labels of made-up names that are free again.
    free: Vec<u32>,
    known: HashMap<Key, u32>,
}

/// Where a name and a place are in the program: the same addresses mean the same words.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    name: usize,
    length: usize,
    place: usize,
    kind: WorkKind,
}

impl Key {
    const NOBODY: Self = Self {
        name: 0,
        length: 0,
        place: 0,
        kind: WorkKind::Task,
    };

    /// `None` if the name was made at run time.
    #[inline(always)]
    fn of(entry: &Entry) -> Option<Self> {
        let Cow::Borrowed(name) = entry.name else {
            return None;
        };
        Some(Self {
            name: name.as_ptr() as usize,
            length: name.len(),
            place: std::ptr::from_ref(entry.place) as usize,
            kind: entry.kind,
        })
    }
}

impl Labels {
    #[cold]
    fn find(&mut self, key: Key, entry: Entry) -> u32 {
        if let Some(&label) = self.known.get(&key) {
            return label;
        }
        let label = self.add(entry);
        self.known.insert(key, label);
        label
    }

    #[cold]
    fn add(
        &mut self,
        Entry {
            name, place, kind, ..
        }: Entry,
    ) -> u32 {
        let label = Label { name, place, kind };
        if let Some(index) = self.free.pop() {
            self.all[index as usize] = label;
            return index;
        }
        self.all.push(label);
        u32::try_from(self.all.len() - 1).unwrap_or(NONE)
    }

    fn get(&self, index: u32) -> &Label {
        &self.all[index as usize]
    }

    /// The task whose own label this was has gone.
    #[cold]
    fn release(&mut self, index: u32) {
        self.all[index as usize].name = Cow::Borrowed("");
        self.free.push(index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(shard: &mut Shard, name: Cow<'static, str>) -> u32 {
        let entry = Entry {
            name,
            place: Location::caller(),
            kind: WorkKind::Task,
            part: None,
        };
        shard.insert(entry, Duration::ZERO)
    }

    fn name(shard: &Shard, index: u32) -> &str {
        shard.get(index).expect("it is listed").name
    }

    #[test]
    fn a_name_of_the_program_has_one_label_and_a_made_up_one_its_own() {
        let mut shard = Shard::default();
        for _ in 0..1_000 {
            list(&mut shard, "job".into());
        }
        assert_eq!(shard.labels.all.len(), 1);

        let made: Vec<u32> = (0..10)
            .map(|n| list(&mut shard, format!("page {n}").into()))
            .collect();
        assert_eq!(name(&shard, made[7]), "page 7");
        assert_eq!(shard.labels.all.len(), 11);
        for &index in &made {
            assert!(shard.remove(index).is_some());
            assert!(shard.remove(index).is_none());
        }
        let again = list(&mut shard, "page x".to_owned().into());
        assert_eq!(name(&shard, again), "page x");
        assert_eq!(shard.labels.all.len(), 11);
    }

    #[test]
    fn a_listed_task_is_small() {
        assert_eq!(size_of::<Slot>(), 20);
    }

    #[test]
    fn a_waker_goes_with_its_task() {
        let mut shard = Shard::default();
        let (a, b) = (list(&mut shard, "a".into()), list(&mut shard, "b".into()));
        shard.set_waker(a, Waker::noop());
        assert_eq!(shard.wakers(0).map(|wakers| wakers.len()), Some(1));
        assert!(shard.remove(a).is_some_and(|(_, waker)| waker.is_some()));
        assert!(shard.remove(b).is_some_and(|(_, waker)| waker.is_none()));
        // Too late: the task has gone, and its place may be another one's.
        shard.set_waker(a, Waker::noop());
        assert_eq!(shard.wakers(0).map(|wakers| wakers.len()), Some(0));
        assert!(shard.wakers(1).is_none());
    }
}
