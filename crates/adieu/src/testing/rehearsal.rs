//! One run of a service in a test, with signals that are only played.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime;

use crate::app::scope::{Scope, scope};
use crate::app::{App, ShutdownHandle};
use crate::report::Report;
use crate::runtime::shared::ServiceShared;
use crate::signal::Signal;

/// What the script of a rehearsal holds: sends signals, passes time.
#[derive(Clone)]
pub struct Rehearsal {
    core: Arc<ServiceShared>,
}

impl Rehearsal {
    /// Sends a signal, with all that follows: the first stops, a further interrupt hurries, the next ends; a
    /// [`Signal`] reloads or does what is bound to it.
    pub fn signal(&self, signal: impl Into<Signal>) {
        self.core.dispatch_signal(signal.into());
    }

    /// Sets the clock on the wall, which schedules go by: forward, as a suspended machine sees it, or back. A rehearsal
    /// begins with the year 2000.
    #[cfg(feature = "schedule")]
    pub fn set_clock(&self, to: std::time::SystemTime) {
        if let crate::schedule::Clock::Test(played) = self.core.schedules().clock() {
            played.set(to);
        }
    }

    /// The time that the clock on the wall shows.
    #[cfg(feature = "schedule")]
    #[must_use]
    pub fn clock(&self) -> std::time::SystemTime {
        self.core.schedules().clock().now().system()
    }

    /// Stops the service.
    #[must_use]
    pub fn shutdown_handle(&self) -> ShutdownHandle {
        ShutdownHandle::new(Arc::clone(&self.core))
    }

    /// Lets time pass. The clock is paused: it takes no real time, and everything due meanwhile happens.
    pub async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }
}

/// Runs `setup` as a service under a paused clock on a runtime of its own, while `script` plays the world.
/// When the script has ended, the service is run to its end.
///
/// The clock jumps to the next timer whenever nothing can run. So a wait of hours takes no time, but a timeout
/// on something outside the runtime (a socket, a thread) fires at once.
///
/// ```
/// use adieu::signal::StopSignal;
/// use adieu::testing::rehearse;
/// use std::time::Duration;
///
/// async fn setup(app: &mut adieu::App) -> adieu::Result {
///     app.task("slow", |stop| async move {
///         stop.requested().await;
///         tokio::time::sleep(Duration::from_secs(3)).await;
///     });
///     Ok(())
/// }
///
/// let report = rehearse(setup, async |world| {
///     world.pass(Duration::from_secs(3600)).await;
///     world.signal(StopSignal::Terminate);
/// });
/// assert_eq!(report.exit_code(), 0);
/// assert!(report.took() >= Duration::from_secs(3));
/// ```
///
/// # Panics
/// If no runtime can be made.
pub fn rehearse<F, S>(setup: F, script: S) -> Report
where
    F: AsyncFnOnce(&mut App) -> crate::Result,
    S: AsyncFnOnce(Rehearsal),
{
    on_paused_clock(async {
        let (stage, world) = staged();
        let (report, ()) = tokio::join!(stage.run(setup), script(world));
        report
    })
}

/// A scope that is begun, with a clock on the wall that is played.
fn staged() -> (crate::app::scope::StartedScope, Rehearsal) {
    let stage = scope_for_tests()
        .begin()
        .expect("the settings of a rehearsal are right");
    #[cfg(feature = "schedule")]
    {
        let clock = crate::schedule::Clock::Test(crate::schedule::TestClock::new());
        stage.core.schedules().set_test_clock(clock);
    }
    let core = Arc::clone(&stage.core);
    (stage, Rehearsal { core })
}

pub(super) fn scope_for_tests() -> Scope {
    scope("rehearsal").grace(Duration::from_secs(10))
}

pub(super) fn on_paused_clock<T>(work: impl Future<Output = T>) -> T {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime for the test can be made");
    runtime.block_on(work)
}

/// One of several replicas on the paused clock of the runtime around it: a scope with a script of its own, to be
/// joined with others. Where there is no other replica, use [`rehearse`].
///
/// Dropped, it begins to stop.
///
/// # Panics
/// Outside a runtime with timers.
pub async fn replica<F, S>(setup: F, script: S) -> Report
where
    F: AsyncFnOnce(&mut App) -> crate::Result,
    S: AsyncFnOnce(Rehearsal),
{
    let (stage, world) = staged();
    let (report, ()) = tokio::join!(stage.run(setup), script(world));
    report
}
