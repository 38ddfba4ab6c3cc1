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

use super::{BoxFuture, Closer, Ending};
use crate::error::{BoxError, Error, ErrorKind, Failure};
use crate::report::{ComponentKind, Notice};
use crate::runtime::shared::ServiceShared;
use crate::tracking::monitored::Monitored;

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
        // Dropped before it is said that the opening was given up.
        #[pin]
        open: Monitored<F>,
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
        }
        let opened = ready!(this.open.poll(cx));
        let Some(mut opening) = this.opening.take() else {
            return Poll::Pending;
        };
        opening.over = true;
        let (id, name) = (opening.id, name_of(core, opening.id));
        let error = match opened {
            Ok(Ok(value)) => {
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
                core.with_part(id, |part| part.closer = Some(closer));
                core.note(Notice::Opened { part: name });
                core.tell(Event::Opened(id));
                return Poll::Ready(Ok(kept));
            }
            Ok(Err(error)) => Error::new(ErrorKind::Open {
                name,
                cause: error.into(),
            }),
            Err(panic) => Error::new(ErrorKind::OpenPanicked { name, panic }),
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
            unregistered: Some(Unregistered {
                name: self.name,
                place: self.place,
                limit: self.limit,
            }),
            close: self.close,
            open: Monitored::new(0, self.open),
            opening: None,
        }
    }
}
