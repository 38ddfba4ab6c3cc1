//! One run of a job, from its start to what is said of it.

use std::borrow::Cow;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::time::SystemTime;

use tracing::{Instrument, Span};

use super::fenced::Fenced;
use super::lease::{Claim, LeaseGuard, ScheduleStore};
use super::timestamp::Timestamp;
use crate::component::BoxFuture;
use crate::error::{BoxError, Error, Failure};
use crate::report::Notice;
use crate::runtime::spawn;
use crate::runtime::stop::Stop;
use crate::util::duration::show;
use crate::util::panics::CatchUnwind;

pub(super) type JobFn = Arc<dyn Fn(Run) -> BoxFuture<Result<(), BoxError>> + Send + Sync>;

/// What a job is given: which run this is, and the stop.
#[derive(Clone)]
pub struct Run {
    stop: Stop,
    name: Arc<str>,
    scheduled: Timestamp,
    store: Option<Arc<ScheduleStore>>,
    token: u64,
}

impl Run {
    /// The stop: a run that takes long looks at it, and ends in good order.
    #[must_use]
    pub const fn stop(&self) -> &Stop {
        &self.stop
    }

    /// The name of the schedule.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The moment this run was due. Of several replicas, and in a run that makes up for a missed one, it is that of the timetable.
    #[must_use]
    pub fn scheduled(&self) -> SystemTime {
        self.scheduled.system()
    }

    /// Grows with every run under a lease; 0 without one. For a database of your own that is to refuse what an older
    /// run writes.
    #[must_use]
    pub const fn fencing_token(&self) -> u64 {
        self.token
    }

    /// State in the schedule's store that only the run with the lease can change.
    ///
    /// # Errors
    /// The schedule has no store: say `.remember(&store)` or `.one_replica(&store, lease)`.
    pub fn state<T>(&self, key: &str) -> Result<Fenced<T>, Error> {
        match &self.store {
            Some(store) => Ok(store.fenced(key, self.token)),
            None => Err(Error::config(format!(
                "schedule `{}` has no store for `{key}`: give it one with `.remember(&store)`",
                self.name
            ))),
        }
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("name", &self.name)
            .field("scheduled", &self.scheduled())
            .finish_non_exhaustive()
    }
}

/// How a run ended.
enum RunOutcome {
    Done,
    Failed(Failure),
    /// Another replica has run it.
    NotOurs,
    /// Another replica is at it; if it is not done by then, it is ours.
    Later(Timestamp),
}

/// Starts a run that was admitted, and those that queue behind it. Too late means that the service is over.
pub(super) fn launch(stop: &Stop, number: u32, moment: Timestamp) {
    let found = stop
        .core
        .schedules()
        .lock()
        .schedules
        .get(number as usize)
        .map(|schedule| {
            let name = Arc::clone(&schedule.name);
            (
                name,
                schedule.location,
                Arc::clone(&schedule.job),
                schedule.store.clone(),
                schedule.timeout,
            )
        });
    let Some((name, location, job, store, timeout)) = found else {
        return;
    };
    let ours = stop.clone();
    let label = Cow::Owned(name.to_string());
    let work = async move {
        let mut turn = Some(moment);
        while let Some(moment) = turn {
            let run = Run {
                stop: ours.clone(),
                name: Arc::clone(&name),
                scheduled: moment,
                store: store.clone(),
                token: 0,
            };
            let verdict = one(run, &job, location, timeout).await;
            turn = ended(&ours, number, moment, verdict);
        }
    };
    let _ = spawn::task(stop, label, location, work);
}

/// A lease that is given back if the run is cut, after the work is dropped: another replica need not wait for its end.
struct ReleaseLeaseOnDrop {
    lease_guard: Option<Arc<LeaseGuard>>,
    stop: Stop,
    label: String,
    location: &'static Location<'static>,
}

impl ReleaseLeaseOnDrop {
    fn new(lease_guard: LeaseGuard, run: &Run, location: &'static Location<'static>) -> Self {
        Self {
            lease_guard: Some(Arc::new(lease_guard)),
            stop: run.stop.clone(),
            label: format!("{}: lease", run.name),
            location,
        }
    }
}

impl Drop for ReleaseLeaseOnDrop {
    fn drop(&mut self) {
        if let Some(lease_guard) = self.lease_guard.take() {
            let release = async move {
                // Not told, it is over by itself.
                let _ = lease_guard.release(None).await;
            };
            let label = Cow::Owned(std::mem::take(&mut self.label));
            let _ = spawn::task(&self.stop, label, self.location, release);
        }
    }
}

async fn one(
    mut run: Run,
    job: &JobFn,
    location: &'static Location<'static>,
    timeout: Option<std::time::Duration>,
) -> RunOutcome {
    let (store, moment) = (run.store.clone(), run.scheduled);
    let stop = run.stop.clone();
    let clock = stop.core.schedules().clock();
    let mut hold = match &store {
        Some(store) if store.is_leased() => match store.claim(clock, moment).await {
            Ok(Claim::Won(lease_guard, wrong)) => {
                if let Some(wrong) = wrong {
                    let (job, failure) = (Arc::clone(&run.name), failure(wrong));
                    stop.core.note(Notice::RunFailed { job, failure });
                }
                Some(ReleaseLeaseOnDrop::new(lease_guard, &run, location))
            }
            Ok(Claim::Done) => return RunOutcome::NotOurs,
            Ok(Claim::Held(until)) => return RunOutcome::Later(until),
            Err(error) => return RunOutcome::Failed(Failure::from_error(&error)),
        },
        _ => None,
    };
    let lease_guard = hold.as_ref().and_then(|hold| hold.lease_guard.clone());
    run.token = lease_guard
        .as_ref()
        .map_or(0, |lease_guard| lease_guard.token());
    let job = Arc::clone(job);
    let due = jiff::Timestamp::try_from(run.scheduled()).ok();
    // Each run begins a trace of its own, as each job of a queue does.
    let span = tracing::info_span!(
        target: "adieu",
        parent: None,
        "job",
        job = &*run.name,
        scheduled = due.map(display)
    );
    span.follows_from(Span::current());
    let work = CatchUnwind::new(async move { job(run).await }.instrument(span));
    let work = async {
        match timeout {
            None => Some(work.await),
            // Dropped where it waits; that is what a limit on its time means.
            Some(limit) => tokio::time::timeout(limit, work).await.ok(),
        }
    };
    let ended = match &lease_guard {
        None => Ok(work.await),
        Some(lease_guard) => lease_guard.hold(clock, work).await,
    };
    let is_lost = ended.is_err();
    let verdict = match ended {
        Ok(Some(Ok(Ok(())))) => RunOutcome::Done,
        Ok(Some(Ok(Err(error)))) => RunOutcome::Failed(Failure::from_error(&*error)),
        Ok(Some(Err(panic))) => RunOutcome::Failed(Failure::from(&panic)),
        Ok(None) => failed(format!(
            "it took longer than {}",
            show(timeout.unwrap_or_default())
        )),
        Err(lost) => failed(lost.to_owned()),
    };
    // From here on the run cannot be cancelled any more.
    if let Some(hold) = &mut hold {
        hold.lease_guard = None;
    }
    let noted = match (&lease_guard, &store) {
        _ if is_lost => Ok(()),
        // Shielded: what was done and not noted would be done again.
        (Some(lease_guard), _) => stop.shield(lease_guard.release(Some(moment))).await,
        (None, Some(store)) => stop.shield(store.note(moment)).await,
        (None, None) => Ok(()),
    };
    match (verdict, noted) {
        (RunOutcome::Done, Err(error)) => RunOutcome::Failed(Failure::from_error(&error)),
        (verdict, _) => verdict,
    }
}

fn failed(why: String) -> RunOutcome {
    RunOutcome::Failed(failure(why))
}

fn failure(why: String) -> Failure {
    Failure {
        causes: vec![why],
        panicked_at: None,
    }
}

/// Writes down how it went; gives the run that waited for this one.
fn ended(stop: &Stop, number: u32, moment: Timestamp, verdict: RunOutcome) -> Option<Timestamp> {
    let core = &stop.core;
    let mut table = core.schedules().lock();
    let schedule = table.schedules.get_mut(number as usize)?;
    let mut notice = None;
    let mut retry = None;
    match verdict {
        RunOutcome::Done => schedule.runs = schedule.runs.saturating_add(1),
        RunOutcome::Failed(failure) => {
            schedule.runs = schedule.runs.saturating_add(1);
            schedule.failed = schedule.failed.saturating_add(1);
            let job = Arc::clone(&schedule.name);
            notice = Some(Notice::RunFailed { job, failure });
        }
        RunOutcome::NotOurs => {}
        RunOutcome::Later(until) => {
            schedule.retry = schedule.retry.max(Some(moment));
            retry = Some((until, number));
        }
    }
    // A run that waits is not begun while stopping.
    let turn = schedule.queued.take().filter(|_| !stop.is_requested());
    match turn {
        Some(moment) => schedule.last = schedule.last.max(Some(moment)),
        None => schedule.running -= 1,
    }
    table.retries.extend(retry);
    drop(table);
    if retry.is_some() {
        core.schedules().changed.notify_waiters();
    }
    if let Some(notice) = notice {
        core.note(notice);
    }
    turn
}
