//! Checks: what must answer for the service to be ready. Asked when `/readyz` or `/health` is asked for, one at a time, not too often.

use std::borrow::Cow;
use std::panic::Location;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use crate::component::{BoxFuture, Ending};
use crate::error::Failure;
use crate::runtime::registrar::Registrar;
use crate::util::duration::show;
use crate::util::panics::{CatchUnwind, Panic};

/// No check may take longer: the platform's probe does not wait forever either.
const MAX_TIMEOUT: Duration = Duration::from_secs(10);

type Probe = Arc<dyn Fn() -> BoxFuture<crate::Result> + Send + Sync>;

/// A check about to be added: it is at the end of the statement that makes it.
///
/// Made by [`App::check`](crate::App::check).
pub struct CheckBuilder<'app> {
    app: &'app mut Registrar,
    check: Option<Check>,
}

impl<'app> CheckBuilder<'app> {
    pub(crate) fn new<F, Fut>(
        app: &'app mut Registrar,
        name: Cow<'static, str>,
        place: &'static Location<'static>,
        probe: F,
    ) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: Ending,
    {
        let probe: Probe = Arc::new(move || {
            let asked = probe();
            Box::pin(async move { asked.await.into_result() })
        });
        let check = Check {
            name: crate::util::printable::name(&name).into(),
            place,
            timeout: Duration::from_secs(1),
            cache: Duration::from_secs(1),
            probe: Mutex::new(Some(probe)),
            turn: tokio::sync::Mutex::default(),
            last: Mutex::default(),
        };
        Self {
            app,
            check: Some(check),
        }
    }

    /// How long it may take before it counts as failed: 1 s if left out, 10 s at most.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        if let Some(check) = &mut self.check {
            check.timeout = timeout.min(MAX_TIMEOUT);
        }
        self
    }

    /// How long an answer is good for: 1 s if left out. A probe meanwhile is given that answer.
    pub fn cache(mut self, cache: Duration) -> Self {
        if let Some(check) = &mut self.check {
            check.cache = cache;
        }
        self
    }
}

impl Drop for CheckBuilder<'_> {
    fn drop(&mut self) {
        if let Some(check) = self.check.take() {
            let core = Arc::clone(&self.app.core);
            if let Err(error) = core.admin().add(&core, check) {
                self.app.misuse(error);
            }
        }
    }
}

/// One check, and what it last said.
pub(crate) struct Check {
    pub(super) name: Cow<'static, str>,
    pub(super) place: &'static Location<'static>,
    timeout: Duration,
    cache: Duration,
    /// Gone once the service stops.
    probe: Mutex<Option<Probe>>,
    /// Held by the request that asks; the others wait and share the answer. In it, a probe that did not even let itself be
    /// cancelled: while it sits on its thread, no second one is sent after it.
    turn: tokio::sync::Mutex<Option<Probing>>,
    last: Mutex<Option<CheckResult>>,
}

/// What a check said, and when.
#[derive(Clone, Debug)]
pub(super) struct CheckResult {
    pub(super) problem: Option<String>,
    pub(super) took: Duration,
    pub(super) at: Instant,
}

impl Check {
    pub(super) fn last(&self) -> Option<CheckResult> {
        self.last
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Lets go of what the check holds. It is not asked any more.
    pub(super) fn forget(&self) {
        let probe = self
            .probe
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        // Outside the lock: its destructor is the user's.
        drop(probe);
    }

    /// The answer: a recent one, that of a request that is asking already, or a new one. `None` once forgotten.
    ///
    /// Dropped half-way, the probe is cancelled, and the next who waits sends a new one.
    pub(super) async fn ask(&self, runtime: &Handle) -> Option<CheckResult> {
        let asked = Instant::now();
        let mut turn = self.turn.lock().await;
        let recent = self
            .last()
            .filter(|last| last.at >= asked || last.at.elapsed() < self.cache);
        if recent.is_some() {
            return recent;
        }
        let probe = self
            .probe
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()?;
        let began = Instant::now();
        let problem = match turn.as_ref().filter(|stuck| !stuck.0.is_finished()) {
            Some(_) => Some("it blocks its thread since it was last asked".to_owned()),
            None => {
                // A task of its own: code that blocks holds up its own thread, and not the answer. The closure
                // is called in it, because it too is the user's and may panic or block.
                let work = CatchUnwind::new(async move { probe().await });
                // Handed in from another thread: spawned from here, it would run on this very thread next, and
                // if it blocks, no thread may be left that drives the sockets and timers of the runtime.
                let spawner = runtime.clone();
                let spawned = runtime.spawn_blocking(move || spawner.spawn(work)).await;
                let mut probing = Probing(spawned.ok()?);
                match timeout(self.timeout, &mut probing.0).await {
                    Ok(Ok(said)) => problem_of(said),
                    Ok(Err(_)) => Some("it was cancelled with the runtime".to_owned()),
                    Err(_) => {
                        probing.0.abort();
                        *turn = Some(probing);
                        Some(format!("no answer within {}", show(self.timeout)))
                    }
                }
            }
        };
        let answer = CheckResult {
            problem,
            took: began.elapsed(),
            at: Instant::now(),
        };
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer.clone());
        Some(answer)
    }
}

fn problem_of(said: Result<crate::Result, Panic>) -> Option<String> {
    match said {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(Failure::from_error(&*error).to_string()),
        Err(panic) => Some(Failure::from(&panic).to_string()),
    }
}

/// A running probe; cancelled when no request waits for it any more.
struct Probing(JoinHandle<Result<crate::Result, Panic>>);

impl Drop for Probing {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::App;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Requests that ask while another is asking share its answer, even where answers are not kept.
    #[tokio::test(start_paused = true)]
    async fn one_probe_at_a_time() {
        let asked = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&asked);
        let report = crate::scope("orders")
            .stop_when(tokio::time::sleep(Duration::from_secs(60)))
            .run(async move |app: &mut App| {
                app.check("slow", move || {
                    counter.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_millis(500))
                })
                .cache(Duration::ZERO);
                let core = app.stop().core;
                let checks = core.admin().checks();
                let ask = || checks[0].ask(&core.runtime);
                let (a, b, c) = tokio::join!(ask(), ask(), ask());
                for answer in [a, b, c] {
                    assert!(answer.is_some_and(|answer| answer.problem.is_none()));
                }
                assert_eq!(asked.load(Ordering::Relaxed), 1);
                // The clock stands still here: a later question is one of a later time.
                tokio::time::sleep(Duration::from_millis(1)).await;
                assert!(ask().await.is_some());
                assert_eq!(asked.load(Ordering::Relaxed), 2);
                tokio::time::sleep(Duration::from_millis(1)).await;
                // A request that gives up cancels the probe; the next asks anew.
                let gave_up = timeout(Duration::from_millis(100), ask()).await;
                assert!(gave_up.is_err());
                assert!(ask().await.is_some_and(|answer| answer.problem.is_none()));
                assert_eq!(asked.load(Ordering::Relaxed), 4);
                Ok(())
            })
            .await;
        assert_eq!(report.exit_code(), 0, "{report}");
    }
}
