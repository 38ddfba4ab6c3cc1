//! What is planned, what is running, and how it went.

use std::collections::{HashMap, HashSet};
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use croner::Cron;
use tokio::sync::Notify;

use super::clock::Clock;
use super::lease::Memory;
use super::part::Overlap;
use super::run::Job;
use super::tick::Tick;
use super::timetable::{CatchUp, Timetable};

/// A clock that was set back by less than this is not taken for one that was wrong before: what has run by the old
/// time does not run again.
const A_DAY: Duration = Duration::from_secs(86_400);

/// All schedules of a service.
#[derive(Default)]
pub(crate) struct Agenda {
    plan: Mutex<Plan>,
    /// Somebody wants to be tried again.
    pub(super) changed: Notify,
    clock: OnceLock<Clock>,
}

#[derive(Default)]
pub(super) struct Plan {
    pub(super) lines: Vec<Line>,
    /// To be tried again at this moment: another replica has the lease.
    pub(super) retries: Vec<(Tick, u32)>,
    /// Until the service runs.
    names: HashSet<Arc<str>>,
    /// Cron lines that were read: many schedules have the same one, and read, one is large.
    crons: HashMap<String, Arc<Cron>>,
}

/// One schedule.
pub(super) struct Line {
    pub(super) name: Arc<str>,
    pub(super) place: &'static Location<'static>,
    pub(super) timetable: Timetable,
    pub(super) job: Job,
    pub(super) overlap: Overlap,
    pub(super) catch_up: CatchUp,
    pub(super) at_start: bool,
    pub(super) jitter: Duration,
    pub(super) timeout: Option<Duration>,
    pub(super) memory: Option<Arc<Memory>>,
    /// The next moment of the timetable.
    pub(super) next: Option<Tick>,
    /// The last moment that was started.
    pub(super) last: Option<Tick>,
    /// To be tried again when the lease is over.
    pub(super) retry: Option<Tick>,
    pub(super) queued: Option<Tick>,
    pub(super) running: u32,
    pub(super) runs: u32,
    pub(super) failed: u32,
    pub(super) skipped: u32,
}

/// What others may know of a schedule.
pub(crate) struct Entry {
    pub(crate) name: Arc<str>,
    pub(crate) next: Option<SystemTime>,
    pub(crate) last: Option<SystemTime>,
    pub(crate) running: u32,
    pub(crate) runs: u32,
    pub(crate) failed: u32,
    pub(crate) skipped: u32,
}

impl Agenda {
    pub(super) fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn clock(&self) -> &Clock {
        self.clock.get_or_init(Clock::default)
    }

    /// Plays the time; before anybody has asked for it.
    #[cfg(feature = "testing")]
    pub(crate) fn play(&self, clock: Clock) {
        let _ = self.clock.set(clock);
    }

    /// How many there are, and the next so many in the order of their time.
    pub(crate) fn entries(&self, most: usize) -> (usize, Vec<Entry>) {
        let plan = self.plan();
        let mut order: Vec<_> = plan.lines.iter().collect();
        order.sort_by_key(|line| (line.next.is_none(), line.next));
        let entry = |line: &&Line| Entry {
            name: Arc::clone(&line.name),
            next: line.next.map(Tick::system),
            last: line.last.map(Tick::system),
            running: line.running,
            runs: line.runs,
            failed: line.failed,
            skipped: line.skipped,
        };
        (
            plan.lines.len(),
            order.iter().take(most).map(entry).collect(),
        )
    }
}

impl Plan {
    /// Adds a schedule; says whether it is the first.
    pub(super) fn add(&mut self, line: Line) -> Result<bool, Arc<str>> {
        if !self.names.insert(Arc::clone(&line.name)) {
            return Err(line.name);
        }
        self.lines.push(line);
        Ok(self.lines.len() == 1)
    }

    /// Reads a cron line, once.
    pub(super) fn cron(&mut self, line: &str) -> Result<Arc<Cron>, String> {
        if let Some(known) = self.crons.get(line) {
            return Ok(Arc::clone(known));
        }
        let cron = Arc::new(Timetable::parse(line)?);
        self.crons.insert(line.to_owned(), Arc::clone(&cron));
        Ok(cron)
    }

    /// The service runs: what was only needed to register goes, and everybody has a next time.
    pub(super) fn begin(&mut self, now: Tick) {
        self.names = HashSet::new();
        self.crons = HashMap::new();
        self.lines.shrink_to_fit();
        for line in &mut self.lines {
            line.next = line.timetable.next(line.last.unwrap_or(now));
            line.forget_the_future(now);
        }
    }

    /// The clock was set back by so much.
    pub(super) fn set_back(&mut self, by: Duration, now: Tick) {
        for line in &mut self.lines {
            match &line.timetable {
                Timetable::Every(_) => line.next = line.next.map(|next| next.minus(by)),
                timetable => {
                    let last = line.last.filter(|last| last.since(now) < A_DAY);
                    line.next = timetable.next(last.unwrap_or(now).max(now));
                }
            }
        }
    }
}

impl Line {
    /// A last run in the future is one of a clock that was wrong: nobody waits for it to come.
    fn forget_the_future(&mut self, now: Tick) {
        if let Timetable::Every(interval) = &self.timetable {
            let latest = now.plus(*interval);
            self.next = self.next.map(|next| next.min(latest));
        } else if self.last.is_some_and(|last| last.since(now) >= A_DAY) {
            self.next = self.timetable.next(now);
        }
    }

    /// When to look at it next.
    pub(super) fn wake(&self) -> Option<Tick> {
        let next = self.next?;
        if self.jitter.is_zero() {
            return Some(next);
        }
        Some(next.plus(self.jitter.mul_f64(crate::retry::jitter())))
    }

    /// Takes what is due, and moves on.
    pub(super) fn take_due(&mut self, now: Tick) -> Vec<Tick> {
        let Some(next) = self.next else {
            return Vec::new();
        };
        let due = self.timetable.due(next, now, self.catch_up);
        self.next = due.next;
        due.runs
    }

    /// Whether a run may start now; if not, it is skipped or waits.
    pub(super) fn admit(&mut self, tick: Tick) -> bool {
        let free = self.running == 0 || self.overlap == Overlap::Allow;
        if free {
            self.running += 1;
            self.last = self.last.max(Some(tick));
        } else if self.overlap == Overlap::QueueOne && self.queued.is_none() {
            self.queued = Some(tick);
        } else {
            self.skipped = self.skipped.saturating_add(1);
        }
        free
    }
}
