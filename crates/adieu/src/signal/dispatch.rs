//! What a signal does: stop, hurry, reload, show the status, or what the program bound to it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::future::Future;
use std::panic::Location;
use std::sync::{Arc, Mutex, PoisonError};

use super::kind::Signal;
use crate::error::{BoxError, Error, Failure};

use crate::report::Notice;
use crate::runtime::ending::{BoxFuture, Ending};
use crate::runtime::extension::Extension;
use crate::runtime::shared::{DriverMessage, ServiceShared};
use crate::runtime::spawn;
use crate::signal;
use crate::util::panics::CatchUnwind;

type SignalHandler = Arc<dyn Fn() -> BoxFuture<Result<(), BoxError>> + Send + Sync>;

struct Binding {
    place: &'static Location<'static>,
    handler: SignalHandler,
}

/// What the program has bound to signals.
#[derive(Default)]
pub(crate) struct SignalHandlers(Mutex<HashMap<Signal, Binding>>);

impl Extension for SignalHandlers {}

impl SignalHandlers {
    fn with<T>(&self, look: impl FnOnce(&mut HashMap<Signal, Binding>) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Binds a handler; from here on it is called instead of what the signal does otherwise.
pub(crate) fn bind<F, Fut>(
    core: &Arc<ServiceShared>,
    signal: Signal,
    place: &'static Location<'static>,
    handler: F,
) -> Result<(), Error>
where
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future + Send + 'static,
    Fut::Output: Ending,
{
    if !signal.can_be_bound() {
        return Err(Error::config(format!(
            "{signal} stops the service and cannot be bound to something else (at {place}); to do something when it \
             stops, use `app.on_shutdown`"
        )));
    }
    let handler: SignalHandler = Arc::new(move || {
        let work = handler();
        Box::pin(async move { work.await.into_result() })
    });
    core.signal_handlers()
        .with(|bindings| match bindings.get(&signal) {
            Some(first) => Err(Error::config(format!(
                "{signal} is bound twice: first at {}, again at {place}",
                first.place
            ))),
            None => {
                bindings.insert(signal, Binding { place, handler });
                Ok(())
            }
        })?;
    signal::listen_for(core, signal)
        .map_err(|error| Error::config(format!("{signal} cannot be bound (at {place}): {error}")))
}

impl ServiceShared {
    fn signal_handlers(&self) -> &SignalHandlers {
        self.extensions.get()
    }

    /// A signal from the registry: a handler of the program, an extension, the status, or the stop.
    pub(crate) fn dispatch_signal(self: &Arc<Self>, signal: Signal) {
        let bound = self.signal_handlers().with(|bindings| {
            let binding = bindings.get(&signal)?;
            Some((binding.place, Arc::clone(&binding.handler)))
        });
        match (bound, signal) {
            (Some((place, handler)), _) => self.call(signal, place, &handler),
            (None, Signal::User1) => self.mailbox.push(DriverMessage::Status),
            (None, _) if self.extensions.iter().any(|it| it.on_signal(self, signal)) => {}
            (None, Signal::User2) => self.note(Notice::HandOffRefused {
                why: "this program was built without adieu's feature `net`; it goes on".to_owned(),
            }),
            (None, _) => {
                // All others are caught only while something is bound to them.
                if let Some(signal) = signal.as_stop() {
                    self.stop_on_signal(signal);
                }
            }
        }
    }

    /// Runs a handler as tracked work. Once the resources close it is too late for it, and there is no report of it, as of a signal that comes after the end.
    fn call(
        self: &Arc<Self>,
        signal: Signal,
        place: &'static Location<'static>,
        handler: &SignalHandler,
    ) {
        let (core, handler) = (Arc::clone(self), Arc::clone(handler));
        let work = async move {
            // In a block of its own: the call that makes the future may panic too.
            let failure = match CatchUnwind::new(async move { handler().await }).await {
                Ok(Ok(())) => return,
                Ok(Err(error)) => Failure::from_error(&*error),
                Err(panic) => Failure::from(&panic),
            };
            core.note(Notice::SignalFailed { signal, failure });
        };
        let name = Cow::Owned(format!("on {signal}"));
        let _ = spawn::task(&crate::Stop::new(Arc::clone(self)), name, place, work);
    }
}
