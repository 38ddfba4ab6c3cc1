//! Starting tracked work: on the runtime, or on its pool for blocking code.

use std::borrow::Cow;
use std::future::Future;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use adieu_lifecycle::{ComponentId, End};
use tokio::task::JoinHandle;

use crate::error::{TaskError, TooLate};
use crate::runtime::shared::ServiceShared;
use crate::runtime::stop::Stop;
use crate::runtime::tracked::{self, Interrupted, Tracked, spawn_named};
use crate::tracking::cancel::CancelToken;
use crate::tracking::task_registry::{Entry, TaskSlot, WorkKind};
use crate::util::panics;
use crate::util::spans::TaskSpan;

/// Waits for the result of a spawned task. Dropping it lets the task go on.
#[derive(Debug)]
pub struct TaskHandle<T> {
    join: JoinHandle<Result<T, Interrupted>>,
}

impl<T> TaskHandle<T> {
    /// Whether the task has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.join.is_finished()
    }
}

impl<T> Future for TaskHandle<T> {
    type Output = Result<T, TaskError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.join)
            .poll(cx)
            .map(|joined| match joined {
                Ok(Ok(output)) => Ok(output),
                Ok(Err(Interrupted::Panicked(panic))) => Err((*panic).into()),
                // A join error is a cancelled task: panics are caught inside.
                Ok(Err(Interrupted::Cancelled)) | Err(_) => Err(TaskError::Cancelled),
            })
    }
}

// Inlined up to the user's call, with all that lists the task: there the name is a constant in registers. Passed
// on through memory it would be written in three pieces and read in two, which the processor cannot hide.
#[inline(always)]
pub(crate) fn task<F>(
    stop: &Stop,
    name: Cow<'static, str>,
    place: &'static Location<'static>,
    future: F,
) -> Result<TaskHandle<F::Output>, TooLate>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let core = &stop.core;
    let slot = register(core, name, place, WorkKind::Task, None)?;
    let join = match &stop.group {
        // Spawned when the group is being cancelled already, it is cleanup of a member.
        Some(token) if !token.is_cancelled() => member(core, token, slot, future),
        _ => Tracked::new(Arc::clone(core), slot, false, future)
            .in_span(TaskSpan::current())
            .spawn(),
    };
    Ok(TaskHandle { join })
}

/// Apart and not inlined: the room that its larger future needs on the stack is not every task's to pay for.
#[inline(never)]
fn member<F>(
    core: &Arc<ServiceShared>,
    token: &CancelToken,
    slot: TaskSlot,
    future: F,
) -> JoinHandle<Result<F::Output, Interrupted>>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let member = token.wrap(future);
    let member = async move { member.await.map_err(|_| Interrupted::Cancelled) };
    let tracked = Tracked::new(Arc::clone(core), slot, false, member).in_span(TaskSpan::current());
    let id = core.tasks.id(slot);
    spawn_named(core, id, async move { tracked.await.flatten() })
}

pub(crate) fn blocking<F, T>(
    core: &Arc<ServiceShared>,
    name: Cow<'static, str>,
    place: &'static Location<'static>,
    part: Option<ComponentId>,
    span: TaskSpan,
    code: F,
) -> Result<TaskHandle<T>, TooLate>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let slot = register(core, name, place, WorkKind::Blocking, part)?;
    let guard = BlockingGuard {
        core: Arc::clone(core),
        slot,
        end: Some(Ok(End::Cancelled)),
    };
    let work = move || {
        let mut guard = guard;
        // Still waiting for a thread when the cancelling began: not started is better than cut.
        if guard.core.stop.is_cancelling() {
            return Err(Interrupted::Cancelled);
        }
        let (end, result) = match catch_unwind(AssertUnwindSafe(|| span.in_scope(code))) {
            Ok(output) => (Ok(End::Done), Ok(output)),
            Err(payload) => {
                let panic = panics::describe(payload);
                (
                    Err(panic.clone()),
                    Err(Interrupted::Panicked(Box::new(panic))),
                )
            }
        };
        guard.end = Some(end);
        result
    };
    let join = tracked::spawn_blocking_named(core, slot, work);
    Ok(TaskHandle { join })
}

#[cold]
fn too_late(name: Cow<'static, str>) -> TooLate {
    TooLate {
        name: name.into_owned(),
    }
}

/// Lists work, or says that it is too late.
#[inline(always)]
pub(crate) fn register(
    core: &ServiceShared,
    name: Cow<'static, str>,
    place: &'static Location<'static>,
    kind: WorkKind,
    part: Option<ComponentId>,
) -> Result<TaskSlot, TooLate> {
    let entry = Entry {
        name,
        place,
        kind,
        part,
    };
    core.tasks.enter(entry).map_err(too_late)
}

/// Takes blocking work off the registry, also when the pool drops it unstarted.
struct BlockingGuard {
    core: Arc<ServiceShared>,
    slot: TaskSlot,
    end: Option<Result<End, panics::Panic>>,
}

impl Drop for BlockingGuard {
    fn drop(&mut self) {
        if let Some(end) = self.end.take() {
            self.core
                .task_ended(self.slot, false, end.as_ref().copied());
        }
    }
}
