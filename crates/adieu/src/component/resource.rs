//! Resources: opened in `setup`, closed in the release phase, last opened first.

use std::borrow::Cow;
use std::future::{Future, IntoFuture};
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use super::{BoxFuture, Closer, Ending};
use crate::core::Core;
use crate::error::{BoxError, Error, ErrorKind, Failure};
use crate::lifecycle::{End, Event, PartId};
use crate::report::{Notice, PartKind};

type Close<T> = Box<dyn FnOnce(T) -> BoxFuture<Result<(), BoxError>> + Send>;

/// A resource about to open. Await it to open it.
///
/// If the service is asked to stop while it opens, the opening is dropped. Once open, it is closed in the
/// release phase whatever happens, after all work that may use it.
#[must_use = "a resource opens when it is awaited"]
pub struct Resource<'app, F, T> {
    core: &'app Arc<Core>,
    name: Cow<'static, str>,
    place: &'static Location<'static>,
    open: F,
    limit: Option<Duration>,
    close: Option<Close<T>>,
}

pub(crate) fn resource<'app, F, T>(
    core: &'app Arc<Core>,
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
    core: &'app Core,
    id: PartId,
    over: bool,
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        if !self.over {
            self.core.tell(Event::Ended(self.id, End::Cancelled));
        }
    }
}

impl<F, T, E> Resource<'_, F, T>
where
    F: Future<Output = Result<T, E>>,
    E: Into<BoxError>,
    T: Clone + Send + 'static,
{
    /// Cancelling drops the opening; nothing stays open that would not be closed, because from the moment
    /// the value exists to its registration there is no await.
    async fn open(self) -> Result<T, Error> {
        let id = self
            .core
            .register(self.name, PartKind::Resource, self.place, self.limit)?;
        let name = self
            .core
            .with_part(id, |part| Arc::clone(&part.name))
            .unwrap_or_default();
        self.core.note(Notice::Opening {
            part: Arc::clone(&name),
        });
        let mut opening = Opening {
            core: self.core,
            id,
            over: false,
        };
        let opened = crate::seated::Seated::new(self.core.seat_of(Some(id)), self.open).await;
        opening.over = true;
        let error = match opened {
            Ok(Ok(value)) => {
                let close = self.close;
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
                self.core.with_part(id, |part| part.closer = Some(closer));
                self.core.note(Notice::Opened { part: name });
                self.core.tell(Event::Opened(id));
                return Ok(kept);
            }
            Ok(Err(error)) => Error::new(ErrorKind::Open {
                name,
                cause: error.into(),
            }),
            Err(panic) => Error::new(ErrorKind::OpenPanicked { name, panic }),
        };
        self.core
            .with_part(id, |part| part.failure = Some(Failure::from_error(&error)));
        self.core.tell(Event::Ended(id, End::Failed));
        Err(error)
    }
}

impl<'app, F, T, E> IntoFuture for Resource<'app, F, T>
where
    F: Future<Output = Result<T, E>> + 'app,
    E: Into<BoxError> + 'app,
    T: Clone + Send + 'static,
{
    type Output = Result<T, Error>;
    type IntoFuture = std::pin::Pin<Box<dyn Future<Output = Self::Output> + 'app>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.open())
    }
}
