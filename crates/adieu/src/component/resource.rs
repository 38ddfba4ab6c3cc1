//! Resources: opened in `setup`, closed in the release phase, last opened first.

use std::borrow::Cow;
use std::future::{Future, IntoFuture};
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use adieu_lifecycle::{ComponentId, End, Event};
use pin_project_lite::pin_project;
use tokio::time::Sleep;

use super::{BoxFuture, Closer, Ending};
use crate::error::{BoxError, Error, ErrorKind, Failure};
use crate::report::{ComponentKind, Notice};
use crate::runtime::shared::ServiceShared;
use crate::tracking::monitored::Monitored;
use crate::util::duration::FOREVER;
use crate::util::printable;
use crate::util::retry::{Advice, Backoff};
use crate::util::spans::TaskSpan;

type Close<T> = Box<dyn FnOnce(T) -> BoxFuture<Result<(), BoxError>> + Send>;

/// A resource about to open. Await it to open it.
///
/// If the service is asked to stop while it opens, the opening is dropped. Once open, it is closed in the
/// release phase whatever happens, after all work that may use it.
#[must_use = "a resource opens when it is awaited"]
pub struct Resource<'app, F, T> {
    core: &'app Arc<ServiceShared>,
    name: Cow<'static, str>,
    place: &'static Location<'static>,
    open: F,
    open_timeout: Option<Duration>,
    limit: Option<Duration>,
    close: Option<Close<T>>,
}

pub(crate) fn resource<'app, F, T>(
    core: &'app Arc<ServiceShared>,
    name: Cow<'static, str>,
    place: &'static Location<'static>,
    open: F,
) -> Resource<'app, F, T> {
    Resource {
        core,
        name,
        place,
        open,
        open_timeout: None,
        limit: None,
        close: None,
    }
}

impl<F, T> Resource<'_, F, T> {
    /// How to close it. Without this it is dropped when its turn comes.
    ///
    /// When its time is up, the returned future is dropped and the resource counts as abandoned.
    pub fn stop<C, Fut>(mut self, close: C) -> Self
    where
        C: FnOnce(T) -> Fut + Send + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: Ending,
        T: Send + 'static,
    {
        self.close = Some(Box::new(move |value| {
            Box::pin(async move { close(value).await.into_result() })
        }));
        self
    }

    /// The longest its close may take, inside what the release phase has for it.
    pub const fn limit(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// The longest it may take to open; no bound of its own, if left out. Then the opening is dropped, and awaiting it gives
    /// an error that names the resource and its source location.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # async fn connect() -> std::io::Result<()> { std::future::pending().await }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let report = adieu::scope("orders")
    ///     .run(async |app| {
    ///         app.resource("postgres", connect()).open_timeout(Duration::from_millis(10)).await?;
    ///         Ok(())
    ///     })
    ///     .await;
    /// assert_eq!(report.exit_code(), 1);
    /// # }
    /// ```
    pub const fn open_timeout(mut self, timeout: Duration) -> Self {
        self.open_timeout = Some(timeout);
        self
    }
}

impl<O, Fut, T> Resource<'_, RetryOpen<O, Fut>, T> {
    /// Opens it again when that fails, with this backoff: for a database that starts beside the service. Each failure is in
    /// the log.
    ///
    /// It goes on as long as the start does: until the service is asked to stop, which ends it at once, or until
    /// [`open_timeout`](Self::open_timeout) or [`Service::start_timeout`](crate::Service::start_timeout) is over. An error that
    /// is [`Permanent`](crate::retry::Permanent) ends it, and [`RetryAfter`](crate::retry::RetryAfter) sets the next wait.
    pub fn open_retry(mut self, backoff: Backoff) -> Self {
        let (core, place) = (Arc::clone(self.core), self.place);
        let name: Arc<str> = printable::name(&self.name).into();
        let note = move |attempts, delay, failure: Failure| {
            let mut parts = core.parts();
            // What a timeout says of it.
            if let Some(part) = parts.iter_mut().find(|part| part.name == name) {
                part.failure = Some(failure.clone());
            }
            drop(parts);
            core.note(Notice::OpenRetry {
                part: Arc::clone(&name),
                place: place.to_string(),
                attempts,
                delay,
                failure,
            });
        };
        self.open.retry = Some((backoff, Box::new(note)));
        self
    }
}

/// Called with the number of the attempt that failed, the wait until the next one, and why.
type NoteRetry = Box<dyn Fn(u32, Duration, Failure) + Send>;

pin_project! {
    /// Opens a resource, and again after a failure, if that was asked for. Made by
    /// [`App::resource_with`](crate::App::resource_with).
    pub struct RetryOpen<O, Fut> {
        open: O,
        #[pin]
        opening: Option<Fut>,
        #[pin]
        pause: Option<Sleep>,
        retry: Option<(Backoff, NoteRetry)>,
        failures: u32,
    }
}

impl<O, Fut> RetryOpen<O, Fut> {
    pub(crate) const fn new(open: O) -> Self {
        Self {
            open,
            opening: None,
            pause: None,
            retry: None,
            failures: 0,
        }
    }
}

impl<O, Fut, T, E> Future for RetryOpen<O, Fut>
where
    O: FnMut() -> Fut,
    Fut: Future<Output = Result<T, E>>,
    E: Into<BoxError>,
{
    type Output = Result<T, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            if let Some(pause) = this.pause.as_mut().as_pin_mut() {
                ready!(pause.poll(cx));
                this.pause.set(None);
            }
            if this.opening.is_none() {
                this.opening.set(Some((this.open)()));
            }
            let Some(opening) = this.opening.as_mut().as_pin_mut() else {
                return Poll::Pending;
            };
            let opened = ready!(opening.poll(cx)).map_err(Into::into);
            // What the attempt holds is gone before the next one.
            this.opening.set(None);
            let (error, (backoff, note)) = match (opened, &this.retry) {
                (Err(error), Some(retry)) => (error, retry),
                (opened, _) => return Poll::Ready(opened),
            };
            *this.failures = this.failures.saturating_add(1);
            let wait = match Advice::of(&error) {
                Advice::Permanent => return Poll::Ready(Err(error)),
                Advice::RetryAfter(Some(wait)) => wait,
                Advice::RetryAfter(None) | Advice::Again => backoff.wait(*this.failures),
            };
            note(*this.failures, wait, Failure::from_error(&*error));
            this.pause.set(Some(tokio::time::sleep(wait)));
        }
    }
}

/// Says that the opening was given up, if it is dropped before it is disarmed.
struct Opening<'app> {
    core: &'app ServiceShared,
    id: ComponentId,
    over: bool,
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.core.tell(Event::Ended(self.id, End::Cancelled));
        }
    }
}

pin_project! {
    /// A resource while it opens: what awaiting a [`Resource`] waits for. It is `Send` if the future that opens the
    /// resource is.
    ///
    /// Cancelling drops the opening; nothing stays open that would not be closed, because from the moment the value exists
    /// to its registration there is no await.
    #[must_use = "a resource opens when it is awaited"]
    pub struct OpenResource<'app, F, T> {
        core: &'app Arc<ServiceShared>,
        unregistered: Option<Unregistered>,
        close: Option<Close<T>>,
        span: TaskSpan,
        // Dropped before it is said that the opening was given up.
        #[pin]
        open: Monitored<F>,
        open_timeout: Option<Duration>,
        // Begins with the first poll.
        #[pin]
        timer: Option<Sleep>,
        opening: Option<Opening<'app>>,
    }
}

/// What is registered with the first poll.
struct Unregistered {
    name: Cow<'static, str>,
    place: &'static Location<'static>,
    limit: Option<Duration>,
}

impl<F, T, E> Future for OpenResource<'_, F, T>
where
    F: Future<Output = Result<T, E>>,
    E: Into<BoxError>,
    T: Clone + Send + 'static,
{
    type Output = Result<T, Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let core: &ServiceShared = this.core;
        if let Some(Unregistered { name, place, limit }) = this.unregistered.take() {
            let id = core.register(name, ComponentKind::Resource, place, limit)?;
            core.note(Notice::Opening {
                part: name_of(core, id),
            });
            *this.opening = Some(Opening {
                core,
                id,
                over: false,
            });
            this.open.as_mut().identify(core.poll_id_of(Some(id)));
            let name = name_of(core, id);
            *this.span = TaskSpan::of(tracing::info_span!(target: "adieu", "open", part = &*name));
            let timer = this
                .open_timeout
                .map(|most| tokio::time::sleep(most.min(FOREVER)));
            this.timer.set(timer);
        }
        // `None` if its time is over.
        let opened = match this.span.in_scope(|| this.open.poll(cx)) {
            Poll::Ready(opened) => Some(opened),
            Poll::Pending => {
                let Some(timer) = this.timer.as_pin_mut() else {
                    return Poll::Pending;
                };
                ready!(timer.poll(cx));
                None
            }
        };
        let Some(mut opening) = this.opening.take() else {
            return Poll::Pending;
        };
        drop(std::mem::take(this.span));
        opening.over = true;
        let (id, name) = (opening.id, name_of(core, opening.id));
        let error = match opened {
            Some(Ok(Ok(value))) => {
                let close = this.close.take();
                let (kept, closer): (T, Closer) = (
                    value.clone(),
                    Box::new(move || match close {
                        Some(close) => close(value),
                        None => Box::pin(async move {
                            drop(value);
                            Ok(())
                        }),
                    }),
                );
                core.with_part(id, |part| {
                    part.closer = Some(closer);
                    // Of an attempt before.
                    part.failure = None;
                });
                core.note(Notice::Opened { part: name });
                core.tell(Event::Opened(id));
                return Poll::Ready(Ok(kept));
            }
            Some(Ok(Err(error))) => Error::new(ErrorKind::Open {
                name,
                cause: error.into(),
            }),
            Some(Err(panic)) => Error::new(ErrorKind::OpenPanicked { name, panic }),
            None => Error::new(ErrorKind::OpenTimedOut {
                name,
                place: core.with_part(id, |part| part.place),
                limit: this.open_timeout.unwrap_or_default(),
                last: core.with_part(id, |part| part.failure.take()).flatten(),
            }),
        };
        core.with_part(id, |part| part.failure = Some(Failure::from_error(&error)));
        core.tell(Event::Ended(id, End::Failed));
        Poll::Ready(Err(error))
    }
}

fn name_of(core: &ServiceShared, id: ComponentId) -> Arc<str> {
    core.with_part(id, |part| Arc::clone(&part.name))
        .unwrap_or_default()
}

impl<'app, F, T, E> IntoFuture for Resource<'app, F, T>
where
    F: Future<Output = Result<T, E>>,
    E: Into<BoxError>,
    T: Clone + Send + 'static,
{
    type Output = Result<T, Error>;
    type IntoFuture = OpenResource<'app, F, T>;

    fn into_future(self) -> Self::IntoFuture {
        OpenResource {
            core: self.core,
            span: TaskSpan::default(),
            unregistered: Some(Unregistered {
                name: self.name,
                place: self.place,
                limit: self.limit,
            }),
            close: self.close,
            open: Monitored::new(0, self.open),
            open_timeout: self.open_timeout,
            timer: None,
            opening: None,
        }
    }
}
