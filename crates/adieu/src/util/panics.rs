//! Panics as failures: the message, and the place it came from.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::panic::{self, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::Once;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

/// A panic that was caught.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Panic {
    pub(crate) message: String,
    pub(crate) place: Option<String>,
}

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "panicked: {}", self.message)
    }
}

thread_local! {
    static LAST_PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Remembers where panics happen; the hook that was there before still runs after ours.
///
/// The payload of a caught panic has only the message. The place is known to the hook alone.
pub(crate) fn remember_places() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let place = info.location().map(ToString::to_string);
            let _ = LAST_PLACE.try_with(|last| last.replace(place));
            if !QUIET.try_with(Cell::get).unwrap_or(false) {
                before(info);
            }
        }));
    });
}

/// Runs code whose panic is an answer and no news: nothing is printed.
pub(crate) fn quietly<T>(code: impl FnOnce() -> T) -> Result<T, Panic> {
    remember_places();
    QUIET.set(true);
    let result = panic::catch_unwind(AssertUnwindSafe(code)).map_err(describe);
    QUIET.set(false);
    result
}

/// What a caught payload says. Called on the thread that panicked.
pub(crate) fn describe(payload: Box<dyn Any + Send>) -> Panic {
    let message = match (
        payload.downcast_ref::<&str>(),
        payload.downcast_ref::<String>(),
    ) {
        (Some(text), _) => (*text).to_owned(),
        (_, Some(text)) => text.clone(),
        _ => "(a payload that is not text)".to_owned(),
    };
    let place = LAST_PLACE.try_with(RefCell::take).ok().flatten();
    // A payload whose destructor panics must not undo the catching.
    let _ = panic::catch_unwind(AssertUnwindSafe(|| drop(payload)));
    Panic { message, place }
}

pin_project! {
    /// A future whose panic is a value.
    pub(crate) struct CatchUnwind<F> {
        #[pin]
        future: F,
    }
}

impl<F> CatchUnwind<F> {
    pub(crate) const fn new(future: F) -> Self {
        Self { future }
    }
}

impl<F: Future> Future for CatchUnwind<F> {
    type Output = Result<F::Output, Panic>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        match panic::catch_unwind(AssertUnwindSafe(|| this.future.poll(cx))) {
            Ok(polled) => polled.map(Ok),
            Err(payload) => Poll::Ready(Err(describe(payload))),
        }
    }
}
