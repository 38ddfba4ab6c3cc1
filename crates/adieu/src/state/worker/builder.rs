//! A worker as it is registered: which store, which batching, what to do when it fails.

use std::borrow::Cow;
use std::future::Future;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Batching, Worker};
use crate::component::{BoxFuture, Code, ComponentHandle, Ending, begin};
use crate::error::Error;
use crate::report::ComponentKind;
use crate::runtime::registrar::Registrar;
use crate::runtime::stop::Stop;
use crate::runtime::supervise::{OnFailure, Restart};
use crate::state::StoreHandle;

type WorkFn<C> = Box<dyn FnMut(Worker<C>) -> BoxFuture<crate::Result> + Send>;

/// A worker about to start: it does at the end of the statement that makes it. Made by
/// [`App::worker`](crate::App::worker).
pub struct WorkerBuilder<'app, C: Serialize + DeserializeOwned + Send + 'static> {
    app: &'app mut Registrar,
    name: Cow<'static, str>,
    location: &'static Location<'static>,
    store: Option<StoreHandle>,
    batching: Batching,
    format: u32,
    limit: Option<Duration>,
    on_failure: OnFailure,
    restart: Option<Restart>,
    work: Option<WorkFn<C>>,
}

impl<'app, C: Serialize + DeserializeOwned + Send + 'static> WorkerBuilder<'app, C> {
    pub(crate) fn new<F, Fut>(
        app: &'app mut Registrar,
        name: Cow<'static, str>,
        location: &'static Location<'static>,
        store: StoreHandle,
        mut work: F,
    ) -> Self
    where
        F: FnMut(Worker<C>) -> Fut + Send + 'static,
        Fut: Future + Send + 'static,
        Fut::Output: Ending,
    {
        let work: WorkFn<C> = Box::new(move |worker| {
            let working = work(worker);
            Box::pin(async move { working.await.into_result() })
        });
        Self {
            app,
            name,
            location,
            store: Some(store),
            batching: Batching::default(),
            format: 1,
            limit: None,
            on_failure: OnFailure::Stop,
            restart: None,
            work: Some(work),
        }
    }

    /// Saves every so many checkpoints instead of each. After a crash, at most so many are done again.
    pub fn every(mut self, count: u32) -> Self {
        self.batching.every = count.max(1);
        self
    }

    /// Saves at the latest so long after the first checkpoint that was put off, also while the worker waits in
    /// [`Worker::until_stop`]. Alone, it means: as many as come in that time.
    pub fn within(mut self, time: Duration) -> Self {
        self.batching.within = Some(time);
        if self.batching.every == 1 {
            self.batching.every = u32::MAX;
        }
        self
    }

    /// The number of the cursor's format: see [`State::format`](crate::state::State::format).
    pub const fn format(mut self, format: u32) -> Self {
        self.format = format;
        self
    }

    /// Starts it again when it fails, later each time; it resumes from its last checkpoint.
    pub const fn restart(mut self, restart: Restart) -> Self {
        self.restart = Some(restart);
        self
    }

    /// When it fails (for good, if it is restarted), say so in log and report, and go on without it instead of
    /// stopping the service. The exit code still tells.
    pub const fn report_only(mut self) -> Self {
        self.on_failure = OnFailure::Report;
        self
    }

    /// The longest it may take to come to its [place to stop](Worker::until_stop), inside the drain's budget.
    pub const fn limit(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }
}

impl<C: Serialize + DeserializeOwned + Send + 'static> WorkerBuilder<'_, C> {
    /// Starts it here and now, and gives its handle.
    ///
    /// # Errors
    /// If its name is in use.
    pub fn start(mut self) -> Result<ComponentHandle, Error> {
        self.begin().unwrap_or_else(|| Err(Error::started_twice()))
    }

    /// Nothing if it has begun.
    fn begin(&mut self) -> Option<Result<ComponentHandle, Error>> {
        let (mut work, store) = (self.work.take()?, self.store.take()?);
        let key: Arc<str> = Arc::from(&*self.name);
        let (batching, format) = (self.batching, self.format);
        let start = move |stop: Stop| -> BoxFuture<crate::Result> {
            let state = store.state::<C>(Arc::clone(&key)).format(format);
            let worker = Worker::new(stop.clone(), state, batching);
            let progress = Arc::clone(&worker.progress);
            let working = work(worker);
            Box::pin(async move {
                // The shield makes the marked place the only one; its bound is the cancel phase.
                let whole = async {
                    let worked = working.await;
                    let saved = progress.lock().await.finish().await;
                    worked.and(saved.map_err(Into::into))
                };
                stop.shield(whole).await
            })
        };
        let code = match self.restart {
            Some(restart) => Code::Again(restart, Box::new(start)),
            None => {
                let mut start = start;
                Code::Once(Box::new(move |stop| start(stop)))
            }
        };
        let name = std::mem::take(&mut self.name);
        Some(begin(
            self.app,
            ComponentKind::Worker,
            name,
            self.location,
            self.limit,
            self.on_failure,
            code,
        ))
    }
}

impl<C: Serialize + DeserializeOwned + Send + 'static> Drop for WorkerBuilder<'_, C> {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.begin() {
            self.app.misuse(error);
        }
    }
}
