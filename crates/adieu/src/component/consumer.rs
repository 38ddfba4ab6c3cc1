//! Consumers: jobs from a queue, several at a time, each settled once.
//!
//! One future fetches, and hands every job to a tracked task of its own, which settles it. Another one beside it
//! looks after what is in hand: renews leases, and gives back what was dropped. Both are shielded, so that after the
//! cancel of a job there is still somebody to give it back.

use std::borrow::Cow;
use std::future::{Future, poll_fn};
use std::panic::Location;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};

use super::task::launch;
use super::{BoxFuture, Ending};
use crate::app::App;
use crate::duration::{FOREVER, show};
use crate::error::{Error, Failure};
use crate::lifecycle::PartId;
use crate::panics::Caught;
use crate::queue::{Chore, Delivery, Grip, Hand, Job, Limits, Queue, QueueError, Verdict};
use crate::report::PartKind;
use crate::retry::{Advice, Backoff};
use crate::spawn;
use crate::stop::Stop;
use crate::supervise::{self, OnFailure};

/// How long a fetch may take to come back once the stop is requested. Then it is dropped, and what it had taken
/// waits for the end of its lease.
const LAST_FETCH: Duration = Duration::from_secs(2);

/// Waits for a queue that does not answer when a job is to be settled. Short: the job's lease goes on meanwhile.
const SETTLING: Backoff = Backoff {
    first: Duration::from_millis(50),
    longest: Duration::from_secs(2),
};

/// A consumer about to start: it does at the end of the statement that makes it, and fetches once `setup` has
/// returned.
///
/// Made by [`App::consume`](crate::App::consume).
pub struct ConsumerPart<'app> {
    app: &'app mut App,
    name: Cow<'static, str>,
    place: &'static Location<'static>,
    rules: Rules,
    code: Option<Code>,
}

type Code = Box<dyn FnOnce(Site) -> BoxFuture<crate::Result> + Send>;

#[derive(Clone, Copy)]
struct Rules {
    concurrency: usize,
    prefetch: usize,
    job_limit: Duration,
    limits: Limits,
}

/// Where a consumer runs, and by which rules.
struct Site {
    stop: Stop,
    id: PartId,
    name: Arc<str>,
    place: &'static Location<'static>,
    rules: Rules,
}

impl<'app> ConsumerPart<'app> {
    pub(crate) fn new<Q, H, Fut>(
        app: &'app mut App,
        name: Cow<'static, str>,
        place: &'static Location<'static>,
        queue: Q,
        handler: H,
    ) -> Self
    where
        Q: Queue,
        H: Fn(Job) -> Fut + Send + Sync + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: Ending,
    {
        let code: Code = Box::new(move |site| {
            let handler: Handler = Box::new(move |job| {
                let work = handler(job);
                Box::pin(async move { work.await.into_result() })
            });
            let hand = Arc::new(Hand::new(queue.lease()));
            let consumer = Arc::new(Consumer {
                queue,
                handler,
                hand,
                given_back: AtomicUsize::new(0),
                site,
            });
            Box::pin(consumer.run())
        });
        let rules = Rules {
            concurrency: 1,
            prefetch: 0,
            job_limit: FOREVER,
            limits: Limits {
                attempts: 5,
                backoff: Backoff {
                    first: Duration::from_secs(1),
                    longest: Duration::from_secs(600),
                },
            },
        };
        Self {
            app,
            name,
            place,
            rules,
            code: Some(code),
        }
    }

    /// How many jobs are worked on at a time; one if left out.
    pub const fn concurrency(mut self, jobs: usize) -> Self {
        self.rules.concurrency = jobs;
        self
    }

    /// How many more jobs are fetched ahead, so that the next one is there when one is done; none if left out. For
    /// many short jobs. On a stop they are given back.
    pub const fn prefetch(mut self, jobs: usize) -> Self {
        self.rules.prefetch = jobs;
        self
    }

    /// How often a job is tried before it becomes a dead letter; 5 if left out. See [`Job`] for what counts.
    pub const fn attempts(mut self, attempts: u32) -> Self {
        self.rules.limits.attempts = attempts;
        self
    }

    /// How long a job that failed waits; 1 s doubling to 10 minutes if left out.
    pub const fn backoff(mut self, backoff: Backoff) -> Self {
        self.rules.limits.backoff = backoff;
        self
    }

    /// The longest an attempt may take; then it is cut, and has failed. There is no limit if left out: leases are
    /// renewed for as long as the handler runs.
    pub const fn job_limit(mut self, limit: Duration) -> Self {
        self.rules.job_limit = limit;
        self
    }

    fn start(&mut self, code: Code) -> Result<(), Error> {
        let (core, place) = (Arc::clone(&self.app.core), self.place);
        let mut rules = self.rules;
        if rules.concurrency == 0 || rules.limits.attempts == 0 {
            let name = &self.name;
            return Err(Error::config(format!(
                "consumer `{name}` would do nothing: concurrency and attempts must be at least 1"
            )));
        }
        rules.job_limit = rules.job_limit.min(FOREVER);
        let name: Arc<str> = Arc::from(&*self.name);
        let id = core.register(
            std::mem::take(&mut self.name),
            PartKind::Consumer,
            place,
            None,
        )?;
        let stop = Stop::new(Arc::clone(&core));
        let run = Box::new(move |stop| {
            code(Site {
                stop,
                id,
                name,
                place,
                rules,
            })
        });
        launch(&core, id, supervise::once(stop, id, OnFailure::Stop, run));
        Ok(())
    }
}

impl Drop for ConsumerPart<'_> {
    fn drop(&mut self) {
        if let Some(code) = self.code.take()
            && let Err(error) = self.start(code)
        {
            self.app.misuse(error);
        }
    }
}

type Handler = Box<dyn Fn(Job) -> BoxFuture<crate::Result> + Send + Sync>;

struct Consumer<Q: Queue> {
    queue: Q,
    handler: Handler,
    hand: Arc<Hand<Q::Receipt>>,
    given_back: AtomicUsize,
    site: Site,
}

impl<Q: Queue> Consumer<Q> {
    async fn run(self: Arc<Self>) -> crate::Result {
        let stop = self.site.stop.clone();
        if stop.until(stop.core.running.pass()).await.is_none() {
            return Ok(());
        }
        // The whole of it: it ends by itself soon after the stop, and must see the jobs off that are cancelled.
        stop.shield(async {
            let mut fetching = pin!(self.fetch());
            let mut minding = pin!(self.mind());
            let mut fetched = false;
            poll_fn(|cx| {
                if !fetched && fetching.as_mut().poll(cx).is_ready() {
                    fetched = true;
                    self.hand.close();
                }
                minding.as_mut().poll(cx)
            })
            .await;
        })
        .await;
        let given_back = self.given_back.load(Ordering::Relaxed);
        if given_back > 0 {
            self.note(format!("{given_back} jobs given back"));
        }
        Ok(())
    }

    /// Fetches until the stop, as many as there is room for.
    async fn fetch(self: &Arc<Self>) {
        let Site { stop, rules, .. } = &self.site;
        let most = rules
            .concurrency
            .saturating_add(rules.prefetch)
            .min(Semaphore::MAX_PERMITS);
        let room = Arc::new(Semaphore::new(most));
        let desks = Arc::new(Semaphore::new(rules.concurrency.min(most)));
        // Half of what is fetched ahead: the other half is at hand meanwhile, and a call fetches many.
        let half = u32::try_from(rules.prefetch.min(most) / 2).unwrap_or(u32::MAX);
        let least = half.max(1);
        let mut failures = 0_u32;
        loop {
            // Neither is ever closed, so each acquire ends with a permit.
            let Some(Ok(mut permits)) = stop
                .until(Arc::clone(&room).acquire_many_owned(least))
                .await
            else {
                return;
            };
            if let Ok(more) = u32::try_from(room.available_permits())
                && let Ok(rest) = Arc::clone(&room).try_acquire_many_owned(more)
            {
                permits.merge(rest);
            }
            let fetched = self
                .in_time(self.queue.fetch(permits.num_permits(), stop))
                .await;
            let Some(fetched) = fetched else {
                return self
                    .log_failed_fetch(&QueueError::refused("it did not come back in time"), None);
            };
            match fetched {
                Ok(deliveries) => {
                    failures = 0;
                    for delivery in deliveries {
                        let grip = self.hand.take(delivery.receipt.clone());
                        // What came too late, or more than was asked for, is dropped here, and so given back.
                        if !stop.is_requested()
                            && let Some(place) = permits.split(1)
                        {
                            self.begin(delivery, grip, place, Arc::clone(&desks));
                        }
                    }
                }
                Err(error) => {
                    failures = failures.saturating_add(1);
                    let wait = Backoff::default().wait(failures);
                    self.log_failed_fetch(&error, Some(wait));
                    stop.sleep(wait).await;
                }
            }
            if stop.is_requested() {
                return;
            }
        }
    }

    /// Waits for a fetch, after the stop for a moment only.
    async fn in_time<F: Future>(&self, fetch: F) -> Option<F::Output> {
        let mut fetch = pin!(fetch);
        if let Some(fetched) = self.site.stop.until(fetch.as_mut()).await {
            return Some(fetched);
        }
        timeout(LAST_FETCH, fetch).await.ok()
    }

    fn log_failed_fetch(&self, error: &QueueError, wait: Option<Duration>) {
        let (part, failure) = (&*self.site.name, Failure::from_error(error));
        let next = wait.map_or_else(String::new, |wait| {
            format!(", trying again in {}", show(wait))
        });
        tracing::warn!(target: "adieu", part, "cannot fetch jobs{next}: {failure}");
    }

    /// Starts the work on a job, in a task of its own.
    fn begin(
        self: &Arc<Self>,
        delivery: Delivery<Q::Receipt>,
        grip: Grip<Q::Receipt>,
        place: OwnedSemaphorePermit,
        desks: Arc<Semaphore>,
    ) {
        let us = Arc::clone(self);
        let name = Cow::Owned(format!("{}: job", self.site.name));
        let work = async move {
            us.work(delivery, grip, &desks).await;
            drop(place);
        };
        // Too late, and the grip is dropped with the future: the job is given back.
        let _ = spawn::task(&self.site.stop, name, self.site.place, work);
    }

    /// One job from the fetch to its settlement. Dropped before the handler has ended, the job is given back.
    async fn work(
        &self,
        delivery: Delivery<Q::Receipt>,
        grip: Grip<Q::Receipt>,
        desks: &Semaphore,
    ) {
        let Site { stop, rules, .. } = &self.site;
        // Fetched ahead, and not begun before the stop: somebody else's.
        let Some(Ok(_desk)) = stop.until(desks.acquire()).await else {
            return;
        };
        let Delivery {
            id,
            payload,
            attempt,
            ..
        } = delivery;
        let (verdict, reason) = if rules.limits.is_worn_out(attempt) {
            let before = attempt - 1;
            (
                Verdict::Dead,
                format!("it was begun {before} times and never ended"),
            )
        } else {
            let job = Job {
                id: id.clone(),
                payload,
                attempt,
            };
            let failed = self.attempt(job).await;
            let verdict = rules
                .limits
                .judge(attempt, failed.as_ref().map(|(advice, _)| *advice));
            (
                verdict,
                failed.map(|(_, why)| why.to_string()).unwrap_or_default(),
            )
        };
        // From here on the job is not given back: it has been done, or has failed.
        stop.shield(self.settle(&id, attempt, grip, &verdict, &reason))
            .await;
    }

    async fn attempt(&self, job: Job) -> Option<(Advice, Failure)> {
        let limit = self.site.rules.job_limit;
        let work = Caught::new(async { (self.handler)(job).await });
        match timeout(limit, work).await {
            Ok(Ok(Ok(()))) => None,
            Ok(Ok(Err(error))) => Some((Advice::of(&error), Failure::from_error(&*error))),
            Ok(Err(panic)) => Some((Advice::Again, Failure::from(&panic))),
            Err(_) => {
                let error: crate::BoxError = format!("cut after {}", show(limit)).into();
                Some((Advice::Again, Failure::from_error(&*error)))
            }
        }
    }

    /// Tells the queue, until it has heard; while the service stops, as long as the drain lasts.
    async fn settle(
        &self,
        id: &str,
        attempt: u32,
        grip: Grip<Q::Receipt>,
        verdict: &Verdict,
        reason: &str,
    ) {
        let part = &*self.site.name;
        match verdict {
            Verdict::Done => {}
            Verdict::Again { after, .. } => {
                let after = show(*after);
                tracing::warn!(target: "adieu", part, job = id, attempt, "a job failed, again in {after}: {reason}");
            }
            Verdict::Dead => {
                tracing::error!(target: "adieu", part, job = id, attempt, "a job is a dead letter: {reason}");
            }
        }
        let mut failures = 0_u32;
        let told = loop {
            let told = match verdict {
                Verdict::Done => self.queue.ack(grip.receipt()).await,
                Verdict::Again { after, counted } => {
                    self.queue.retry(grip.receipt(), *after, *counted).await
                }
                Verdict::Dead => self.queue.bury(grip.receipt(), reason).await,
            };
            let Err(error) = told else { break Ok(()) };
            failures = failures.saturating_add(1);
            let wake = Instant::now() + SETTLING.wait(failures);
            let in_vain = self.site.stop.deadline().is_some_and(|end| wake >= end);
            if error.is_lost() || in_vain {
                break Err(error);
            }
            tokio::time::sleep_until(wake).await;
        };
        if let Err(error) = told {
            let failure = Failure::from_error(&error);
            let ended = match verdict {
                Verdict::Done => "done",
                Verdict::Again { .. } | Verdict::Dead => "tried",
            };
            let note =
                format!("job {id} was {ended} and the queue could not be told: it will come again");
            tracing::error!(target: "adieu", part, job = id, "{note}: {failure}");
            self.note(note);
        }
        // Also when it is not told: giving it back now would only make the second run certain.
        grip.settle();
    }

    /// Looks after what is in hand until that is nothing, and nothing can come.
    async fn mind(&self) {
        loop {
            let done = match self.hand.chore() {
                Chore::Nothing => return,
                Chore::WaitUntil(when) => {
                    let changed = self.hand.changed();
                    match when {
                        Some(when) => drop(timeout_at(when, changed).await),
                        None => changed.await,
                    }
                    continue;
                }
                Chore::Renew(receipts) => {
                    let extended = self.queue.extend(&receipts).await;
                    extended.map_err(|error| ("renew leases", error))
                }
                Chore::GiveBack(receipts) => {
                    let given = self.give_back(&receipts).await;
                    given.map_err(|error| ("give jobs back", error))
                }
            };
            if let Err((what, error)) = done {
                let (part, failure) = (&*self.site.name, Failure::from_error(&error));
                tracing::warn!(target: "adieu", part, "cannot {what}: {failure}");
            }
        }
    }

    /// Tries for as long as the drain lasts, and once after it.
    async fn give_back(&self, receipts: &[Q::Receipt]) -> Result<(), QueueError> {
        let (count, mut failures) = (receipts.len(), 0_u32);
        let given = loop {
            let given = self.queue.give_back(receipts).await;
            failures = failures.saturating_add(1);
            let wake = Instant::now() + SETTLING.wait(failures);
            if given.is_ok() || self.site.stop.deadline().is_none_or(|end| wake >= end) {
                break given;
            }
            tokio::time::sleep_until(wake).await;
        };
        match given {
            Ok(()) => drop(self.given_back.fetch_add(count, Ordering::Relaxed)),
            Err(_) => self.note(format!(
                "{count} jobs could not be given back; they come again when their leases are over"
            )),
        }
        given
    }

    fn note(&self, note: String) {
        /// A report is for people.
        const MOST: usize = 20;
        self.site.stop.core.with_part(self.site.id, |part| {
            if part.notes.len() < MOST {
                part.notes.push(note);
            }
        });
    }
}
