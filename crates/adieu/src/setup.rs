//! Running the user's `setup`: once, caught, and cut when the stop comes first.

use std::sync::{Arc, Mutex, PoisonError};

use crate::app::App;
use crate::core::Core;
use crate::error::{BoxError, Error, ErrorKind, Failure};
use crate::lifecycle::{Cause, End, Event};
use crate::report::Ledger;
use crate::seated::Seated;

/// Says that `setup` ended, also when its future is dropped with the scope around it.
struct Ending<'core> {
    core: &'core Core,
    end: End,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if self.end == End::Cancelled {
            // Has no effect if it was cancelled because of a stop.
            let why = "the scope was dropped".into();
            self.core.request_stop(Cause::Requested(why));
        }
        self.core.tell(Event::SetupEnded(self.end));
    }
}

/// Dropped half-way, `setup` counts as cancelled; what it has opened is closed by the conductor.
pub(crate) async fn run<F>(core: &Arc<Core>, ledger: &Arc<Mutex<Ledger>>, setup: F)
where
    F: AsyncFnOnce(&mut App) -> crate::Result,
{
    let mut ending = Ending {
        core,
        end: End::Cancelled,
    };
    let mut app = App::new(Arc::clone(core), Arc::clone(ledger));
    let result = {
        let work = core.setup.wrap(async { setup(&mut app).await });
        let work = Seated::new(core.seat_of(None), work);
        #[cfg(feature = "testing")]
        let work = crate::testing::probed(core, work);
        work.await
    };
    let error: BoxError = match (result, app.take_misuse()) {
        (Ok(Err(_)), _) => return,
        (_, Some(misuse)) => misuse.into(),
        (Ok(Ok(Ok(()))), None) => {
            #[cfg(feature = "net")]
            for (name, descriptor) in core.estate.inheritance.leftovers() {
                core.note(crate::report::Notice::Unclaimed { name, descriptor });
            }
            ending.end = End::Done;
            return;
        }
        (Ok(Ok(Err(error))), None) => error,
        (Err(panic), None) => Error::new(ErrorKind::SetupPanicked(panic)).into(),
    };
    if let Some(cause) = error.downcast_ref::<Error>().and_then(Error::cause) {
        core.request_stop(cause);
    }
    let misused = error.downcast_ref::<Error>().is_some_and(Error::is_misuse);
    ending.end = if misused { End::Misused } else { End::Failed };
    ledger
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .problem(Failure::from_error(&*error));
}
