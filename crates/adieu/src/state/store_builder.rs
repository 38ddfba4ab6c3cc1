//! A store: a resource that tasks keep their state in, closed after they have saved it.

use std::borrow::Cow;
use std::future::{Future, IntoFuture};
use std::panic::Location;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use pin_project_lite::pin_project;

use super::{FileStore, Store, StoreHandle};
use crate::component::{BoxFuture, OpenResource, resource};
use crate::error::{BoxError, Error};
use crate::runtime::shared::ServiceShared;
use crate::runtime::stop::Stop;

/// A store about to open. Await it to open it; made by [`App::store`](crate::App::store).
///
/// It is a resource: if the service is asked to stop while it opens, the opening is dropped; once open, it is
/// closed in the release phase, after all work that may save something.
#[must_use = "a store opens when it is awaited"]
pub struct StoreBuilder<'app, O> {
    core: &'app Arc<ServiceShared>,
    name: Cow<'static, str>,
    location: &'static Location<'static>,
    open: O,
    limit: Option<Duration>,
    fallback: Option<PathBuf>,
}

impl<'app, O> StoreBuilder<'app, O> {
    pub(crate) fn new(
        core: &'app Arc<ServiceShared>,
        location: &'static Location<'static>,
        open: O,
    ) -> Self {
        Self {
            core,
            name: Cow::Borrowed("store"),
            location,
            open,
            limit: None,
            fallback: None,
        }
    }

    /// Its name in the report, `store` without this. A second store needs one of its own.
    pub fn named(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.name = name.into();
        self
    }

    /// A directory on this machine for last saves: if the store is on a server that is gone while the service stops, they
    /// are kept there, and given to the store when the state is loaded at the next start. If another process has
    /// saved since, the value in the store stays.
    ///
    /// For state that has one owner: [`State::save`](crate::state::State::save) and checkpoints of workers. A
    /// compare-and-swap is never answered by a file.
    pub fn fallback(mut self, directory: impl Into<PathBuf>) -> Self {
        self.fallback = Some(directory.into());
        self
    }

    /// The longest its close may take, inside what the release phase has for it.
    pub const fn limit(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }
}

pin_project! {
    /// A store while it opens: first its directory for last saves, then the store itself. It is `Send` if the future that
    /// opens the store is.
    ///
    /// Dropped half-way, nothing stays open.
    #[must_use = "a store opens when it is awaited"]
    pub struct OpenStore<F> {
        stop: Stop,
        opening_files: Option<BoxFuture<Result<FileStore, BoxError>>>,
        files: Option<FileStore>,
        #[pin]
        open: F,
    }
}

impl<F, S, E> Future for OpenStore<F>
where
    F: Future<Output = Result<S, E>>,
    S: Store,
    E: Into<BoxError>,
{
    type Output = Result<StoreHandle, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Some(opening) = this.opening_files {
            *this.files = Some(ready!(opening.as_mut().poll(cx))?);
            *this.opening_files = None;
        }
        let store = ready!(this.open.poll(cx)).map_err(Into::into)?;
        let (stop, files) = (this.stop.clone(), this.files.take());
        Poll::Ready(Ok(StoreHandle::within(store, stop, files)))
    }
}

impl<'app, O, S, E> IntoFuture for StoreBuilder<'app, O>
where
    O: IntoFuture<Output = Result<S, E>>,
    S: Store,
    E: Into<BoxError>,
{
    type Output = Result<StoreHandle, Error>;
    type IntoFuture = OpenResource<'app, OpenStore<O::IntoFuture>, StoreHandle>;

    fn into_future(self) -> Self::IntoFuture {
        let opening_files = self.fallback.map(|directory| -> BoxFuture<_> {
            Box::pin(async move { Ok(FileStore::open(directory).await?) })
        });
        let open = OpenStore {
            stop: Stop::new(Arc::clone(self.core)),
            opening_files,
            files: None,
            open: self.open.into_future(),
        };
        let mut part = resource(self.core, self.name, self.location, open)
            .stop(|store: StoreHandle| async move { store.close().await });
        if let Some(limit) = self.limit {
            part = part.limit(limit);
        }
        part.into_future()
    }
}
