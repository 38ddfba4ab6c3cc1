//! What happens when a task fails: stop the service, start it again, or only say so.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use adieu_lifecycle::{Cause, ComponentId};
use tokio::time::Instant;

use crate::error::{BoxError, Failure};
use crate::report::Notice;
use crate::runtime::ending::BoxFuture;
use crate::runtime::shared::ServiceShared;
use crate::runtime::stop::Stop;
use crate::util::duration::FOREVER;
use crate::util::panics::{self, CatchUnwind, Panic};
use crate::util::retry::jitter;

/// When and how often a failed task is started again.
///
/// As in OTP, more than `limit` failures within `window` mean that starting again does not help: the service
/// stops. The delay doubles from `first` to at most `longest`, and starts at `first` again when the task has
/// run for a whole window. Each delay is shortened by up to a half at random, so that replicas which failed
/// together do not come back together.
///
/// ```
/// # use std::time::Duration;
/// let patient = adieu::Restart { limit: 20, window: Duration::from_secs(600), ..adieu::Restart::default() };
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restart {
    /// The delay before the first new start.
    pub first: Duration,
    /// The longest delay.
    pub longest: Duration,
    /// How many new starts within the window are borne.
    pub limit: u32,
    /// The window.
    pub window: Duration,
}

impl Default for Restart {
    /// 100 ms doubling to 30 s, 5 times in a minute.
    fn default() -> Self {
        Self {
            first: Duration::from_millis(100),
            longest: Duration::from_secs(30),
            limit: 5,
            window: Duration::from_secs(60),
        }
    }
}

/// What a task's last failure does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnFailure {
    Stop,
    Report,
}

/// Why an attempt ended badly.
enum TaskFailure {
    Error(BoxError),
    Panic(Panic),
}

impl TaskFailure {
    fn failure(&self) -> Failure {
        match self {
            Self::Error(error) => Failure::from_error(&**error),
            Self::Panic(panic) => panic.into(),
        }
    }

    const fn is_panic(&self) -> bool {
        matches!(self, Self::Panic(_))
    }
}

async fn attempt(start: impl FnOnce() -> BoxFuture<crate::Result>) -> Result<(), TaskFailure> {
    let future = catch_unwind(AssertUnwindSafe(start))
        .map_err(|payload| TaskFailure::Panic(panics::describe(payload)))?;
    CatchUnwind::new(future)
        .await
        .map_err(TaskFailure::Panic)?
        .map_err(TaskFailure::Error)
}

/// Runs a task once.
pub(crate) async fn once(
    stop: Stop,
    id: ComponentId,
    policy: OnFailure,
    start: Box<dyn FnOnce(Stop) -> BoxFuture<crate::Result> + Send>,
) {
    let core = Arc::clone(&stop.core);
    if let Err(mishap) = attempt(|| start(stop)).await {
        fail(&core, id, &mishap, policy);
    }
}

/// Runs blocking code once, on the thread that calls it.
pub(crate) fn blocking(
    stop: Stop,
    id: ComponentId,
    policy: OnFailure,
    code: Box<dyn FnOnce(Stop) -> crate::Result + Send>,
) -> impl FnOnce() {
    move || {
        let core = Arc::clone(&stop.core);
        let ended = match catch_unwind(AssertUnwindSafe(|| code(stop))) {
            Ok(result) => result.map_err(TaskFailure::Error),
            Err(payload) => Err(TaskFailure::Panic(panics::describe(payload))),
        };
        if let Err(mishap) = ended {
            fail(&core, id, &mishap, policy);
        }
    }
}

/// Remembers the failure; what follows from it happens when the task is out of the registry.
fn fail(core: &ServiceShared, id: ComponentId, mishap: &TaskFailure, policy: OnFailure) {
    core.with_part(id, |part| {
        part.failure = Some(mishap.failure());
        let name = Arc::clone(&part.name);
        // A component whose stop was requested is not needed any more, so its failure does not stop the rest.
        let policy = match part.stop.state.is_requested() {
            true => OnFailure::Report,
            false => policy,
        };
        part.is_report_only = policy == OnFailure::Report;
        part.stops_service = match policy {
            OnFailure::Report => None,
            OnFailure::Stop if mishap.is_panic() => Some(Cause::Panic(name)),
            OnFailure::Stop => Some(Cause::Error(name)),
        };
    });
}

/// Runs a task again and again as long as it fails and the policy bears it, or its handle asks for another start.
pub(crate) async fn again(
    mut stop: Stop,
    id: ComponentId,
    policy: Restart,
    on_failure: OnFailure,
    mut start: Box<dyn FnMut(Stop) -> BoxFuture<crate::Result> + Send>,
) {
    let core = Arc::clone(&stop.core);
    let mut recent = VecDeque::new();
    let longest = policy.longest.min(FOREVER);
    let first = policy.first.min(longest);
    let mut delay = first;
    loop {
        let began = Instant::now();
        let ended = attempt(|| start(stop.clone())).await;
        if let Some(next) = core.renew_stop(id) {
            note_new_start(&core, id, ended.err().as_ref(), Duration::ZERO);
            stop.component = Some(next);
            delay = first;
            continue;
        }
        let Err(mishap) = ended else {
            return;
        };
        let now = Instant::now();
        if now - began >= policy.window {
            delay = first;
        }
        recent.retain(|&then| now - then < policy.window);
        // While stopping nothing is started again, and the failure is final.
        if recent.len() >= policy.limit as usize || stop.is_requested() {
            return fail(&core, id, &mishap, on_failure);
        }
        recent.push_back(now);
        let wait = delay.mul_f64(1.0 - jitter() / 2.0);
        core.with_part(id, |part| part.restarts += 1);
        note_new_start(&core, id, Some(&mishap), wait);
        if stop.sleep(wait).await {
            delay = (delay * 2).min(longest);
        } else if let Some(next) = core.renew_stop(id) {
            note_new_start(&core, id, None, Duration::ZERO);
            stop.component = Some(next);
            delay = first;
        } else {
            return fail(&core, id, &mishap, on_failure);
        }
    }
}

/// Says that a task is started again: after a failure, or because its handle asked for it.
fn note_new_start(
    core: &ServiceShared,
    id: ComponentId,
    mishap: Option<&TaskFailure>,
    delay: Duration,
) {
    let said = core.with_part(id, |part| {
        let (part, place, restarts) = (Arc::clone(&part.name), part.place, part.restarts);
        let place = place.to_string();
        match mishap {
            Some(mishap) => Notice::Restarting {
                part,
                place,
                restarts,
                delay,
                failure: mishap.failure(),
            },
            None => Notice::Restarted {
                part,
                place,
                restarts,
            },
        }
    });
    if let Some(notice) = said {
        core.note(notice);
    }
}
