//! A [`Stop`] that a test holds in its hand.

use std::fmt;
use std::time::Duration;

use tokio::task::JoinHandle;

use crate::app::ShutdownHandle;
use crate::app::scope::scope;
use crate::report::Report;
use crate::runtime::stop::Stop;

/// A [`Stop`], and what requests it: for tests of code that takes one, without a service around it. It is that of a
/// running scope, so what it spawns is tracked, and cancelled when the grace of a second is over.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let (stop, request) = adieu::testing::stop();
/// let worker = tokio::spawn(async move { stop.requested().await });
/// request.stop();
/// worker.await.unwrap();
/// # }
/// ```
///
/// A handler that takes `Stopping` finds it among the extensions of its request:
///
/// ```
/// # #[cfg(feature = "axum")]
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use adieu::http::Stopping;
/// use axum::{Extension, Router, routing::get};
///
/// let (stop, request) = adieu::testing::stop();
/// let router = Router::<()>::new()
///     .route("/", get(async |stop: Stopping| stop.requested().await))
///     .layer(Extension(Stopping(stop)));
/// # request.stop();
/// # drop(router);
/// # }
/// # #[cfg(not(feature = "axum"))] fn main() {}
/// ```
///
/// # Panics
/// Outside a tokio runtime.
pub fn stop() -> (Stop, RequestStop) {
    let stage = scope("test")
        .grace(Duration::from_secs(1))
        .begin()
        .expect("a test of this runs inside a tokio runtime with timers");
    let handle = ShutdownHandle::new(std::sync::Arc::clone(&stage.core));
    let stop = Stop::new(std::sync::Arc::clone(&stage.core));
    let running = tokio::spawn(stage.run(async |_| Ok(())));
    (stop, RequestStop { handle, running })
}

/// Requests the stop that came with it, at the latest when it is dropped. Made by [`stop`].
#[must_use = "the stop is requested when this is dropped"]
pub struct RequestStop {
    handle: ShutdownHandle,
    running: JoinHandle<Report>,
}

impl RequestStop {
    /// Requests the stop.
    pub fn stop(&self) {
        self.handle.stop("the test");
    }

    /// Requests the stop, and waits until all that was spawned with it has ended.
    ///
    /// Dropped half-way, the stop goes on.
    ///
    /// # Panics
    /// If the runtime is shut down.
    pub async fn and_wait(mut self) -> Report {
        self.stop();
        (&mut self.running)
            .await
            .expect("the runtime runs while it is awaited")
    }
}

impl Drop for RequestStop {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for RequestStop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestStop").finish_non_exhaustive()
    }
}
