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
    Panicked(Panic),
}

pin_project! {
    pub(crate) struct Tracked<F> {
        #[pin]
        future: Option<F>,
        core: Arc<Core>,
        place: Place,
        shields: u32,
        traits: Traits,
    }

    impl<F> PinnedDrop for Tracked<F> {
        fn drop(this: Pin<&mut Self>) {
            // Dropped before its end: by the runtime's own shutdown, or by an abort of the whole task.
            if this.future.is_some() {
                let mut this = this.project();
                // Seated, so that a shield dropped with the future is this task's and no other's.
                let id = this.core.roster.id(*this.place);
                let (panic, _) = seat::occupy(id, *this.shields, || clear(&mut this.future));
                this.core.task_ended(*this.place, this.traits.quiet, panic.map_or(Ok(End::Cancelled), Err));
            }
        }
    }
}

/// Small print of one task.
#[derive(Clone, Copy)]
struct Traits {
    /// Spawned while the service was cancelling: it is somebody's cleanup and is not cancelled itself.
    cleanup: bool,
    /// Its failure is somebody else's to tell.
    quiet: bool,
    has_waited: bool,
}

impl<F: Future> Tracked<F> {
    pub(crate) fn new(core: Arc<Core>, place: Place, quiet: bool, future: F) -> Self {
        let cleanup = core.stop.is_cancelling();
        Self {
            future: Some(future),
            core,
            place,
            shields: 0,
            traits: Traits {
                cleanup,
                quiet,
                has_waited: false,
            },
        }
    }
}

/// Drops the future here and now, so that a destructor that panics or hangs is still this task's.
fn clear<F>(future: &mut Pin<&mut Option<F>>) -> Option<Panic> {
    catch_unwind(AssertUnwindSafe(|| future.set(None)))
        .err()
        .map(panics::describe)
}

impl<F: Future> Future for Tracked<F> {
    type Output = Result<F::Output, Cut>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let core = &**this.core;
        let traits = this.traits;
        let id = core.roster.id(*this.place);
        let (end, shields) = seat::occupy(id, *this.shields, || {
            if core.stop.is_cancelling() && !traits.cleanup && !seat::is_shielded() {
                return Some(
                    clear(&mut this.future)
                        .map_or(Err(Cut::Cancelled), |panic| Err(Cut::Panicked(panic))),
                );
            }
            let Some(future) = this.future.as_mut().as_pin_mut() else {
                return Some(Err(Cut::Cancelled));
            };
            match catch_unwind(AssertUnwindSafe(|| future.poll(cx))) {
                Ok(Poll::Pending) => {
                    if !traits.has_waited {
                        traits.has_waited = true;
                        core.roster.set_waker(*this.place, cx.waker());
                    }
                    // Looked at after the waker is set: either the canceller finds the waker, or we see it here.
                    if core.stop.is_cancelling() && !traits.cleanup && !seat::is_shielded() {
                        let panic = clear(&mut this.future);
                        return Some(Err(panic.map_or(Cut::Cancelled, Cut::Panicked)));
                    }
                    None
                }
                Ok(Poll::Ready(output)) => Some(
                    clear(&mut this.future).map_or(Ok(output), |panic| Err(Cut::Panicked(panic))),
                ),
                Err(payload) => {
                    let panic = panics::describe(payload);
                    clear(&mut this.future);
                    Some(Err(Cut::Panicked(panic)))
                }
            }
        });
        *this.shields = shields;
        let Some(result) = end else {
            #[cfg(feature = "testing")]
            core.probe.await_point(core, id);
            return Poll::Pending;
        };
        let told = match &result {
            Ok(_) => Ok(End::Done),
            Err(Cut::Cancelled) => Ok(End::Cancelled),
            Err(Cut::Panicked(panic)) => Err(panic.clone()),
        };
        core.task_ended(*this.place, traits.quiet, told);
        Poll::Ready(result)
    }
}
