//! What can go wrong, said so that the reader knows what to do next.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use adieu_lifecycle::Cause;

use crate::util::duration::show;
use crate::util::panics::Panic;
use crate::util::printable;

#[doc(inline)]
pub use adieu_core::BoxError;

/// The result of `setup` and of tasks.
pub type Result<T = (), E = BoxError> = std::result::Result<T, E>;

/// An error of this library.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
}

#[derive(Debug)]
pub(crate) enum ErrorKind {
    /// A resource did not open.
    Open { name: Arc<str>, cause: BoxError },
    /// A value that can be reloaded could not be loaded at the start.
    Load { name: Arc<str>, cause: BoxError },
    /// A component of the program's own kind did not start.
    Start { name: Arc<str>, cause: BoxError },
    /// It panicked on its start.
    StartPanicked { name: Arc<str>, panic: Panic },
    /// A resource did not open in its time.
    OpenTimedOut {
        name: Arc<str>,
        place: Option<&'static Location<'static>>,
        limit: Duration,
        /// Why the last attempt failed, if there was more than one.
        last: Option<Failure>,
    },
    /// Opening panicked.
    OpenPanicked { name: Arc<str>, panic: Panic },
    /// Two parts have one name.
    Duplicate {
        name: Arc<str>,
        first: &'static Location<'static>,
        again: &'static Location<'static>,
    },
    /// A component cannot be started again.
    NotRestarted {
        name: Arc<str>,
        place: &'static Location<'static>,
        why: &'static str,
    },
    /// Something was to be added to a service that stops.
    Stopping,
    /// A configured value makes no sense.
    Config { what: String },
    /// `run` wants to make a runtime inside one.
    NestedRuntime,
    /// The runtime or one of our threads could not be made.
    System {
        what: &'static str,
        cause: std::io::Error,
    },
    /// A server that runs alone has failed.
    #[cfg(feature = "http")]
    Served { failure: Option<Failure> },
    /// `setup` did not return in its time.
    StartTimedOut {
        timeout: Duration,
        /// What was opening.
        opening: Vec<(Arc<str>, &'static Location<'static>)>,
    },
    /// `setup` panicked.
    SetupPanicked(Panic),
    /// An address could not be listened on.
    #[cfg(feature = "net")]
    Listen {
        name: Arc<str>,
        address: String,
        holder: Option<String>,
        /// What to do about it.
        advice: Option<std::borrow::Cow<'static, str>>,
        cause: std::io::Error,
    },
    /// A certificate or key could not be used.
    #[cfg(feature = "tls-no-provider")]
    Tls {
        name: Arc<str>,
        file: std::path::PathBuf,
        cause: BoxError,
    },
    /// The program's own TLS configuration could not be had.
    #[cfg(feature = "tls-no-provider")]
    TlsConfig { name: Arc<str>, cause: BoxError },
}

impl Error {
    pub(crate) const fn new(kind: ErrorKind) -> Self {
        Self { kind }
    }

    pub(crate) const fn config(what: String) -> Self {
        Self::new(ErrorKind::Config { what })
    }

    /// Cannot be: what starts a builder consumes it.
    pub(crate) fn started_twice() -> Self {
        Self::config("it has been started already".to_owned())
    }

    /// The cause of the stop, where it is nearer than "setup failed".
    pub(crate) fn cause(&self) -> Option<Cause> {
        match &self.kind {
            ErrorKind::Open { name, .. }
            | ErrorKind::Start { name, .. }
            | ErrorKind::OpenTimedOut { name, .. } => Some(Cause::Error(Arc::clone(name))),
            ErrorKind::Load { name, .. } => Some(Cause::Error(Arc::clone(name))),
            ErrorKind::OpenPanicked { name, .. } | ErrorKind::StartPanicked { name, .. } => {
                Some(Cause::Panic(Arc::clone(name)))
            }
            #[cfg(feature = "net")]
            ErrorKind::Listen { name, .. } => Some(Cause::Error(Arc::clone(name))),
            #[cfg(feature = "tls-no-provider")]
            ErrorKind::Tls { name, .. } | ErrorKind::TlsConfig { name, .. } => {
                Some(Cause::Error(Arc::clone(name)))
            }
            _ => None,
        }
    }

    /// Whether the program asked for something that cannot be (exit code 2), and not the world (1).
    pub(crate) fn is_misuse(&self) -> bool {
        match &self.kind {
            ErrorKind::Duplicate { .. } | ErrorKind::Config { .. } | ErrorKind::NestedRuntime => {
                true
            }
            // Text that is not an address.
            #[cfg(feature = "net")]
            ErrorKind::Listen { cause, .. } => cause.kind() == std::io::ErrorKind::InvalidInput,
            _ => false,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ErrorKind::Open { name, .. } => write!(f, "resource `{name}` did not open"),
            ErrorKind::Load { name, .. } => write!(f, "`{name}` could not be loaded"),
            ErrorKind::Start { name, .. } => write!(f, "`{name}` did not start"),
            ErrorKind::StartPanicked { name, panic } => write!(f, "starting `{name}` {panic}"),
            ErrorKind::OpenTimedOut { name, place, limit, last } => {
                write!(f, "resource `{name}`")?;
                if let Some(place) = place {
                    write!(f, " (made at {place})")?;
                }
                write!(f, " did not open within {}", show(*limit))?;
                match last {
                    Some(last) => write!(f, "; the last attempt: {last}"),
                    None => f.write_str(
                        ": what it connects to accepts and does not answer, or the time is too short; `.open_timeout(..)` sets it",
                    ),
                }
            }
            ErrorKind::OpenPanicked { name, panic } => write!(f, "opening resource `{name}` {panic}"),
            ErrorKind::Duplicate { name, first, again } => write!(
                f,
                "two parts are named `{name}`: the first at {first}, another at {again}; give one of them a new name"
            ),
            ErrorKind::NotRestarted { name, place, why } => {
                write!(f, "`{name}` (made at {place}) was not started again: {why}")
            }
            ErrorKind::Stopping => f.write_str("nothing was added: the service is stopping"),
            ErrorKind::Config { what } => f.write_str(what),
            ErrorKind::NestedRuntime => f.write_str(
                "`run` makes the service's own runtime, but this thread is inside one already; call it from a plain \
                 `fn main()`, or use `adieu::scope(name).run(setup).await` to live inside the existing runtime",
            ),
            ErrorKind::System { what, .. } => f.write_str(what),
            ErrorKind::StartTimedOut { timeout, opening } => {
                write!(f, "the start took longer than {}", show(*timeout))?;
                for (name, place) in opening {
                    write!(f, ", opening resource `{name}` (made at {place})")?;
                }
                f.write_str("; `start_timeout` sets the time for `setup`")
            }
            ErrorKind::SetupPanicked(panic) => write!(f, "setup {panic}"),
            #[cfg(feature = "http")]
            ErrorKind::Served { failure: Some(failure) } => failure.fmt(f),
            #[cfg(feature = "http")]
            ErrorKind::Served { failure: None } => f.write_str("the server has failed"),
            #[cfg(feature = "net")]
            ErrorKind::Listen { name, address, holder, advice, .. } => {
                write!(f, "`{name}` cannot listen on {address}")?;
                match (holder, advice) {
                    (Some(holder), _) => write!(f, ", which {holder} holds: stop that, or choose another address"),
                    (None, Some(advice)) => write!(f, " ({advice})"),
                    (None, None) => Ok(()),
                }
            }
            #[cfg(feature = "tls-no-provider")]
            ErrorKind::Tls { name, file, .. } => write!(f, "`{name}` cannot use {}", file.display()),
            #[cfg(feature = "tls-no-provider")]
            ErrorKind::TlsConfig { name, .. } => write!(f, "`{name}` has no TLS configuration"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            ErrorKind::Open { cause, .. }
            | ErrorKind::Start { cause, .. }
            | ErrorKind::Load { cause, .. } => Some(&**cause),
            ErrorKind::System { cause, .. } => Some(cause),
            #[cfg(feature = "net")]
            ErrorKind::Listen { cause, .. } => Some(cause),
            #[cfg(feature = "tls-no-provider")]
            ErrorKind::Tls { cause, .. } | ErrorKind::TlsConfig { cause, .. } => Some(&**cause),
            _ => None,
        }
    }
}

/// Work was started too late: the service releases its resources, or has ended.
///
/// Until the release begins, cleanup may start work; it is tracked and finishes inside the budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooLate {
    pub(crate) name: String,
}

impl fmt::Display for TooLate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` was not started: the service is already releasing its resources; start it before, in the task \
             itself or in an `on_cleanup` hook",
            self.name
        )
    }
}

impl std::error::Error for TooLate {}

/// A spawned task gave no result.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskError {
    /// It was cancelled.
    Cancelled,
    /// It panicked.
    Panicked {
        /// What it said.
        message: String,
        /// Where, as `file:line:column`.
        place: Option<String>,
    },
}

impl From<Panic> for TaskError {
    fn from(Panic { message, place }: Panic) -> Self {
        Self::Panicked { message, place }
    }
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancelled => f.write_str("the task was cancelled"),
            Self::Panicked {
                message,
                place: Some(place),
            } => write!(f, "the task panicked at {place}: {message}"),
            Self::Panicked {
                message,
                place: None,
            } => write!(f, "the task panicked: {message}"),
        }
    }
}

impl std::error::Error for TaskError {}

/// The most causes of a failure that are said.
const LONGEST_CHAIN: usize = 20;

/// A failure as it stands in log and report: the chain of causes in words, outermost first.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Failure {
    /// The error and its causes, outermost first.
    pub causes: Vec<String>,
    /// Where it panicked, as `file:line:column`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub panicked_at: Option<String>,
}

impl Failure {
    pub(crate) fn from_error(error: &(dyn std::error::Error + 'static)) -> Self {
        let chain = std::iter::successors(Some(error), |error| error.source());
        let mut causes: Vec<String> = Vec::new();
        for text in chain.take(LONGEST_CHAIN).map(ToString::to_string) {
            let text = printable::bounded(text);
            // Many errors repeat their source in their own words; saying it once is enough.
            if !causes.last().is_some_and(|outer| outer.ends_with(&text)) {
                causes.push(text);
            }
        }
        let panicked_at = match error.downcast_ref::<Error>().map(|error| &error.kind) {
            Some(
                ErrorKind::SetupPanicked(panic)
                | ErrorKind::OpenPanicked { panic, .. }
                | ErrorKind::StartPanicked { panic, .. },
            ) => panic.place.clone(),
            _ => None,
        };
        Self {
            causes,
            panicked_at,
        }
    }
}

impl From<&Panic> for Failure {
    fn from(panic: &Panic) -> Self {
        Self {
            causes: vec![printable::bounded(panic.to_string())],
            panicked_at: panic.place.clone(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable::paragraph(&self.causes.join(": ")))?;
        match &self.panicked_at {
            Some(place) => write!(f, " (at {place})"),
            None => Ok(()),
        }
    }
}
