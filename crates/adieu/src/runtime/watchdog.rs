//! The watchdog: samples which task is being polled on which thread, and reports a poll that lasts too long.
//!
//! It runs on the thread of the hard exit.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::report::Notice;
use crate::runtime::shared::ServiceShared;
use crate::tracking::poll_slot::{self, PollSlot, Sample};

/// Looks at the slots now and then while there is something to see, and sleeps while there is not.
pub(super) struct Watchdog {
    core: Weak<ServiceShared>,
    limit: Duration,
    period: Duration,
    seen: HashMap<usize, WatchedSlot>,
    parked: bool,
}

struct WatchedSlot {
    slot: Arc<PollSlot>,
    sample: Sample,
    since: Instant,
    last: Instant,
    /// Name and place, once the block was reported: when it is over the task may be gone.
    reported: Option<(String, String)>,
}

impl Watchdog {
    pub(super) fn new(core: Weak<ServiceShared>, limit: Duration) -> Self {
        let period = (limit / 4).max(Duration::from_millis(1));
        Self {
            core,
            limit,
            period,
            seen: HashMap::new(),
            parked: false,
        }
    }

    /// Looks once; says when to look again, or `None` to sleep until the next poll.
    pub(super) fn look(&mut self, now: Instant) -> Option<Duration> {
        let mut active = false;
        for slot in poll_slot::slots() {
            let sample = slot.sample();
            let key = Arc::as_ptr(&slot) as usize;
            let watched = self.seen.entry(key).or_insert_with(|| {
                active = true;
                WatchedSlot {
                    slot: Arc::clone(&slot),
                    sample,
                    since: now,
                    last: now,
                    reported: None,
                }
            });
            active |= watched.sample != sample || sample.task != 0;
            watched.see(sample, now, self.limit, &self.core);
        }
        // Of a thread that has ended, this is the last reference to its slot. What it was last seen at is over.
        let core = &self.core;
        self.seen.retain(|_, watched| {
            let is_there = Arc::strong_count(&watched.slot) > 1;
            if !is_there {
                watched.report(core, watched.last - watched.since, false);
            }
            is_there
        });
        if active {
            self.parked = false;
        } else if self.parked {
            return None;
        } else {
            self.parked = true;
            poll_slot::park_watchdog();
        }
        Some(self.period)
    }
}

impl WatchedSlot {
    fn see(&mut self, sample: Sample, now: Instant, limit: Duration, core: &Weak<ServiceShared>) {
        if sample == self.sample && sample.task != 0 {
            self.last = now;
            if self.reported.is_none() && now - self.since >= limit {
                // A task of another service in the process is that one's to name.
                self.reported = core.upgrade().and_then(|core| core.who(sample.task));
                self.report(core, now - self.since, true);
                // The blocked thread may be the one that drove sockets and timers while the others sleep. Work
                // from outside wakes one of them, and it takes over.
                if let Some(core) = core.upgrade() {
                    core.runtime.spawn(async {});
                }
            }
            return;
        }
        self.report(core, self.last - self.since, false);
        *self = Self {
            slot: Arc::clone(&self.slot),
            sample,
            since: now,
            last: now,
            reported: None,
        };
    }

    fn report(&self, core: &Weak<ServiceShared>, lasted: Duration, ongoing: bool) {
        if let (Some((task, place)), Some(core)) = (self.reported.clone(), core.upgrade()) {
            core.note(Notice::Blocked {
                task,
                place,
                lasted,
                ongoing,
            });
        }
    }
}
