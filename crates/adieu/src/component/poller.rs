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

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::task::launch;
use super::{BoxFuture, Ending};
use crate::app::App;
use crate::duration::show;
use crate::error::{BoxError, Error, Failure};
use crate::lifecycle::PartId;
use crate::panics::Caught;
use crate::report::PartKind;
use crate::retry::{Advice, Backoff, Never};
use crate::stop::Stop;
use crate::store::{State, StoreError};
use crate::supervise::{self, OnFailure};

/// A poller about to start: it does at the end of the statement that makes it, and polls once `setup` has
/// returned.
///
/// Made by [`App::poller`](crate::App::poller).
pub struct PollerPart<'app> {
    app: &'app mut App,
    name: Cow<'static, str>,
    place: &'static Location<'static>,
    limit: Option<Duration>,
    rules: Rules,
    code: Option<Code>,
}

type Code = Box<dyn FnOnce(Site) -> BoxFuture<crate::Result> + Send>;

/// How to poll.
#[derive(Clone, Copy)]
struct Rules {
    backoff: Backoff,
    attempts: u32,
    poll_limit: Duration,
    pace: Duration,
}

/// Where a poller runs, and by which rules.
struct Site {
    stop: Stop,
    id: PartId,
    name: Arc<str>,
    rules: Rules,
}

impl<'app> PollerPart<'app> {
    pub(crate) fn new<O, U, P, PFut, E, H, HFut>(
        app: &'app mut App,
        name: Cow<'static, str>,
        place: &'static Location<'static>,
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
            offset,
            poll: Box::new(move |offset| {
                let polling = poll(offset);
                Box::pin(async move { polling.await.map_err(Into::into) })
            }),
            handle: Box::new(move |update| {
                let handling = handle(update);
                Box::pin(async move { handling.await.into_result() })
            }),
        };
        let code: Code = Box::new(move |site| Box::pin(async move { poller.run(&site).await }));
        let rules = Rules {
            backoff: Backoff::default(),
            attempts: 5,
            poll_limit: Duration::from_secs(120),
            pace: Duration::from_millis(100),
        };
        Self {
            app,
            name,
            place,
            limit: None,
            rules,
            code: Some(code),
        }
    }

    /// The waits between attempts, of polls and of handlers; 100 ms doubling to 30 s if left out.
    pub const fn backoff(mut self, backoff: Backoff) -> Self {
        self.rules.backoff = backoff;
        self
    }

    /// How often an update is tried before it is skipped, so that one that always fails cannot hold up those
    /// behind it; 5 if left out. [`Later`](crate::Later) does not count, [`Never`](crate::Never) skips at once.
    pub const fn attempts(mut self, attempts: u32) -> Self {
        self.rules.attempts = attempts;
        self
    }

    /// How long a poll may take, the source's own waiting included; then it is done again. Two minutes if left
    /// out.
    pub const fn poll_limit(mut self, limit: Duration) -> Self {
        self.rules.poll_limit = limit;
        self
    }

    /// The least time from one empty poll to the next, for sources that do not wait by themselves; 100 ms if left
    /// out.
    pub const fn pace(mut self, pace: Duration) -> Self {
        self.rules.pace = pace;
        self
    }

    /// The longest it may take to handle what was fetched once the stop is requested, inside the drain's budget.
    pub const fn limit(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    fn start(&mut self, code: Code) -> Result<(), Error> {
        let core = Arc::clone(&self.app.core);
        let name: Arc<str> = Arc::from(&*self.name);
        let id = core.register(
            std::mem::take(&mut self.name),
            PartKind::Poller,
            self.place,
            self.limit,
        )?;
        let stop = Stop::new(Arc::clone(&core));
        let rules = self.rules;
        let run = Box::new(move |stop| {
            code(Site {
                stop,
                id,
                name,
                rules,
            })
        });
        launch(&core, id, supervise::once(stop, id, OnFailure::Stop, run));
        Ok(())
    }
}

impl Drop for PollerPart<'_> {
    fn drop(&mut self) {
        if let Some(code) = self.code.take()
            && let Err(error) = self.start(code)
        {
            self.app.misuse(error);
        }
    }
}

/// The source, what to do with what comes from it, and how far that has come.
struct Poller<O, U> {
    offset: State<O>,
    poll: Poll<O, U>,
    handle: Box<dyn Fn(U) -> BoxFuture<crate::Result> + Send + Sync>,
}

/// Updates, each with the offset that follows it.
type Polled<O, U> = crate::Result<Vec<(O, U)>>;
type Poll<O, U> = Box<dyn Fn(Option<O>) -> BoxFuture<Polled<O, U>> + Send + Sync>;

impl<O, U> Poller<O, U>
where
    O: Serialize + DeserializeOwned + Clone + Send + Sync + 'static,
    U: Clone + Send + Sync + 'static,
{
    /// Dropped while it polls, nothing has happened; while it handles, that update is handled again after the
    /// next start. The save of an offset is shielded by the store.
    async fn run(self, site: &Site) -> crate::Result {
        // Loaded first: state that cannot be read is said at the start, not at the first update.
        let mut offset = self.offset.load().await?.map(|found| found.value);
        if site
            .stop
            .until(site.stop.core.running.pass())
            .await
            .is_none()
        {
            return Ok(());
        }
        let mut tally = Tally::new(site);
        let mut failures = 0_u32;
        loop {
            let asked = Instant::now();
            // Given up at once on a stop. What the source has sent by then was not confirmed: it sends it again.
            let Some(answer) = site.stop.until(self.ask(site, offset.clone())).await else {
                return Ok(());
            };
            let wait = match answer {
                Ok(updates) => {
                    failures = 0;
                    let empty = updates.is_empty();
                    tally.left = updates.len();
                    for (next, update) in updates {
                        if !self.settle(site, &mut tally, update).await {
                            return Ok(());
                        }
                        self.offset.save(&next).await.map_err(Unsaved)?;
                        offset = Some(next);
                        tally.left -= 1;
                    }
                    match empty {
                        true => site.rules.pace.saturating_sub(asked.elapsed()),
                        false => Duration::ZERO,
                    }
                }
                Err(error) => {
                    failures = failures.saturating_add(1);
                    site.after_failed_poll(error, failures)?
                }
            };
            if !wait.is_zero() && !site.stop.sleep(wait).await {
                return Ok(());
            }
        }
    }

    async fn ask(&self, site: &Site, offset: Option<O>) -> Polled<O, U> {
        let polling = Caught::new(async { (self.poll)(offset).await });
        match tokio::time::timeout(site.rules.poll_limit, polling).await {
            Ok(Ok(answer)) => answer,
            // A bug in the poll is no reason to be patient.
            Ok(Err(panic)) => Err(Never::new(panic.to_string()).into()),
            Err(_) => {
                let limit = show(site.rules.poll_limit);
                Err(format!("no answer to a poll within {limit}").into())
            }
        }
    }

    /// Handles an update, and again if that fails. `false` if it has to wait for the next start.
    async fn settle(&self, site: &Site, tally: &mut Tally<'_>, update: U) -> bool {
        let (mut counted, mut failures) = (0_u32, 0_u32);
        loop {
            let update = update.clone();
            let (advice, failure) = match Caught::new(async { (self.handle)(update).await }).await {
                Ok(Ok(())) => return true,
                Ok(Err(error)) => (Advice::of(&error), Failure::from_error(&*error)),
                Err(panic) => (Advice::Again, Failure::from(&panic)),
            };
            failures = failures.saturating_add(1);
            counted += u32::from(advice == Advice::Again);
            if advice == Advice::Never || counted >= site.rules.attempts {
                tally.skip(&failure);
                return true;
            }
            let wait = match advice {
                Advice::Later(Some(after)) => after,
                _ => site.rules.backoff.wait(failures),
            };
            let (part, wait_text) = (&*site.name, show(wait));
            tracing::warn!(target: "adieu", part, "an update failed, trying again in {wait_text}: {failure}");
            if !site.stop.sleep(wait).await {
                return false;
            }
        }
    }
}

impl Site {
    /// How long to wait after a poll that failed; or its error, if there is no use in another.
    fn after_failed_poll(&self, error: BoxError, failures: u32) -> crate::Result<Duration> {
        let usual = self.rules.backoff.wait(failures);
        let wait = match Advice::of(&error) {
            Advice::Never => return Err(error),
            Advice::Later(Some(after)) => after.max(usual),
            Advice::Later(None) | Advice::Again => usual,
        };
        let (part, wait_text, failure) = (&*self.name, show(wait), Failure::from_error(&*error));
        tracing::warn!(target: "adieu", part, "a poll failed, asking again in {wait_text}: {failure}");
        Ok(wait)
    }
}

/// What the report should say: how many updates were skipped, how many fetched ones were left for the next start.
struct Tally<'a> {
    site: &'a Site,
    skipped: u64,
    left: usize,
}

impl<'a> Tally<'a> {
    const fn new(site: &'a Site) -> Self {
        Self {
            site,
            skipped: 0,
            left: 0,
        }
    }

    fn skip(&mut self, failure: &Failure) {
        self.skipped += 1;
        let part = &*self.site.name;
        tracing::error!(target: "adieu", part, "an update is skipped, it fails every time: {failure}");
    }
}

impl Drop for Tally<'_> {
    fn drop(&mut self) {
        let mut notes = Vec::new();
        if self.skipped > 0 {
            notes.push(format!(
                "{} updates skipped, they failed every time",
                self.skipped
            ));
        }
        if self.left > 0 {
            notes.push(format!(
                "{} fetched updates left for the next start",
                self.left
            ));
        }
        let core = &self.site.stop.core;
        core.with_part(self.site.id, |part| part.notes.append(&mut notes));
    }
}

/// An update was handled, and its offset could not be saved.
#[derive(Debug)]
struct Unsaved(StoreError);

impl fmt::Display for Unsaved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the offset after the last update could not be saved: that update will be handled again")
    }
}

impl std::error::Error for Unsaved {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}
