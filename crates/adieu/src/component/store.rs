//! A store: a resource that tasks keep their state in, closed after they have saved it.

use std::borrow::Cow;
use std::future::{Future, IntoFuture};
use std::panic::Location;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::resource;
use crate::core::Core;
use crate::error::{BoxError, Error};
use crate::stop::Stop;
use crate::store::{FileStore, Store, StoreHandle};

/// A store about to open. Await it to open it; made by [`App::store`](crate::App::store).
///
/// It is a resource: if the service is asked to stop while it opens, the opening is dropped; once open, it is
/// closed in the release phase, after all work that may save something.
#[must_use = "a store opens when it is awaited"]
pub struct StorePart<'app, O> {
    core: &'app Arc<Core>,
    name: Cow<'static, str>,
    place: &'static Location<'static>,
    open: O,
    limit: Option<Duration>,
    fallback: Option<PathBuf>,
}

impl<'app, O> StorePart<'app, O> {
    pub(crate) fn new(core: &'app Arc<Core>, place: &'static Location<'static>, open: O) -> Self {
        Self {
            core,
            name: Cow::Borrowed("store"),
            place,
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

    /// A folder on this machine for last saves: if the store is on a server that is gone while the service stops, they
    /// are kept there, and handed in when the state is loaded at the next start. If somebody else has saved since,
    /// the store is right.
    ///
    /// For state that has one owner: [`State::save`](crate::State::save) and checkpoints of workers. A
    /// compare-and-swap is never answered by a file.
    pub fn fallback(mut self, folder: impl Into<PathBuf>) -> Self {
        self.fallback = Some(folder.into());
        self
    }

    /// The longest its close may take, inside what the release phase has for it.
    pub const fn limit(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }
}

impl<'app, O, S, E> IntoFuture for StorePart<'app, O>
where
    O: IntoFuture<Output = Result<S, E>>,
    O::IntoFuture: 'app,
    S: Store,
    E: Into<BoxError> + 'app,
{
    type Output = Result<StoreHandle, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + 'app>>;

    fn into_future(self) -> Self::IntoFuture {
        let stop = Stop::new(Arc::clone(self.core));
        let open = self.open.into_future();
        let fallback = self.fallback;
        let open = async move {
            let files = match fallback {
                Some(folder) => Some(FileStore::open(folder).await?),
                None => None,
            };
            let store = open.await.map_err(Into::into)?;
            Ok::<_, BoxError>(StoreHandle::within(store, stop, files))
        };
        let mut part = resource(self.core, self.name, self.place, open)
            .stop(|store: StoreHandle| async move { store.close().await });
        if let Some(limit) = self.limit {
            part = part.limit(limit);
        }
        part.into_future()
    }
}
