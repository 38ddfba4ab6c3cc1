//! A schedule as `setup` makes it.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use super::lease::ScheduleStore;
use super::run::{JobFn, Run};
use super::scheduler;
use super::table::{Schedule, Stage};
use super::timetable::{CatchUp, Timetable};
use crate::component::{self, Ending, TaskBuilder};
use crate::error::Error;
use crate::runtime::registrar::Registrar;
use crate::state::StoreHandle;

/// What happens when a run is due and the one before has not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Overlap {
    /// It does not take location.
    #[default]
    Skip,
    /// It starts when the one before has ended. Further ones do not take location.
    QueueOne,
    /// It starts beside it.
    Allow,
}

/// When, as it was written.
pub(crate) enum When {
    Every(Duration),
    Cron {
        line: Cow<'static, str>,
        zone: Cow<'static, str>,
    },
}

/// A schedule about to be planned: it is at the end of the statement that makes it, and begins when `setup` has
/// returned. Made by [`App::every`](crate::App::every) and [`App::cron`](crate::App::cron).
///
/// ```
/// # use std::time::Duration;
/// # use adieu::schedule::{CatchUp, Overlap};
/// # async fn send_digests(_run: adieu::schedule::Run) -> std::io::Result<()> { Ok(()) }
/// # async fn setup(app: &mut adieu::App, store: adieu::state::StoreHandle) -> adieu::Result {
/// app.cron("digest", "0 6 * * *", "Europe/Berlin", |run| send_digests(run))
///     .overlap(Overlap::QueueOne)
///     .catch_up(CatchUp::Once)
///     .jitter(Duration::from_secs(30))
///     .timeout(Duration::from_secs(600))
///     .remember(&store);
/// # Ok(())
/// # }
/// ```
pub struct ScheduleBuilder<'app> {
    app: &'app mut Registrar,
    name: Cow<'static, str>,
    location: &'static Location<'static>,
    order: Option<(When, JobFn)>,
    overlap: Overlap,
    catch_up: CatchUp,
    at_start: bool,
    jitter: Duration,
    timeout: Option<Duration>,
    store: Option<(StoreHandle, Option<Duration>)>,
}

impl<'app> ScheduleBuilder<'app> {
    pub(crate) fn new<F, Fut>(
        app: &'app mut Registrar,
        name: Cow<'static, str>,
        location: &'static Location<'static>,
        when: When,
        job: F,
    ) -> Self
    where
        F: Fn(Run) -> Fut + Send + Sync + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: Ending,
    {
        let job: JobFn = Arc::new(move |run| {
            let work = job(run);
            Box::pin(async move { work.await.into_result() })
        });
        Self {
            app,
            name,
            location,
            order: Some((when, job)),
            overlap: Overlap::default(),
            catch_up: CatchUp::default(),
            at_start: false,
            jitter: Duration::ZERO,
            timeout: None,
            store: None,
        }
    }

    /// What happens when a run is due and the one before has not ended; it is skipped, if left out.
    pub const fn overlap(mut self, overlap: Overlap) -> Self {
        self.overlap = overlap;
        self
    }

    /// What happens about runs that were missed; one for all of them, if left out. What was missed while the service
    /// was down is known to a schedule that [remembers](ScheduleBuilder::remember).
    pub const fn catch_up(mut self, catch_up: CatchUp) -> Self {
        self.catch_up = catch_up;
        self
    }

    /// Runs when the service has started, too.
    pub const fn at_start(mut self) -> Self {
        self.at_start = true;
        self
    }

    /// Starts each run later by a random time up to this, so that many do not start at once.
    pub const fn jitter(mut self, most: Duration) -> Self {
        self.jitter = most;
        self
    }

    /// The longest a run may take. Then it is dropped, and has failed.
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Keeps the last run in this store, under `schedule.` and the name. It is written when a run has ended: a run
    /// that was killed counts as missed.
    pub fn remember(mut self, store: &StoreHandle) -> Self {
        self.store = Some((store.clone(), None));
        self
    }

    /// Of several replicas with this store, one runs each time that is due. It holds a lease, renews it while it runs,
    /// and gives it back when it has ended. If it is killed, paused or cut off, another takes over when `lease` has
    /// passed; what the first still writes through [`Run::state`] is refused.
    ///
    /// The clocks of the replicas may differ by half of `lease`. Intervals are reckoned from 1970, so that all replicas
    /// mean the same moments. Implies [`ScheduleBuilder::remember`].
    pub fn one_replica(mut self, store: &StoreHandle, lease: Duration) -> Self {
        self.store = Some((store.clone(), Some(lease)));
        self
    }

    fn plan(&mut self, when: When, job: JobFn) -> Result<(), Error> {
        let (name, location): (Arc<str>, _) = (Arc::from(&*self.name), self.location);
        let bad = |why: String| Error::config(format!("schedule `{name}` (at {location}): {why}"));
        let core = Arc::clone(&self.app.core);
        let lease = self.store.as_ref().and_then(|(_, lease)| *lease);
        let timetable = self.timetable(when, lease.is_some()).map_err(bad)?;
        if lease.is_some_and(|lease| lease < Duration::from_millis(100)) {
            return Err(bad("a lease of less than 100 ms cannot be kept".to_owned()));
        }
        if lease.is_some() && self.overlap == Overlap::Allow {
            return Err(bad(
                "with a lease one run takes place at a time: overlap cannot be allowed".to_owned(),
            ));
        }
        if timetable.next(core.schedules().clock().now()).is_none() {
            return Err(bad("its time never comes".to_owned()));
        }
        let store = self
            .store
            .take()
            .map(|(store, lease)| Arc::new(ScheduleStore::new(store, &name, lease)));
        let schedule = Schedule {
            name: Arc::clone(&name),
            location,
            timetable,
            job,
            overlap: self.overlap,
            catch_up: self.catch_up,
            at_start: self.at_start,
            jitter: self.jitter,
            timeout: self.timeout,
            store,
            next: None,
            last: None,
            retry: None,
            queued: None,
            running: 0,
            runs: 0,
            failed: 0,
            skipped: 0,
        };
        let mut table = core.schedules().lock();
        let stage = table.stage;
        match stage {
            Stage::Over => {
                return Err(bad(
                    "the task `schedules` was stopped, so it would never run".to_owned(),
                ));
            }
            // Its last run would have to be looked up first.
            Stage::Running if schedule.store.is_some() => {
                return Err(bad(
                    "one that remembers its runs is registered in `setup`, before the service runs"
                        .to_owned(),
                ));
            }
            Stage::Running | Stage::Planning => {}
        }
        let is_first = table.add(schedule).map_err(|name| {
            Error::config(format!(
                "two schedules are named `{name}`, the second at {location}; give one of them a new name"
            ))
        })?;
        if stage == Stage::Running {
            table.begin_last(core.schedules().clock().now());
            core.schedules().changed.notify_waiters();
        }
        drop(table);
        if is_first {
            let work = component::once(scheduler::run);
            drop(TaskBuilder::new(
                self.app,
                "schedules".into(),
                location,
                work,
            ));
        }
        Ok(())
    }

    fn timetable(&self, when: When, aligned: bool) -> Result<Timetable, String> {
        match when {
            When::Every(interval) if interval < Duration::from_millis(1) => {
                Err("an interval has at least a millisecond".to_owned())
            }
            When::Every(interval) if self.jitter >= interval => {
                Err("its jitter is not shorter than its interval".to_owned())
            }
            When::Every(interval) if aligned => Ok(Timetable::Aligned(interval)),
            When::Every(interval) => Ok(Timetable::Every(interval)),
            When::Cron { line, zone } => {
                let cron = self.app.core.schedules().lock().cron(&line)?;
                Ok(Timetable::Cron(cron, Timetable::zone(&zone)?))
            }
        }
    }
}

impl Drop for ScheduleBuilder<'_> {
    fn drop(&mut self) {
        if let Some((when, job)) = self.order.take()
            && let Err(error) = self.plan(when, job)
        {
            self.app.misuse(error);
        }
    }
}

impl fmt::Debug for ScheduleBuilder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScheduleBuilder")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
