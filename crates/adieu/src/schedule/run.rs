//! One run of a job, from its start to what is said of it.

use std::borrow::Cow;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::time::SystemTime;

use super::fenced::Fenced;
use super::lease::{Claim, Grip, Memory};
use super::tick::Tick;
use crate::component::BoxFuture;
use crate::duration::show;
use crate::error::{BoxError, Error, Failure};
use crate::panics::Caught;
use crate::report::Notice;
use crate::spawn;
use crate::stop::Stop;

pub(super) type Job = Arc<dyn Fn(Run) -> BoxFuture<Result<(), BoxError>> + Send + Sync>;

/// What a job is given: which run this is, and the stop.
#[derive(Clone)]
pub struct Run {
    stop: Stop,
    name: Arc<str>,
    scheduled: Tick,
    memory: Option<Arc<Memory>>,
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

    /// The moment this run was due. Of several replicas, and in a run that makes up for a missed one, the same.
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
        match &self.memory {
            Some(memory) => Ok(memory.fenced(key, self.token)),
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
enum Verdict {
    Done,
    Failed(Failure),
    /// Another replica has run it.
    NotOurs,
    /// Another replica is at it; if it is not done by then, it is ours.
    Later(Tick),
}

/// Starts a run that was admitted, and those that queue behind it. Too late means that the service is over.
pub(super) fn launch(stop: &Stop, number: u32, tick: Tick) {
    let found = stop
        .core
        .agenda
        .plan()
        .lines
        .get(number as usize)
        .map(|line| {
            let name = Arc::clone(&line.name);
            (
                name,
                line.place,
                Arc::clone(&line.job),
                line.memory.clone(),
                line.timeout,
            )
        });
    let Some((name, place, job, memory, timeout)) = found else {
        return;
    };
    let ours = stop.clone();
    let label = Cow::Owned(name.to_string());
    let work = async move {
        let mut turn = Some(tick);
        while let Some(tick) = turn {
            let run = Run {
                stop: ours.clone(),
                name: Arc::clone(&name),
                scheduled: tick,
                memory: memory.clone(),
                token: 0,
            };
            let verdict = one(run, &job, place, timeout).await;
            turn = ended(&ours, number, tick, verdict);
        }
    };
    let _ = spawn::task(stop, label, place, work);
}

/// A lease that is given back if the run is cut, after the work is dropped: another replica need not wait for its end.
struct Hold {
    grip: Option<Arc<Grip>>,
    stop: Stop,
    label: String,
    place: &'static Location<'static>,
}

impl Hold {
    fn new(grip: Grip, run: &Run, place: &'static Location<'static>) -> Self {
        Self {
            grip: Some(Arc::new(grip)),
            stop: run.stop.clone(),
            label: format!("{}: lease", run.name),
            place,
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(grip) = self.grip.take() {
            let release = async move {
                // Not told, it is over by itself.
                let _ = grip.release(None).await;
            };
            let label = Cow::Owned(std::mem::take(&mut self.label));
            let _ = spawn::task(&self.stop, label, self.place, release);
        }
    }
}

async fn one(
    mut run: Run,
    job: &Job,
    place: &'static Location<'static>,
    timeout: Option<std::time::Duration>,
) -> Verdict {
    let (memory, tick) = (run.memory.clone(), run.scheduled);
    let stop = run.stop.clone();
    let clock = stop.core.agenda.clock();
    let mut hold = match &memory {
        Some(memory) if memory.is_leased() => match memory.claim(clock, tick).await {
            Ok(Claim::Won(grip)) => Some(Hold::new(grip, &run, place)),
            Ok(Claim::Done) => return Verdict::NotOurs,
            Ok(Claim::Held(until)) => return Verdict::Later(until),
            Err(error) => return Verdict::Failed(Failure::from_error(&error)),
        },
        _ => None,
    };
    let grip = hold.as_ref().and_then(|hold| hold.grip.clone());
    run.token = grip.as_ref().map_or(0, |grip| grip.token());
    let job = Arc::clone(job);
    let work = Caught::new(async move { job(run).await });
    let work = async {
        match timeout {
            None => Some(work.await),
            // Dropped where it waits; that is what a limit on its time means.
            Some(limit) => tokio::time::timeout(limit, work).await.ok(),
        }
    };
    let ended = match &grip {
        None => Ok(work.await),
        Some(grip) => grip.hold(clock, work).await,
    };
    let is_lost = ended.is_err();
    let verdict = match ended {
        Ok(Some(Ok(Ok(())))) => Verdict::Done,
        Ok(Some(Ok(Err(error)))) => Verdict::Failed(Failure::from_error(&*error)),
        Ok(Some(Err(panic))) => Verdict::Failed(Failure::from(&panic)),
        Ok(None) => failed(format!(
            "it took longer than {}",
            show(timeout.unwrap_or_default())
        )),
        Err(lost) => failed(lost.to_owned()),
    };
    // Whatever it is now, it is not cut any more.
    if let Some(hold) = &mut hold {
        hold.grip = None;
    }
    let noted = match (&grip, &memory) {
        _ if is_lost => Ok(()),
        // Shielded: what was done and not noted would be done again.
        (Some(grip), _) => stop.shield(grip.release(Some(tick))).await,
        (None, Some(memory)) => stop.shield(memory.note(tick)).await,
        (None, None) => Ok(()),
    };
    match (verdict, noted) {
        (Verdict::Done, Err(error)) => Verdict::Failed(Failure::from_error(&error)),
        (verdict, _) => verdict,
    }
}

fn failed(why: String) -> Verdict {
    Verdict::Failed(Failure {
        causes: vec![why],
        panicked_at: None,
    })
}

/// Writes down how it went; gives the run that waited for this one.
fn ended(stop: &Stop, number: u32, tick: Tick, verdict: Verdict) -> Option<Tick> {
    let core = &stop.core;
    let mut plan = core.agenda.plan();
    let line = plan.lines.get_mut(number as usize)?;
    let mut notice = None;
    let mut retry = None;
    match verdict {
        Verdict::Done => line.runs = line.runs.saturating_add(1),
        Verdict::Failed(failure) => {
            line.runs = line.runs.saturating_add(1);
            line.failed = line.failed.saturating_add(1);
            let job = Arc::clone(&line.name);
            notice = Some(Notice::RunFailed { job, failure });
        }
        Verdict::NotOurs => {}
        Verdict::Later(until) => {
            line.retry = line.retry.max(Some(tick));
            retry = Some((until, number));
        }
    }
    // A run that waits is not begun while stopping.
    let turn = line.queued.take().filter(|_| !stop.is_requested());
    match turn {
        Some(tick) => line.last = line.last.max(Some(tick)),
        None => line.running -= 1,
    }
    plan.retries.extend(retry);
    drop(plan);
    if retry.is_some() {
        core.agenda.changed.notify_waiters();
    }
    if let Some(notice) = notice {
        core.note(notice);
    }
    turn
}
