//! Pollers: a source that is asked "what came after this?", long poll after long poll.
//!
//! The rule that everything here follows: the offset is saved after an update was handled and before the next one
//! is begun. So the offset is never ahead of the work, and at most one update behind it.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use adieu_lifecycle::ComponentId;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::{OwnedState, State, StoreError};
use crate::component::{BoxFuture, Ending, launch};
use crate::error::{BoxError, Error, Failure};
use crate::report::ComponentKind;
use crate::runtime::registrar::Registrar;
use crate::runtime::stop::Stop;
use crate::runtime::supervise::{self, OnFailure};
use crate::util::duration::show;
use crate::util::panics::CatchUnwind;
use crate::util::retry::{Advice, Backoff, Permanent};

/// A poller about to start: it does at the end of the statement that makes it, and polls once `setup` has
/// returned.
///
/// Made by [`App::poller`](crate::App::poller).
pub struct PollerBuilder<'app> {
    app: &'app mut Registrar,
    name: Cow<'static, str>,
    location: &'static Location<'static>,
    limit: Option<Duration>,
    config: PollerConfig,
    start: Option<StartPoller>,
}

type StartPoller = Box<dyn FnOnce(PollerContext) -> BoxFuture<crate::Result> + Send>;

/// How to poll.
#[derive(Clone, Copy)]
struct PollerConfig {
    backoff: Backoff,
    attempts: u32,
    poll_limit: Duration,
    pace: Duration,
}

/// Where a poller runs, and by which config.
struct PollerContext {
    stop: Stop,
    id: ComponentId,
    name: Arc<str>,
    config: PollerConfig,
}

impl<'app> PollerBuilder<'app> {
    pub(crate) fn new<O, U, P, PFut, E, H, HFut>(
        app: &'app mut Registrar,
        name: Cow<'static, str>,
        location: &'static Location<'static>,
        offset: State<O>,
        poll: P,
        handle: H,
    ) -> Self
    where
        O: Serialize + DeserializeOwned + Clone + Send + Sync + 'static,
        U: Clone + Send + Sync + 'static,
        P: Fn(Option<O>) -> PFut + Send + Sync + 'static,
        PFut: Future<Output = Result<Vec<(O, U)>, E>> + Send + 'static,
        E: Into<BoxError> + 'static,
        H: Fn(U) -> HFut + Send + Sync + 'static,
        HFut: Future + Send + 'static,
        HFut::Output: Ending,
    {
        let poller = Poller::<O, U> {
            offset: OwnedState::new(offset),
            poll: Box::new(move |offset| {
                let polling = poll(offset);
                Box::pin(async move { polling.await.map_err(Into::into) })
            }),
            handle: Box::new(move |update| {
                let handling = handle(update);
                Box::pin(async move { handling.await.into_result() })
            }),
        };
        let start: StartPoller =
            Box::new(move |context| Box::pin(async move { poller.run(&context).await }));
        let config = PollerConfig {
            backoff: Backoff::default(),
            attempts: 5,
            poll_limit: Duration::from_secs(120),
            pace: Duration::from_millis(100),
        };
        Self {
            app,
            name,
            location,
            limit: None,
            config,
            start: Some(start),
        }
    }

    /// The waits between attempts, of polls and of handlers; 100 ms doubling to 30 s if left out.
    pub const fn backoff(mut self, backoff: Backoff) -> Self {
        self.config.backoff = backoff;
        self
    }

    /// How often an update is tried before it is skipped, so that one that always fails cannot hold up those
    /// behind it; 5 if left out. [`RetryAfter`](crate::retry::RetryAfter) does not count, [`Permanent`](crate::retry::Permanent) skips at once.
    pub const fn attempts(mut self, attempts: u32) -> Self {
        self.config.attempts = attempts;
        self
    }

    /// How long a poll may take, the source's own waiting included; then it is done again. Two minutes if left
    /// out.
    pub const fn poll_limit(mut self, limit: Duration) -> Self {
        self.config.poll_limit = limit;
        self
    }

    /// The least time from one empty poll to the next, for sources that do not wait by themselves; 100 ms if left
    /// out.
    pub const fn pace(mut self, pace: Duration) -> Self {
        self.config.pace = pace;
        self
    }

    /// The longest it may take to handle what was fetched once the stop is requested, inside the drain's budget.
    pub const fn limit(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    fn start(&mut self, start: StartPoller) -> Result<(), Error> {
        let core = Arc::clone(&self.app.core);
        let name: Arc<str> = Arc::from(&*self.name);
        let id = core.register(
            std::mem::take(&mut self.name),
            ComponentKind::Poller,
            self.location,
            self.limit,
        )?;
        let stop = Stop::new(Arc::clone(&core)).of(id);
        let config = self.config;
        let run = Box::new(move |stop| {
            start(PollerContext {
                stop,
                id,
                name,
                config,
            })
        });
        launch(&core, id, supervise::once(stop, id, OnFailure::Stop, run));
        Ok(())
    }
}

impl Drop for PollerBuilder<'_> {
    fn drop(&mut self) {
        if let Some(start) = self.start.take()
            && let Err(error) = self.start(start)
        {
            self.app.misuse(error);
        }
    }
}

/// The source, what to do with what comes from it, and how far that has come.
struct Poller<O, U> {
    offset: OwnedState<O>,
    poll: PollFn<O, U>,
    handle: Box<dyn Fn(U) -> BoxFuture<crate::Result> + Send + Sync>,
}

/// Updates, each with the offset that follows it.
type PollResult<O, U> = crate::Result<Vec<(O, U)>>;
type PollFn<O, U> = Box<dyn Fn(Option<O>) -> BoxFuture<PollResult<O, U>> + Send + Sync>;

impl<O, U> Poller<O, U>
where
    O: Serialize + DeserializeOwned + Clone + Send + Sync + 'static,
    U: Clone + Send + Sync + 'static,
{
    /// Dropped while it polls, nothing has happened; while it handles, that update is handled again after the
    /// next start. The save of an offset is shielded by the store.
    async fn run(mut self, context: &PollerContext) -> crate::Result {
        // Loaded first: state that cannot be read is said at the start, not at the first update.
        let mut offset = self.offset.load().await?;
        if context
            .stop
            .until(context.stop.core.running.wait())
            .await
            .is_none()
        {
            return Ok(());
        }
        let mut counts = PollCounts::new(context);
        let mut failures = 0_u32;
        loop {
            let asked = Instant::now();
            // Given up at once on a stop. What the source has sent by then was not confirmed: it sends it again.
            let Some(answer) = context
                .stop
                .until(self.poll_once(context, offset.clone()))
                .await
            else {
                return Ok(());
            };
            let wait = match answer {
                Ok(updates) => {
                    failures = 0;
                    let empty = updates.is_empty();
                    counts.left_over = updates.len();
                    for (next, update) in updates {
                        if !self.handle_update(context, &mut counts, update).await {
                            return Ok(());
                        }
                        let entry = self.offset.entry(&next).map_err(OffsetNotSaved)?;
                        self.offset.save(entry).await.map_err(OffsetNotSaved)?;
                        offset = Some(next);
                        counts.left_over -= 1;
                    }
                    match empty {
                        true => context.config.pace.saturating_sub(asked.elapsed()),
                        false => Duration::ZERO,
                    }
                }
                Err(error) => {
                    failures = failures.saturating_add(1);
                    context.after_failed_poll(error, failures)?
                }
            };
            if !wait.is_zero() && !context.stop.sleep(wait).await {
                return Ok(());
            }
        }
    }

    async fn poll_once(&self, context: &PollerContext, offset: Option<O>) -> PollResult<O, U> {
        let polling = CatchUnwind::new(async { (self.poll)(offset).await });
        match tokio::time::timeout(context.config.poll_limit, polling).await {
            Ok(Ok(answer)) => answer,
            // A panic is a bug in the poll: trying again would not help.
            Ok(Err(panic)) => Err(Permanent::new(panic.to_string()).into()),
            Err(_) => {
                let limit = show(context.config.poll_limit);
                Err(format!("no answer to a poll within {limit}").into())
            }
        }
    }

    /// Handles an update, and again if that fails. `false` if it has to wait for the next start.
    async fn handle_update(
        &self,
        context: &PollerContext,
        counts: &mut PollCounts<'_>,
        update: U,
    ) -> bool {
        let (mut counted, mut failures) = (0_u32, 0_u32);
        loop {
            let update = update.clone();
            let (advice, failure) =
                match CatchUnwind::new(async { (self.handle)(update).await }).await {
                    Ok(Ok(())) => return true,
                    Ok(Err(error)) => (Advice::of(&error), Failure::from_error(&*error)),
                    Err(panic) => (Advice::Again, Failure::from(&panic)),
                };
            failures = failures.saturating_add(1);
            counted += u32::from(advice == Advice::Again);
            if advice == Advice::Permanent || counted >= context.config.attempts {
                counts.skip(failure);
                return true;
            }
            let wait = match advice {
                Advice::RetryAfter(Some(after)) => after,
                _ => context.config.backoff.wait(failures),
            };
            context.log(move |part| {
                let wait = show(wait);
                tracing::warn!(target: "adieu", part, "an update failed, trying again in {wait}: {failure}");
            });
            if !context.stop.sleep(wait).await {
                return false;
            }
        }
    }
}

impl PollerContext {
    /// Writes a line to the log that names the poller, beside the work.
    fn log(&self, write: impl FnOnce(&str) + Send + 'static) {
        let part = Arc::clone(&self.name);
        self.stop.core.log_deferred(move || write(&part));
    }

    /// How long to wait after a poll that failed; or its error, if there is no use in another.
    fn after_failed_poll(&self, error: BoxError, failures: u32) -> crate::Result<Duration> {
        let usual = self.config.backoff.wait(failures);
        let wait = match Advice::of(&error) {
            Advice::Permanent => return Err(error),
            Advice::RetryAfter(Some(after)) => after.max(usual),
            Advice::RetryAfter(None) | Advice::Again => usual,
        };
        let failure = Failure::from_error(&*error);
        self.log(move |part| {
            let wait = show(wait);
            tracing::warn!(target: "adieu", part, "a poll failed, asking again in {wait}: {failure}");
        });
        Ok(wait)
    }
}

/// What the report should say: how many updates were skipped, how many fetched ones were left for the next start.
struct PollCounts<'a> {
    context: &'a PollerContext,
    skipped: u64,
    left_over: usize,
}

impl<'a> PollCounts<'a> {
    const fn new(context: &'a PollerContext) -> Self {
        Self {
            context,
            skipped: 0,
            left_over: 0,
        }
    }

    fn skip(&mut self, failure: Failure) {
        self.skipped += 1;
        self.context.log(move |part| {
            tracing::error!(target: "adieu", part, "an update is skipped, it fails every time: {failure}");
        });
    }
}

impl Drop for PollCounts<'_> {
    fn drop(&mut self) {
        let mut notes = Vec::new();
        if self.skipped > 0 {
            notes.push(format!(
                "{} updates skipped, they failed every time",
                self.skipped
            ));
        }
        if self.left_over > 0 {
            notes.push(format!(
                "{} fetched updates left for the next start",
                self.left_over
            ));
        }
        let core = &self.context.stop.core;
        core.with_part(self.context.id, |part| part.notes.append(&mut notes));
    }
}

/// An update was handled, and its offset could not be saved.
#[derive(Debug)]
struct OffsetNotSaved(StoreError);

impl fmt::Display for OffsetNotSaved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the offset after the last update could not be saved: that update will be handled again")
    }
}

impl std::error::Error for OffsetNotSaved {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}
