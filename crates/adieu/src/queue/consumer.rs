//! Consumers: jobs from a queue, several at a time, each settled once.
//!
//! One future fetches, and hands every job to a tracked task of its own, which settles it. Another one beside it
//! maintains the leases: renews them, and gives back the jobs that were dropped. Both are shielded, so that a cancelled
//! job can still be given back.

use std::borrow::Cow;
use std::future::{Future, poll_fn};
use std::panic::Location;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use adieu_lifecycle::ComponentId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{Instrument, Span};

use super::leases::{DeliveryGuard, LeaseAction, LeaseTable};
use super::retry_policy::{RetryPolicy, Settlement};
use super::{Delivery, Job, Queue, QueueError};
use crate::component::{BoxFuture, Ending, launch};
use crate::error::{Error, Failure};
use crate::report::ComponentKind;
use crate::runtime::registrar::Registrar;
use crate::runtime::spawn;
use crate::runtime::stop::Stop;
use crate::runtime::supervise::{self, OnFailure};
use crate::util::duration::{FOREVER, show};
use crate::util::panics::CatchUnwind;
use crate::util::retry::{Advice, Backoff};

/// How long a fetch may take to come back once the stop is requested. Then it is dropped, and what it had taken
/// waits for the end of its lease.
const FETCH_TIMEOUT_IN_STOP: Duration = Duration::from_secs(2);

/// Waits for a queue that does not answer when a job is to be settled. Short: the job's lease goes on meanwhile.
const SETTLE_BACKOFF: Backoff = Backoff {
    first: Duration::from_millis(50),
    longest: Duration::from_secs(2),
};

/// A consumer about to start: it does at the end of the statement that makes it, and fetches once `setup` has
/// returned.
///
/// Made by [`App::consume`](crate::App::consume).
pub struct ConsumerBuilder<'app> {
    app: &'app mut Registrar,
    name: Cow<'static, str>,
    location: &'static Location<'static>,
    config: ConsumerConfig,
    start: Option<StartConsumer>,
}

type StartConsumer = Box<dyn FnOnce(ConsumerContext) -> BoxFuture<crate::Result> + Send>;

#[derive(Clone, Copy)]
struct ConsumerConfig {
    concurrency: usize,
    prefetch: usize,
    job_limit: Duration,
    retry: RetryPolicy,
}

/// Where a consumer runs, and by which config.
struct ConsumerContext {
    stop: Stop,
    id: ComponentId,
    name: Arc<str>,
    location: &'static Location<'static>,
    config: ConsumerConfig,
}

impl<'app> ConsumerBuilder<'app> {
    pub(crate) fn new<Q, H, Fut>(
        app: &'app mut Registrar,
        name: Cow<'static, str>,
        location: &'static Location<'static>,
        queue: Q,
        handler: H,
    ) -> Self
    where
        Q: Queue,
        H: Fn(Job) -> Fut + Send + Sync + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: Ending,
    {
        let start: StartConsumer = Box::new(move |context| {
            let handler: JobHandler = Box::new(move |job| {
                let work = handler(job);
                Box::pin(async move { work.await.into_result() })
            });
            let leases = Arc::new(LeaseTable::new(queue.lease()));
            let consumer = Arc::new(Consumer {
                queue,
                handler,
                leases,
                given_back: AtomicUsize::new(0),
                context,
            });
            Box::pin(consumer.run())
        });
        let config = ConsumerConfig {
            concurrency: 1,
            prefetch: 0,
            job_limit: FOREVER,
            retry: RetryPolicy {
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
            location,
            config,
            start: Some(start),
        }
    }

    /// How many jobs are worked on at a time; one if left out.
    pub const fn concurrency(mut self, jobs: usize) -> Self {
        self.config.concurrency = jobs;
        self
    }

    /// How many more jobs are fetched ahead, so that the next one is there when one is done; none if left out. For
    /// many short jobs. On a stop they are given back.
    pub const fn prefetch(mut self, jobs: usize) -> Self {
        self.config.prefetch = jobs;
        self
    }

    /// How often a job is tried before it becomes a dead letter; 5 if left out. See [`Job`] for what counts.
    pub const fn attempts(mut self, attempts: u32) -> Self {
        self.config.retry.attempts = attempts;
        self
    }

    /// How long a job that failed waits; 1 s doubling to 10 minutes if left out.
    pub const fn backoff(mut self, backoff: Backoff) -> Self {
        self.config.retry.backoff = backoff;
        self
    }

    /// The longest an attempt may take; then it is cut, and has failed. There is no limit if left out: leases are
    /// renewed for as long as the handler runs.
    pub const fn job_limit(mut self, limit: Duration) -> Self {
        self.config.job_limit = limit;
        self
    }

    fn start(&mut self, start: StartConsumer) -> Result<(), Error> {
        let (core, location) = (Arc::clone(&self.app.core), self.location);
        let mut config = self.config;
        if config.concurrency == 0 || config.retry.attempts == 0 {
            let name = &self.name;
            return Err(Error::config(format!(
                "consumer `{name}` would do nothing: concurrency and attempts must be at least 1"
            )));
        }
        config.job_limit = config.job_limit.min(FOREVER);
        let name: Arc<str> = Arc::from(&*self.name);
        let id = core.register(
            std::mem::take(&mut self.name),
            ComponentKind::Consumer,
            location,
            None,
        )?;
        let stop = Stop::new(Arc::clone(&core)).of(id);
        let run = Box::new(move |stop| {
            start(ConsumerContext {
                stop,
                id,
                name,
                location,
                config,
            })
        });
        launch(&core, id, supervise::once(stop, id, OnFailure::Stop, run));
        Ok(())
    }
}

impl Drop for ConsumerBuilder<'_> {
    fn drop(&mut self) {
        if let Some(start) = self.start.take()
            && let Err(error) = self.start(start)
        {
            self.app.misuse(error);
        }
    }
}

type JobHandler = Box<dyn Fn(Job) -> BoxFuture<crate::Result> + Send + Sync>;

struct Consumer<Q: Queue> {
    queue: Q,
    handler: JobHandler,
    leases: Arc<LeaseTable<Q::Receipt>>,
    given_back: AtomicUsize,
    context: ConsumerContext,
}

impl<Q: Queue> Consumer<Q> {
    async fn run(self: Arc<Self>) -> crate::Result {
        let stop = self.context.stop.clone();
        if stop.until(stop.core.running.wait()).await.is_none() {
            return Ok(());
        }
        // The whole of it: it ends by itself soon after the stop, and must see the jobs off that are cancelled.
        stop.shield(async {
            let mut fetching = pin!(self.fetch());
            let mut maintaining = pin!(self.maintain_leases());
            let mut fetched = false;
            poll_fn(|cx| {
                if !fetched && fetching.as_mut().poll(cx).is_ready() {
                    fetched = true;
                    self.leases.close();
                }
                maintaining.as_mut().poll(cx)
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

    /// Fetches until the stop, as many as there is capacity for.
    async fn fetch(self: &Arc<Self>) {
        let ConsumerContext { stop, config, .. } = &self.context;
        let most = config
            .concurrency
            .saturating_add(config.prefetch)
            .min(Semaphore::MAX_PERMITS);
        let capacity = Arc::new(Semaphore::new(most));
        let slots = Arc::new(Semaphore::new(config.concurrency.min(most)));
        // Half of what is fetched ahead: the other half is at leases meanwhile, and a call fetches many.
        let half = u32::try_from(config.prefetch.min(most) / 2).unwrap_or(u32::MAX);
        let least = half.max(1);
        let mut failures = 0_u32;
        loop {
            // Neither is ever closed, so each acquire ends with a permit.
            let Some(Ok(mut permits)) = stop
                .until(Arc::clone(&capacity).acquire_many_owned(least))
                .await
            else {
                return;
            };
            if let Ok(more) = u32::try_from(capacity.available_permits())
                && let Ok(rest) = Arc::clone(&capacity).try_acquire_many_owned(more)
            {
                permits.merge(rest);
            }
            let fetched = self
                .fetch_in_time(self.queue.fetch(permits.num_permits(), stop))
                .await;
            let Some(fetched) = fetched else {
                return self
                    .log_failed_fetch(&QueueError::refused("it did not come back in time"), None);
            };
            match fetched {
                Ok(deliveries) => {
                    failures = 0;
                    for delivery in deliveries {
                        let guard = self.leases.insert(delivery.receipt.clone());
                        // What came too late, or more than was asked for, is dropped here, and so given back.
                        if !stop.is_requested()
                            && let Some(permit) = permits.split(1)
                        {
                            self.spawn_job(delivery, guard, permit, Arc::clone(&slots));
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
    async fn fetch_in_time<F: Future>(&self, fetch: F) -> Option<F::Output> {
        let mut fetch = pin!(fetch);
        if let Some(fetched) = self.context.stop.until(fetch.as_mut()).await {
            return Some(fetched);
        }
        timeout(FETCH_TIMEOUT_IN_STOP, fetch).await.ok()
    }

    fn log_failed_fetch(&self, error: &QueueError, wait: Option<Duration>) {
        let (part, failure) = (self.part(), Failure::from_error(error));
        let next = wait.map_or_else(String::new, |wait| {
            format!(", trying again in {}", show(wait))
        });
        self.context.stop.core.log_deferred(move || {
            tracing::warn!(target: "adieu", part = &*part, "cannot fetch jobs{next}: {failure}");
        });
    }

    /// Starts the work on a job, in a task of its own.
    fn spawn_job(
        self: &Arc<Self>,
        delivery: Delivery<Q::Receipt>,
        guard: DeliveryGuard<Q::Receipt>,
        permit: OwnedSemaphorePermit,
        slots: Arc<Semaphore>,
    ) {
        let consumer = Arc::clone(self);
        let name = Cow::Owned(format!("{}: job", self.context.name));
        let work = async move {
            consumer.run_job(delivery, guard, &slots).await;
            drop(permit);
        };
        // Too late, and the guard is dropped with the future: the job is given back.
        let _ = spawn::task(&self.context.stop, name, self.context.location, work);
    }

    /// One job from the fetch to its settlement. Dropped before the handler has ended, the job is given back.
    async fn run_job(
        &self,
        delivery: Delivery<Q::Receipt>,
        guard: DeliveryGuard<Q::Receipt>,
        slots: &Semaphore,
    ) {
        let ConsumerContext { stop, config, .. } = &self.context;
        // Fetched ahead, and not begun before the stop: it is given back.
        let Some(Ok(_slot)) = stop.until(slots.acquire()).await else {
            return;
        };
        let Delivery {
            id,
            payload,
            attempt,
            ..
        } = delivery;
        let (settlement, reason) = if config.retry.is_exhausted(attempt) {
            let before = attempt - 1;
            (
                Settlement::DeadLetter,
                format!("it was begun {before} times and never ended"),
            )
        } else {
            let job = Job {
                id: id.clone(),
                payload,
                attempt,
            };
            let failed = self.run_handler(job).await;
            let settlement = config
                .retry
                .decide(attempt, failed.as_ref().map(|(advice, _)| *advice));
            (
                settlement,
                failed.map(|(_, why)| why.to_string()).unwrap_or_default(),
            )
        };
        // From here on the job is not given back: it has been done, or has failed.
        stop.shield(self.settle(&id, attempt, guard, &settlement, &reason))
            .await;
    }

    async fn run_handler(&self, job: Job) -> Option<(Advice, Failure)> {
        let limit = self.context.config.job_limit;
        // Each job begins a trace of its own: that of the consumer lasts as long as the service.
        let span = tracing::info_span!(
            target: "adieu",
            parent: None,
            "job",
            part = &*self.context.name,
            job = job.id,
            attempt = job.attempt
        );
        span.follows_from(Span::current());
        let work = CatchUnwind::new(async { (self.handler)(job).await }.instrument(span));
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

    fn part(&self) -> Arc<str> {
        Arc::clone(&self.context.name)
    }

    fn log_failed_job(&self, id: &str, attempt: u32, settlement: &Settlement, reason: &str) {
        let (part, job, reason) = (self.part(), id.to_owned(), reason.to_owned());
        let core = &self.context.stop.core;
        match *settlement {
            Settlement::Done => {}
            Settlement::Retry { after, .. } => core.log_deferred(move || {
                let after = show(after);
                tracing::warn!(target: "adieu", part = &*part, job, attempt, "a job failed, again in {after}: {reason}");
            }),
            Settlement::DeadLetter => core.log_deferred(move || {
                tracing::error!(target: "adieu", part = &*part, job, attempt, "a job is a dead letter: {reason}");
            }),
        }
    }

    /// Tells the queue, until it has heard; while the service stops, as long as the drain lasts.
    async fn settle(
        &self,
        id: &str,
        attempt: u32,
        guard: DeliveryGuard<Q::Receipt>,
        settlement: &Settlement,
        reason: &str,
    ) {
        self.log_failed_job(id, attempt, settlement, reason);
        let mut failures = 0_u32;
        let told = loop {
            let told = match settlement {
                Settlement::Done => self.queue.ack(guard.receipt()).await,
                Settlement::Retry { after, counted } => {
                    self.queue.retry(guard.receipt(), *after, *counted).await
                }
                Settlement::DeadLetter => self.queue.bury(guard.receipt(), reason).await,
            };
            let Err(error) = told else { break Ok(()) };
            failures = failures.saturating_add(1);
            let wake = Instant::now() + SETTLE_BACKOFF.wait(failures);
            let in_vain = self.context.stop.deadline().is_some_and(|end| wake >= end);
            if error.is_lost() || in_vain {
                break Err(error);
            }
            tokio::time::sleep_until(wake).await;
        };
        if let Err(error) = told {
            let failure = Failure::from_error(&error);
            let ended = match settlement {
                Settlement::Done => "done",
                Settlement::Retry { .. } | Settlement::DeadLetter => "tried",
            };
            let note =
                format!("job {id} was {ended} and the queue could not be told: it will come again");
            let (part, job, line) = (self.part(), id.to_owned(), format!("{note}: {failure}"));
            self.context.stop.core.log_deferred(move || {
                tracing::error!(target: "adieu", part = &*part, job, "{line}");
            });
            self.note(note);
        }
        // Also when it is not told: giving it back now would only make the second run certain.
        guard.settle();
    }

    /// Renews leases and gives jobs back, until no job is leased and none will be.
    async fn maintain_leases(&self) {
        loop {
            let done = match self.leases.next_action() {
                LeaseAction::Finished => return,
                LeaseAction::WaitUntil(when) => {
                    let changed = self.leases.changed();
                    match when {
                        Some(when) => drop(timeout_at(when, changed).await),
                        None => changed.await,
                    }
                    continue;
                }
                LeaseAction::Renew(receipts) => {
                    let extended = self.queue.extend(&receipts).await;
                    extended.map_err(|error| ("renew leases", error))
                }
                LeaseAction::GiveBack(receipts) => {
                    let given = self.give_back(&receipts).await;
                    given.map_err(|error| ("give jobs back", error))
                }
            };
            if let Err((what, error)) = done {
                let (part, failure) = (self.part(), Failure::from_error(&error));
                self.context.stop.core.log_deferred(move || {
                    tracing::warn!(target: "adieu", part = &*part, "cannot {what}: {failure}");
                });
            }
        }
    }

    /// Tries for as long as the drain lasts, and once after it.
    async fn give_back(&self, receipts: &[Q::Receipt]) -> Result<(), QueueError> {
        let (count, mut failures) = (receipts.len(), 0_u32);
        let given = loop {
            let given = self.queue.give_back(receipts).await;
            failures = failures.saturating_add(1);
            let wake = Instant::now() + SETTLE_BACKOFF.wait(failures);
            if given.is_ok() || self.context.stop.deadline().is_none_or(|end| wake >= end) {
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
        self.context.stop.core.with_part(self.context.id, |part| {
            if part.notes.len() < MOST {
                part.notes.push(note);
            }
        });
    }
}
