//! Running the user's `setup`: once, caught, and cut when the stop comes first.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use adieu_lifecycle::{Cause, End, Event, Role};
use tracing::Instrument;

use crate::app::App;
use crate::error::{BoxError, Error, ErrorKind, Failure};
use crate::report::{ComponentStatus, Notice, ReportBuilder};
use crate::runtime::registered::AbortOnDrop;
use crate::runtime::shared::ServiceShared;
use crate::tracking::monitored::Monitored;
use crate::util::duration::FOREVER;

/// Says that `setup` ended, also when its future is dropped with the scope around it.
struct SetupGuard<'core> {
    core: &'core ServiceShared,
    end: End,
}

impl Drop for SetupGuard<'_> {
    fn drop(&mut self) {
        if self.end == End::Cancelled {
            // Has no effect if it was cancelled because of a stop.
            let why = "the scope was dropped".into();
            self.core.request_stop(Cause::Requested(why));
        }
        self.core.tell(Event::SetupEnded(self.end));
    }
}

/// Says at each await point of `setup` that there is one.
async fn observed<F: Future>(core: &ServiceShared, future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|cx| {
        let polled = future.as_mut().poll(cx);
        if polled.is_pending() {
            core.at_await_point(core.poll_id_of(None));
        }
        polled
    })
    .await
}

/// Dropped half-way, `setup` counts as cancelled; what it has opened is closed by the driver.
pub(crate) async fn run<F>(
    core: &Arc<ServiceShared>,
    ledger: &Arc<Mutex<ReportBuilder>>,
    timeout: Option<Duration>,
    setup: F,
) where
    F: AsyncFnOnce(&mut App) -> crate::Result,
{
    let mut guard = SetupGuard {
        core,
        end: End::Cancelled,
    };
    let timed_out = Arc::new(AtomicBool::new(false));
    // A task of its own, which also finds a `setup` that blocks its thread.
    let timer = timeout.map(|timeout| {
        let (core, ledger) = (Arc::clone(core), Arc::clone(ledger));
        let (timed_out, timeout) = (Arc::clone(&timed_out), timeout.min(FOREVER));
        AbortOnDrop(core.runtime.clone().spawn(async move {
            tokio::time::sleep(timeout).await;
            timed_out.store(true, Ordering::Release);
            give_up(&core, &ledger, timeout);
        }))
    });
    let mut app = App::new(Arc::clone(core), Arc::clone(ledger));
    let result = {
        let span = tracing::info_span!(target: "adieu", "setup", service = &*core.name);
        let work = async { setup(&mut app).await }.instrument(span);
        let work = core.setup.wrap(work);
        let work = Monitored::new(core.poll_id_of(None), work);
        observed(core, work).await
    };
    drop(timer);
    if timed_out.load(Ordering::Acquire) {
        guard.end = End::Failed;
        return;
    }
    let error: BoxError = match (result, app.take_misuse()) {
        (Ok(Err(_)), _) => return,
        (_, Some(misuse)) => misuse.into(),
        (Ok(Ok(Ok(()))), None) => {
            for extension in core.extensions.iter() {
                extension.on_setup_done(core);
            }
            guard.end = End::Done;
            return;
        }
        (Ok(Ok(Err(error))), None) => error,
        (Err(panic), None) => Error::new(ErrorKind::SetupPanicked(panic)).into(),
    };
    if let Some(cause) = error.downcast_ref::<Error>().and_then(Error::cause) {
        core.request_stop(cause);
    }
    let misused = error.downcast_ref::<Error>().is_some_and(Error::is_misuse);
    guard.end = if misused { End::Misused } else { End::Failed };
    tell(core, ledger, &*error);
}

/// The time of `setup` is over: the service stops, which drops it.
fn give_up(core: &ServiceShared, ledger: &Mutex<ReportBuilder>, timeout: Duration) {
    let opening = (core.parts().iter())
        .filter(|part| part.role == Role::Resource && part.status() == ComponentStatus::Starting)
        .map(|part| (Arc::clone(&part.name), part.place))
        .collect();
    let error = Error::new(ErrorKind::StartTimedOut { timeout, opening });
    tell(core, ledger, &error);
    core.request_stop(Cause::Setup);
}

/// Puts on record why `setup` has failed.
fn tell(
    core: &ServiceShared,
    ledger: &Mutex<ReportBuilder>,
    error: &(dyn std::error::Error + 'static),
) {
    let failure = Failure::from_error(error);
    ledger
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .problem(failure.clone());
    core.note(Notice::SetupFailed { failure });
}
