//! What a signal does once it is in: stop, hurry, reload, show the status, or what the program bound to it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::sync::{Arc, Mutex, PoisonError};

use crate::component::{BoxFuture, Ending};
use crate::core::{Core, Message};
use crate::error::{BoxError, Error, Failure};
use crate::lifecycle::{Event, StopSignal, Time};
use crate::panics::Caught;
use crate::report::Notice;
use crate::{platform, reload, signal, spawn};

/// A signal as the service knows it. Numbers stay at the door.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Signal {
    /// SIGTERM: stops.
    Terminate,
    /// SIGINT: stops, then hurries, then ends.
    Interrupt,
    /// SIGHUP: reloads; stops if there is nothing to reload.
    Hangup,
    /// SIGUSR1: prints the status.
    User1,
    /// SIGUSR2: hands over to a new process, if there are servers.
    User2,
    /// SIGQUIT.
    Quit,
    /// SIGALRM.
    Alarm,
    /// SIGCONT: goes on after having been suspended.
    Continue,
    /// SIGWINCH: the terminal's window changed.
    Window,
    /// SIGURG: something urgent came on a socket.
    Urgent,
    /// SIGIO: a descriptor is ready.
    Io,
    /// SIGVTALRM: a timer of the process's own time.
    VirtualAlarm,
    /// SIGPROF: a timer for profiling.
    Profile,
    /// SIGXCPU: the limit of processor time is reached.
    CpuLimit,
    /// SIGXFSZ: the limit of a file's size is reached.
    FileLimit,
    /// SIGPWR: the power fails, on Linux.
    Power,
    /// The real-time signal SIGRTMIN+n, on Linux.
    RealTime(u8),
    /// Ctrl-Break, on Windows: stops.
    Break,
    /// The window of the console is closed, on Windows: stops.
    Close,
    /// The user logs off, on Windows: stops.
    Logoff,
    /// The machine or the container shuts down, on Windows: stops.
    Shutdown,
}

impl Signal {
    /// Whether it ends the process once the service has ended.
    pub(crate) const fn ends(self) -> bool {
        self.as_stop().is_some()
    }

    /// What it asks for if nothing else is bound to it.
    const fn as_stop(self) -> Option<StopSignal> {
        Some(match self {
            Self::Terminate => StopSignal::Terminate,
            Self::Interrupt => StopSignal::Interrupt,
            Self::Hangup => StopSignal::Hangup,
            Self::Break => StopSignal::Break,
            Self::Close => StopSignal::Close,
            Self::Logoff => StopSignal::Logoff,
            Self::Shutdown => StopSignal::Shutdown,
            _ => return None,
        })
    }

    /// Whether a program may do something else instead. Not if the process is gone soon after, whatever it does.
    const fn can_be_bound(self) -> bool {
        !matches!(
            self,
            Self::Terminate | Self::Interrupt | Self::Close | Self::Logoff | Self::Shutdown
        )
    }
}

impl From<StopSignal> for Signal {
    fn from(signal: StopSignal) -> Self {
        match signal {
            StopSignal::Terminate => Self::Terminate,
            StopSignal::Interrupt => Self::Interrupt,
            StopSignal::Hangup => Self::Hangup,
            StopSignal::Break => Self::Break,
            StopSignal::Close => Self::Close,
            StopSignal::Logoff => Self::Logoff,
            StopSignal::Shutdown => Self::Shutdown,
        }
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(signal) = self.as_stop() {
            return f.write_str(signal.name());
        }
        f.write_str(match self {
            Self::User1 => "sigusr1",
            Self::User2 => "sigusr2",
            Self::Quit => "sigquit",
            Self::Alarm => "sigalrm",
            Self::Continue => "sigcont",
            Self::Window => "sigwinch",
            Self::Urgent => "sigurg",
            Self::Io => "sigio",
            Self::VirtualAlarm => "sigvtalrm",
            Self::Profile => "sigprof",
            Self::CpuLimit => "sigxcpu",
            Self::FileLimit => "sigxfsz",
            Self::Power => "sigpwr",
            Self::RealTime(number) => return write!(f, "sigrtmin+{number}"),
            _ => "",
        })
    }
}

type Handler = Arc<dyn Fn() -> BoxFuture<Result<(), BoxError>> + Send + Sync>;

struct Binding {
    place: &'static Location<'static>,
    handler: Handler,
}

/// What the program has bound to signals.
#[derive(Default)]
pub(crate) struct Bindings(Mutex<HashMap<Signal, Binding>>);

impl Bindings {
    fn with<T>(&self, look: impl FnOnce(&mut HashMap<Signal, Binding>) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Binds a handler; from here on it is called instead of what the signal does otherwise.
pub(crate) fn bind<F, Fut>(
    core: &Arc<Core>,
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
    let handler: Handler = Arc::new(move || {
        let work = handler();
        Box::pin(async move { work.await.into_result() })
    });
    core.bindings.with(|bindings| match bindings.get(&signal) {
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

impl Core {
    /// A signal, as the door hands it in.
    pub(crate) fn hear(self: &Arc<Self>, signal: Signal) {
        let bound = self.bindings.with(|bindings| {
            let binding = bindings.get(&signal)?;
            Some((binding.place, Arc::clone(&binding.handler)))
        });
        match (bound, signal) {
            (Some((place, handler)), _) => self.call(signal, place, &handler),
            (None, Signal::Hangup) if self.reloads.is_wanted() => reload::request(self),
            (None, Signal::User1) => self.inbox.push(Message::Status),
            #[cfg(all(unix, feature = "net"))]
            (None, Signal::User2) => self.hand_off(),
            #[cfg(all(unix, not(feature = "net")))]
            (None, Signal::User2) => self.note(Notice::HandOffRefused {
                why: "this program was built without adieu's feature `net`; it goes on".to_owned(),
            }),
            (None, _) => {
                // All others are caught only while something is bound to them.
                if let Some(signal) = signal.as_stop() {
                    self.signal(signal);
                }
            }
        }
    }

    /// Whoever sent this signal ends the process after this long: the stop is over a little before, also one that
    /// is under way already.
    pub(crate) fn make_haste(&self, signal: StopSignal, kills_after: Time) {
        let left = platform::usable(kills_after);
        if let Some(sentinel) = self.sentinel.get() {
            sentinel.arm(left);
        }
        self.tell(Event::Within(left));
        if left < self.terms.grace {
            self.note(Notice::GraceCut {
                signal,
                grace: self.terms.grace,
                kills_after,
            });
        }
    }

    /// Runs a handler as tracked work. Once the resources close it is too late for it, and nobody is told: no more
    /// than of a signal that comes after the end.
    fn call(
        self: &Arc<Self>,
        signal: Signal,
        place: &'static Location<'static>,
        handler: &Handler,
    ) {
        let (core, handler) = (Arc::clone(self), Arc::clone(handler));
        let work = async move {
            // In a block of its own: the call that makes the future may panic too.
            let failure = match Caught::new(async move { handler().await }).await {
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
