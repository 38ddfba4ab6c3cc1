//! A store: a resource that tasks keep their state in, closed after they have saved it.

use std::borrow::Cow;
use std::future::{Future, IntoFuture};
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::resource;
use crate::core::Core;
use crate::error::{BoxError, Error};
use crate::stop::Stop;
use crate::store::{Store, StoreHandle};

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
}

impl<'app, O> StorePart<'app, O> {
    pub(crate) fn new(core: &'app Arc<Core>, place: &'static Location<'static>, open: O) -> Self {
        Self {
            core,
            name: Cow::Borrowed("store"),
            place,
            open,
            limit: None,
        }
    }

    /// Its name in the report, `store` without this. A second store needs one of its own.
    pub fn named(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.name = name.into();
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
        let open = async move { open.await.map(|store| StoreHandle::within(store, stop)) };
        let mut part = resource(self.core, self.name, self.place, open)
            .stop(|store: StoreHandle| async move { store.close().await });
        if let Some(limit) = self.limit {
            part = part.limit(limit);
        }
        part.into_future()
    }
}
