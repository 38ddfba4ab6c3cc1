//! The stop of one component, which its handle or the service requests, and how others wait for its end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use adieu_lifecycle::{ComponentId, Outcome};

use crate::runtime::stop_state::StopState;
use crate::util::latch::Latch;

/// What the [`Stop`](crate::Stop) of a component looks at. The service's own stop is passed on to it, so a task waits for
/// one thing.
pub(crate) struct ComponentStop {
    pub(crate) part: ComponentId,
    pub(crate) state: StopState,
    /// It was requested so that the component starts again.
    restarts: AtomicBool,
    /// Cancelled when the stop is requested; made when it is first asked for.
    #[cfg(feature = "tokio-util")]
    pub(crate) token: OnceLock<tokio_util::sync::CancellationToken>,
}

impl ComponentStop {
    pub(crate) fn new(part: ComponentId) -> Self {
        Self {
            part,
            state: StopState::new(),
            restarts: AtomicBool::new(false),
            #[cfg(feature = "tokio-util")]
            token: OnceLock::new(),
        }
    }

    /// Tells the component to stop. When it would be cancelled is the service's to know.
    pub(crate) fn request(&self) {
        self.state.request(Duration::MAX);
    }

    /// The stop that a handle is about to request, and whether the component starts again. The last one counts.
    ///
    /// Called under the lock of the components, like [`restarts`](Self::restarts). The request follows outside of it: the
    /// wakers are code of the program, and may hang.
    pub(crate) fn by_handle(self: &Arc<Self>, restarts: bool) -> Arc<Self> {
        self.restarts.store(restarts, Ordering::Relaxed);
        Arc::clone(self)
    }

    pub(crate) fn restarts(&self) -> bool {
        self.restarts.load(Ordering::Relaxed)
    }
}

/// How a component has ended, once it has.
#[derive(Default)]
pub(crate) struct ComponentEnd {
    outcome: OnceLock<Outcome>,
    latch: Latch,
}

impl ComponentEnd {
    /// Only the first outcome counts; there is no other.
    pub(crate) fn set(&self, outcome: Outcome) {
        let _ = self.outcome.set(outcome);
        self.latch.open();
    }

    pub(crate) fn get(&self) -> Option<Outcome> {
        self.outcome.get().copied()
    }

    /// Completes when there is an outcome. Cancel-safe.
    pub(crate) async fn wait(&self) -> Outcome {
        self.latch.wait().await;
        // Set before the latch is opened.
        self.get().unwrap_or(Outcome::NotReached)
    }
}
