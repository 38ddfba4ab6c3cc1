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
        #[pin]
        future: Option<F>,
        core: Arc<Core>,
        // The place, in parts: together with the next fields it leaves no gap. Tokio rounds the memory of a
        // task up to 128 bytes, and a task that waits for little has 24 of them for its future.
        index: u32,
        shields: u32,
        shard: u16,
        traits: Traits,
    }

    impl<F> PinnedDrop for Tracked<F> {
        fn drop(this: Pin<&mut Self>) {
            // Dropped before its end: by the runtime's own shutdown, or by an abort of the whole task.
            if this.future.is_some() {
                let this = this.project();
                // Seated, so that a shield dropped with the future is this task's and no other's.
                let place = Place { shard: *this.shard, index: *this.index };
                let id = this.core.roster.id(place);
                let outer = seat::sit(id, *this.shields);
                let panic = clear(this.future);
                outer.rise();
                this.core.task_ended(place, this.traits.is(Traits::QUIET), panic.as_ref().map_or(Ok(End::Cancelled), Err));
            }
        }
    }
}

/// Small print of one task: flags, because a byte has to do.
#[derive(Clone, Copy)]
struct Traits(u8);

impl Traits {
    /// Spawned while the service was cancelling: it is somebody's cleanup and is not cancelled itself.
    const CLEANUP: u8 = 1;
    /// Its failure is somebody else's to tell.
    const QUIET: u8 = 2;
    const HAS_WAITED: u8 = 4;

    #[inline]
    const fn is(self, flag: u8) -> bool {
        self.0 & flag != 0
    }

    /// Whether the task is to be cut now. Asked by the task itself, on its seat.
    #[inline]
    fn is_cut(self, core: &Core) -> bool {
        core.stop.is_cancelling() && !self.is(Self::CLEANUP) && !seat::is_shielded()
    }
}

impl<F: Future> Tracked<F> {
    #[inline]
    pub(crate) fn new(core: Arc<Core>, place: Place, quiet: bool, future: F) -> Self {
        let cleanup = core.stop.is_cancelling();
        let flags =
            if quiet { Traits::QUIET } else { 0 } | if cleanup { Traits::CLEANUP } else { 0 };
        Self {
            future: Some(future),
            core,
            index: place.index,
            shields: 0,
            shard: place.shard,
            traits: Traits(flags),
        }
    }
}

/// Drops the future here and now, so that a destructor that panics or hangs is still this task's.
fn clear<F>(mut future: Pin<&mut Option<F>>) -> Option<Panic> {
    catch_unwind(AssertUnwindSafe(|| future.set(None)))
        .err()
        .map(panics::describe)
}

#[cold]
fn cut<F, T>(future: Pin<&mut Option<F>>) -> Result<T, Cut> {
    Err(clear(future).map_or(Cut::Cancelled, |panic| Cut::Panicked(Box::new(panic))))
}

#[cold]
fn panicked<F, T>(
    future: Pin<&mut Option<F>>,
    payload: Box<dyn std::any::Any + Send>,
) -> Result<T, Cut> {
    let panic = panics::describe(payload);
    clear(future);
    Err(Cut::Panicked(Box::new(panic)))
}

impl<F: Future> Future for Tracked<F> {
    type Output = Result<F::Output, Cut>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let core = &**this.core;
        let place = Place {
            shard: *this.shard,
            index: *this.index,
        };
        let id = core.roster.id(place);
        let outer = seat::sit(id, *this.shields);
        let end = if this.traits.is_cut(core) {
            Poll::Ready(cut(this.future.as_mut()))
        } else {
            step(core, this.future.as_mut(), this.traits, place, cx)
        };
        *this.shields = outer.rise();
        let Poll::Ready(result) = end else {
            #[cfg(feature = "testing")]
            core.probe.await_point(core, id);
            return Poll::Pending;
        };
        let told = match &result {
            Ok(_) => Ok(End::Done),
            Err(Cut::Cancelled) => Ok(End::Cancelled),
            Err(Cut::Panicked(panic)) => Err(&**panic),
        };
        core.task_ended(place, this.traits.is(Traits::QUIET), told);
        Poll::Ready(result)
    }
}

/// One poll of the future. Does not unwind.
#[inline]
fn step<F: Future>(
    core: &Core,
    mut future: Pin<&mut Option<F>>,
    traits: &mut Traits,
    place: Place,
    cx: &mut Context<'_>,
) -> Poll<Result<F::Output, Cut>> {
    // A future that is done is dropped under the same catch: one is enough for both.
    let polled = catch_unwind(AssertUnwindSafe(|| {
        let polled = future.as_mut().as_pin_mut().map(|future| future.poll(cx));
        if !matches!(polled, Some(Poll::Pending)) {
            future.set(None);
        }
        polled
    }));
    match polled {
        Ok(Some(Poll::Ready(output))) => Poll::Ready(Ok(output)),
        Ok(Some(Poll::Pending)) => {
            if !traits.is(Traits::HAS_WAITED) {
                traits.0 |= Traits::HAS_WAITED;
                core.roster.set_waker(place, cx.waker());
            }
            // Looked at after the waker is set: either the canceller finds the waker, or we see it here.
            if traits.is_cut(core) {
                return Poll::Ready(cut(future));
            }
            Poll::Pending
        }
        Ok(None) => Poll::Ready(Err(Cut::Cancelled)),
        Err(payload) => Poll::Ready(panicked(future, payload)),
    }
}
