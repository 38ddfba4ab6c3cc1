//! The future around every tracked task: enters it on the thread's slot, catches its panic, cuts it when the
//! service cancels, and takes it off the registry when it is gone.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use adieu_lifecycle::End;
use pin_project_lite::pin_project;
use tokio::task::JoinHandle;

use crate::runtime::shared::ServiceShared;
use crate::tracking::poll_slot;
use crate::tracking::task_registry::TaskSlot;
use crate::util::panics::{self, Panic};
use crate::util::spans::TaskSpan;

/// Why there is no result.
#[derive(Debug)]
pub(crate) enum Interrupted {
    Cancelled,
    /// In a box: the result of every task is as large as the largest it could be.
    Panicked(Box<Panic>),
}

pin_project! {
    pub(crate) struct Tracked<F> {
        // Removed when the future is dropped. That needs no byte of its own: a flag inside has values to spare.
        #[pin]
        task: Option<Task<F>>,
        core: Arc<ServiceShared>,
    }

    impl<F> PinnedDrop for Tracked<F> {
        fn drop(this: Pin<&mut Self>) {
            // Dropped before its end: by the runtime's own shutdown, or by an abort of the whole task.
            if let Some(task) = this.as_ref().get_ref().task.as_ref() {
                let (id, shields, quiet) = (task.id, task.shields, task.quiet);
                let this = this.project();
                // Monitored, so that a shield dropped with the future is this task's and no other's.
                let outer = poll_slot::enter(id, shields);
                let panic = clear(this.task);
                outer.exit();
                this.core.task_ended(TaskSlot::of_id(id), quiet, panic.as_ref().map_or(Ok(End::Cancelled), Err));
            }
        }
    }
}

pin_project! {
    // In as few bytes as it takes: tokio rounds the memory of a task up to a multiple of 128, so a few more
    // can cost a whole step.
    struct Task<F> {
        #[pin]
        future: F,
        // Says where it is in the registry, too.
        id: u64,
        // Spawned while the service was cancelling: it is cleanup of another task and is not cancelled itself.
        cleanup: bool,
        // Its failure is reported by the group that it belongs to.
        quiet: bool,
        has_waited: bool,
        shields: u32,
        // It is polled and dropped in it.
        span: TaskSpan,
    }
}

impl<F: Future> Tracked<F> {
    #[inline]
    pub(crate) fn new(core: Arc<ServiceShared>, slot: TaskSlot, quiet: bool, future: F) -> Self {
        let task = Task {
            future,
            id: core.tasks.id(slot),
            cleanup: core.stop.is_cancelling(),
            quiet,
            has_waited: false,
            shields: 0,
            span: TaskSpan::default(),
        };
        Self {
            task: Some(task),
            core,
        }
    }

    /// In this span, in which it is polled and dropped.
    #[inline]
    pub(crate) fn in_span(mut self, span: TaskSpan) -> Self {
        if let Some(task) = &mut self.task {
            task.span = span;
        }
        self
    }
}

impl<F> Tracked<F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    /// Spawns it on the runtime of the service.
    #[inline]
    pub(crate) fn spawn(self) -> JoinHandle<Result<F::Output, Interrupted>> {
        let core = Arc::clone(&self.core);
        let id = self.task.as_ref().map_or(0, |task| task.id);
        spawn_named(&core, id, self)
    }
}

/// Spawns what this task runs in. With `--cfg tokio_unstable` tokio knows its name, and tokio-console shows it.
#[inline]
pub(crate) fn spawn_named<F>(core: &ServiceShared, id: u64, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    #[cfg(tokio_unstable)]
    if let Some(task) = core.tasks.get(TaskSlot::of_id(id)) {
        let builder = tokio::task::Builder::new().name(&task.name);
        // It never fails: the result is there for changes of tokio.
        return builder
            .spawn_on(future, &core.runtime)
            .unwrap_or_else(|error| panic!("tokio spawned no task: {error}"));
    }
    #[cfg(not(tokio_unstable))]
    let _ = id;
    core.runtime.spawn(future)
}

/// Starts blocking work on the pool for it, with its name as [`spawn_named`] has it.
pub(crate) fn spawn_blocking_named<T: Send + 'static>(
    core: &ServiceShared,
    slot: TaskSlot,
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    #[cfg(tokio_unstable)]
    if let Some(task) = core.tasks.get(slot) {
        let builder = tokio::task::Builder::new().name(&task.name);
        return builder
            .spawn_blocking_on(work, &core.runtime)
            .unwrap_or_else(|error| panic!("tokio started no blocking work: {error}"));
    }
    #[cfg(not(tokio_unstable))]
    let _ = slot;
    core.runtime.spawn_blocking(work)
}

/// The span, which lives a moment longer than the future in it.
#[inline]
fn take_span<F>(task: Pin<&mut Option<Task<F>>>) -> TaskSpan {
    task.as_pin_mut()
        .map(|task| std::mem::take(task.project().span))
        .unwrap_or_default()
}

/// Drops the future here and now, so that a destructor that panics or hangs is still this task's.
fn clear<F>(mut task: Pin<&mut Option<Task<F>>>) -> Option<Panic> {
    catch_unwind(AssertUnwindSafe(|| {
        let span = take_span(task.as_mut());
        span.in_scope(|| task.set(None));
    }))
    .err()
    .map(panics::describe)
}

#[cold]
fn cut<F, T>(task: Pin<&mut Option<Task<F>>>) -> Result<T, Interrupted> {
    Err(clear(task).map_or(Interrupted::Cancelled, |panic| {
        Interrupted::Panicked(Box::new(panic))
    }))
}

#[cold]
fn panicked<F, T>(
    task: Pin<&mut Option<Task<F>>>,
    payload: Box<dyn std::any::Any + Send>,
) -> Result<T, Interrupted> {
    let panic = panics::describe(payload);
    clear(task);
    Err(Interrupted::Panicked(Box::new(panic)))
}

/// Whether the task is to be cut now. Asked by the task itself, on its slot.
#[inline]
fn is_cut(core: &ServiceShared, cleanup: bool) -> bool {
    core.stop.is_cancelling() && !cleanup && !poll_slot::is_shielded()
}

impl<F: Future> Future for Tracked<F> {
    type Output = Result<F::Output, Interrupted>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let core = &**this.core;
        let Some(task) = this.task.as_ref().get_ref() else {
            return Poll::Ready(Err(Interrupted::Cancelled));
        };
        let (id, quiet) = (task.id, task.quiet);
        let outer = poll_slot::enter(id, task.shields);
        let end = if is_cut(core, task.cleanup) {
            Poll::Ready(cut(this.task.as_mut()))
        } else {
            step(core, this.task.as_mut(), cx)
        };
        let shields = outer.exit();
        let Poll::Ready(result) = end else {
            if let Some(task) = this.task.as_pin_mut() {
                *task.project().shields = shields;
            }
            core.at_await_point(id);
            return Poll::Pending;
        };
        let told = match &result {
            Ok(_) => Ok(End::Done),
            Err(Interrupted::Cancelled) => Ok(End::Cancelled),
            Err(Interrupted::Panicked(panic)) => Err(&**panic),
        };
        core.task_ended(TaskSlot::of_id(id), quiet, told);
        Poll::Ready(result)
    }
}

/// One poll of the future. Does not unwind.
#[inline]
fn step<F: Future>(
    core: &ServiceShared,
    mut task: Pin<&mut Option<Task<F>>>,
    cx: &mut Context<'_>,
) -> Poll<Result<F::Output, Interrupted>> {
    // A future that is done is dropped under the same catch: one is enough for both.
    let polled = catch_unwind(AssertUnwindSafe(|| {
        let span = take_span(task.as_mut());
        let polled = span.in_scope(|| {
            let living = task.as_mut().as_pin_mut();
            let polled = living.map(|task| task.project().future.poll(cx));
            if !matches!(polled, Some(Poll::Pending)) {
                task.set(None);
            }
            polled
        });
        if let Some(living) = task.as_mut().as_pin_mut() {
            *living.project().span = span;
        }
        polled
    }));
    match polled {
        Ok(Some(Poll::Ready(output))) => Poll::Ready(Ok(output)),
        Ok(Some(Poll::Pending)) => {
            let Some(living) = task.as_mut().as_pin_mut() else {
                return Poll::Ready(Err(Interrupted::Cancelled));
            };
            let living = living.project();
            if !std::mem::replace(living.has_waited, true) {
                core.tasks
                    .set_waker(TaskSlot::of_id(*living.id), cx.waker());
            }
            // Looked at after the waker is set: either the canceller finds the waker, or we see it here.
            if is_cut(core, *living.cleanup) {
                return Poll::Ready(cut(task));
            }
            Poll::Pending
        }
        Ok(None) => Poll::Ready(Err(Interrupted::Cancelled)),
        Err(payload) => Poll::Ready(panicked(task, payload)),
    }
}
