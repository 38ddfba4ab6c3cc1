//! The future around every tracked task: enters it on the thread's seat, catches its panic, cuts it when the
//! service cancels, and takes it off the roster when it is gone.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::core::Core;
use crate::lifecycle::End;
use crate::panics::{self, Panic};
use crate::roster::Place;
use crate::seat;

/// Why there is no result.
#[derive(Debug)]
pub(crate) enum Cut {
    Cancelled,
    /// In a box: the result of every task is as large as the largest it could be.
    Panicked(Box<Panic>),
}

pin_project! {
    pub(crate) struct Tracked<F> {
        // Gone when the future is dropped. That needs no byte of its own: a flag inside has values to spare.
        #[pin]
        task: Option<Task<F>>,
        core: Arc<Core>,
    }

    impl<F> PinnedDrop for Tracked<F> {
        fn drop(this: Pin<&mut Self>) {
            // Dropped before its end: by the runtime's own shutdown, or by an abort of the whole task.
            if let Some(task) = this.as_ref().get_ref().task.as_ref() {
                let (id, shields, quiet) = (task.id, task.shields, task.quiet);
                let this = this.project();
                // Seated, so that a shield dropped with the future is this task's and no other's.
                let outer = seat::sit(id, shields);
                let panic = clear(this.task);
                outer.rise();
                this.core.task_ended(Place::of_id(id), quiet, panic.as_ref().map_or(Ok(End::Cancelled), Err));
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
        // Says where it is in the roster, too.
        id: u64,
        // Spawned while the service was cancelling: it is somebody's cleanup and is not cancelled itself.
        cleanup: bool,
        // Its failure is somebody else's to tell.
        quiet: bool,
        has_waited: bool,
        shields: u32,
    }
}

impl<F: Future> Tracked<F> {
    #[inline]
    pub(crate) fn new(core: Arc<Core>, place: Place, quiet: bool, future: F) -> Self {
        let task = Task {
            future,
            id: core.roster.id(place),
            cleanup: core.stop.is_cancelling(),
            quiet,
            has_waited: false,
            shields: 0,
        };
        Self {
            task: Some(task),
            core,
        }
    }
}

/// Drops the future here and now, so that a destructor that panics or hangs is still this task's.
fn clear<F>(mut task: Pin<&mut Option<Task<F>>>) -> Option<Panic> {
    catch_unwind(AssertUnwindSafe(|| task.set(None)))
        .err()
        .map(panics::describe)
}

#[cold]
fn cut<F, T>(task: Pin<&mut Option<Task<F>>>) -> Result<T, Cut> {
    Err(clear(task).map_or(Cut::Cancelled, |panic| Cut::Panicked(Box::new(panic))))
}

#[cold]
fn panicked<F, T>(
    task: Pin<&mut Option<Task<F>>>,
    payload: Box<dyn std::any::Any + Send>,
) -> Result<T, Cut> {
    let panic = panics::describe(payload);
    clear(task);
    Err(Cut::Panicked(Box::new(panic)))
}

/// Whether the task is to be cut now. Asked by the task itself, on its seat.
#[inline]
fn is_cut(core: &Core, cleanup: bool) -> bool {
    core.stop.is_cancelling() && !cleanup && !seat::is_shielded()
}

impl<F: Future> Future for Tracked<F> {
    type Output = Result<F::Output, Cut>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let core = &**this.core;
        let Some(task) = this.task.as_ref().get_ref() else {
            return Poll::Ready(Err(Cut::Cancelled));
        };
        let (id, quiet) = (task.id, task.quiet);
        let outer = seat::sit(id, task.shields);
        let end = if is_cut(core, task.cleanup) {
            Poll::Ready(cut(this.task.as_mut()))
        } else {
            step(core, this.task.as_mut(), cx)
        };
        let shields = outer.rise();
        let Poll::Ready(result) = end else {
            if let Some(task) = this.task.as_pin_mut() {
                *task.project().shields = shields;
            }
            #[cfg(feature = "testing")]
            core.probe.await_point(core, id);
            return Poll::Pending;
        };
        let told = match &result {
            Ok(_) => Ok(End::Done),
            Err(Cut::Cancelled) => Ok(End::Cancelled),
            Err(Cut::Panicked(panic)) => Err(&**panic),
        };
        core.task_ended(Place::of_id(id), quiet, told);
        Poll::Ready(result)
    }
}

/// One poll of the future. Does not unwind.
#[inline]
fn step<F: Future>(
    core: &Core,
    mut task: Pin<&mut Option<Task<F>>>,
    cx: &mut Context<'_>,
) -> Poll<Result<F::Output, Cut>> {
    // A future that is done is dropped under the same catch: one is enough for both.
    let polled = catch_unwind(AssertUnwindSafe(|| {
        let living = task.as_mut().as_pin_mut();
        let polled = living.map(|task| task.project().future.poll(cx));
        if !matches!(polled, Some(Poll::Pending)) {
            task.set(None);
        }
        polled
    }));
    match polled {
        Ok(Some(Poll::Ready(output))) => Poll::Ready(Ok(output)),
        Ok(Some(Poll::Pending)) => {
            let Some(living) = task.as_mut().as_pin_mut() else {
                return Poll::Ready(Err(Cut::Cancelled));
            };
            let living = living.project();
            if !std::mem::replace(living.has_waited, true) {
                core.roster.set_waker(Place::of_id(*living.id), cx.waker());
            }
            // Looked at after the waker is set: either the canceller finds the waker, or we see it here.
            if is_cut(core, *living.cleanup) {
                return Poll::Ready(cut(task));
            }
            Poll::Pending
        }
        Ok(None) => Poll::Ready(Err(Cut::Cancelled)),
        Err(payload) => Poll::Ready(panicked(task, payload)),
    }
}
