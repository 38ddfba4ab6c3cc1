//! The table of schedules: what is planned, what is running, and how it went.

use std::collections::{HashMap, HashSet};
use std::fmt::{self, Write};
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use croner::Cron;
use tokio::sync::Notify;

use super::builder::Overlap;
use super::clock::Clock;
use super::lease::ScheduleStore;
use super::run::JobFn;
use super::timestamp::Timestamp;
use super::timetable::{CatchUp, Timetable};
use crate::runtime::extension::Extension;
use crate::runtime::shared::ServiceShared;
use crate::util::duration::show;

/// A clock that was set back by less than this is not taken for one that was wrong before: what has run by the old
/// time does not run again.
const CLOCK_ERROR_LIMIT: Duration = Duration::from_secs(86_400);

/// The schedules of a service.
#[derive(Default)]
pub(crate) struct ScheduleTable {
    table: Mutex<TableState>,
    /// A run waits for the lease of another replica, or a schedule was added: `retries` has a new entry.
    pub(super) changed: Notify,
    clock: OnceLock<Clock>,
}

#[derive(Default)]
pub(super) struct TableState {
    pub(super) schedules: Vec<Schedule>,
    /// To be looked at again at this moment: another replica has the lease, or the schedule is new.
    pub(super) retries: Vec<(Timestamp, u32)>,
    pub(super) stage: Stage,
    /// Until the service runs.
    names: HashSet<Arc<str>>,
    /// Cron lines that were read: many schedules have the same one, and read, one is large.
    crons: HashMap<String, Arc<Cron>>,
}

/// How far the scheduler is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    /// The service starts, or has no schedules.
    #[default]
    Planning,
    Running,
    /// Nothing is started any more.
    Over,
}

/// One schedule.
pub(super) struct Schedule {
    pub(super) name: Arc<str>,
    pub(super) location: &'static Location<'static>,
    pub(super) timetable: Timetable,
    pub(super) job: JobFn,
    pub(super) overlap: Overlap,
    pub(super) catch_up: CatchUp,
    pub(super) at_start: bool,
    pub(super) jitter: Duration,
    pub(super) timeout: Option<Duration>,
    pub(super) store: Option<Arc<ScheduleStore>>,
    /// The next moment of the timetable.
    pub(super) next: Option<Timestamp>,
    /// The last moment that was started.
    pub(super) last: Option<Timestamp>,
    /// To be tried again when the lease is over.
    pub(super) retry: Option<Timestamp>,
    pub(super) queued: Option<Timestamp>,
    pub(super) running: u32,
    pub(super) runs: u32,
    pub(super) failed: u32,
    pub(super) skipped: u32,
}

/// What others may know of a schedule.
pub(crate) struct ScheduleStatus {
    pub(crate) name: Arc<str>,
    pub(crate) next: Option<SystemTime>,
    pub(crate) last: Option<SystemTime>,
    pub(crate) running: u32,
    pub(crate) runs: u32,
    pub(crate) failed: u32,
    pub(crate) skipped: u32,
}

/// So many schedules stand in the status.
const IN_STATUS: usize = 10;

impl Extension for ScheduleTable {
    fn write_status(&self, f: &mut String) -> fmt::Result {
        let (count, schedules) = self.statuses(IN_STATUS);
        if count == 0 {
            return Ok(());
        }
        writeln!(f, "  schedules {count}")?;
        let now = self.clock().now().system();
        for it in schedules {
            let next = it.next.and_then(|next| next.duration_since(now).ok());
            let next = next.map_or_else(|| "now".to_owned(), |next| format!("in {}", show(next)));
            let (runs, failed, skipped) = (it.runs, it.failed, it.skipped);
            write!(
                f,
                "    {} {next}, {runs} runs, {failed} failed, {skipped} skipped",
                it.name
            )?;
            if let Some(ago) = it.last.and_then(|last| now.duration_since(last).ok()) {
                write!(f, ", last {} ago", show(ago))?;
            }
            match it.running {
                0 => writeln!(f)?,
                running => writeln!(f, ", {running} running")?,
            }
        }
        Ok(())
    }
}

impl ServiceShared {
    pub(crate) fn schedules(&self) -> &ScheduleTable {
        self.extensions.get()
    }
}

impl ScheduleTable {
    pub(super) fn lock(&self) -> MutexGuard<'_, TableState> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn clock(&self) -> &Clock {
        self.clock.get_or_init(Clock::default)
    }

    /// Replaces the wall clock; has to be called before the first look at it.
    #[cfg(feature = "testing")]
    pub(crate) fn set_test_clock(&self, clock: Clock) {
        let _ = self.clock.set(clock);
    }

    /// How many there are, and the next so many in the order of their time.
    pub(crate) fn statuses(&self, most: usize) -> (usize, Vec<ScheduleStatus>) {
        let table = self.lock();
        let mut order: Vec<_> = table.schedules.iter().collect();
        order.sort_by_key(|schedule| (schedule.next.is_none(), schedule.next));
        let status = |schedule: &&Schedule| ScheduleStatus {
            name: Arc::clone(&schedule.name),
            next: schedule.next.map(Timestamp::system),
            last: schedule.last.map(Timestamp::system),
            running: schedule.running,
            runs: schedule.runs,
            failed: schedule.failed,
            skipped: schedule.skipped,
        };
        (
            table.schedules.len(),
            order.iter().take(most).map(status).collect(),
        )
    }
}

impl TableState {
    /// Adds a schedule; says whether it is the first.
    pub(super) fn add(&mut self, schedule: Schedule) -> Result<bool, Arc<str>> {
        let is_known = match self.stage {
            Stage::Planning => !self.names.insert(Arc::clone(&schedule.name)),
            // Seldom, so the names are not kept for it.
            _ => self.schedules.iter().any(|it| it.name == schedule.name),
        };
        if is_known {
            return Err(schedule.name);
        }
        self.schedules.push(schedule);
        Ok(self.schedules.len() == 1)
    }

    /// Puts the schedule that was added last on the timetable of the scheduler, which runs already.
    pub(super) fn begin_last(&mut self, now: Timestamp) {
        let Some(number) = self.schedules.len().checked_sub(1) else {
            return;
        };
        let schedule = &mut self.schedules[number];
        schedule.next = schedule.timetable.next(now);
        schedule.retry = schedule.at_start.then_some(now);
        let looks = [schedule.retry, schedule.wake()];
        if let Ok(number) = u32::try_from(number) {
            let looks = looks.into_iter().flatten().map(|at| (at, number));
            self.retries.extend(looks);
        }
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

    /// The service runs: what was only needed to register is dropped, and every schedule gets its next time.
    pub(super) fn begin(&mut self, now: Timestamp) {
        self.stage = Stage::Running;
        self.names = HashSet::new();
        self.crons = HashMap::new();
        self.schedules.shrink_to_fit();
        for schedule in &mut self.schedules {
            schedule.next = schedule.timetable.next(schedule.last.unwrap_or(now));
            schedule.forget_the_future(now);
        }
    }

    /// The clock was set back by so much.
    pub(super) fn set_back(&mut self, by: Duration, now: Timestamp) {
        for schedule in &mut self.schedules {
            match &schedule.timetable {
                Timetable::Every(_) => schedule.next = schedule.next.map(|next| next.minus(by)),
                timetable => {
                    let last = schedule
                        .last
                        .filter(|last| last.since(now) < CLOCK_ERROR_LIMIT);
                    schedule.next = timetable.next(last.unwrap_or(now).max(now));
                }
            }
        }
    }
}

impl Schedule {
    /// A last run in the future was written by a clock that was wrong: it is not waited for.
    fn forget_the_future(&mut self, now: Timestamp) {
        if let Timetable::Every(interval) = &self.timetable {
            let latest = now.plus(*interval);
            self.next = self.next.map(|next| next.min(latest));
        } else if self
            .last
            .is_some_and(|last| last.since(now) >= CLOCK_ERROR_LIMIT)
        {
            self.next = self.timetable.next(now);
        }
    }

    /// When to look at it next.
    pub(super) fn wake(&self) -> Option<Timestamp> {
        let next = self.next?;
        if self.jitter.is_zero() {
            return Some(next);
        }
        Some(next.plus(self.jitter.mul_f64(crate::util::retry::jitter())))
    }

    /// Takes what is due, and moves on.
    pub(super) fn take_due(&mut self, now: Timestamp) -> Vec<Timestamp> {
        let Some(next) = self.next else {
            return Vec::new();
        };
        let due = self.timetable.due(next, now, self.catch_up);
        self.next = due.next;
        due.runs
    }

    /// Whether a run may start now; if not, it is skipped or waits.
    pub(super) fn admit(&mut self, moment: Timestamp) -> bool {
        let free = self.running == 0 || self.overlap == Overlap::Allow;
        if free {
            self.running += 1;
            self.last = self.last.max(Some(moment));
        } else if self.overlap == Overlap::QueueOne && self.queued.is_none() {
            self.queued = Some(moment);
        } else {
            self.skipped = self.skipped.saturating_add(1);
        }
        free
    }
}
