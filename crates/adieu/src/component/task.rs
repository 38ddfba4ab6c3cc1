//! Tasks: the service's own work, supervised, each with a policy for its failure.

use std::borrow::Cow;
use std::future::Future;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use adieu_lifecycle::ComponentId;
use tokio::task::JoinHandle;

use super::{BoxFuture, ComponentHandle, Ending};
use crate::error::Error;
use crate::report::ComponentKind;
use crate::runtime::registered::{AbortOnDrop, registered};
use crate::runtime::registrar::Registrar;
use crate::runtime::shared::ServiceShared;
use crate::runtime::spawn;
use crate::runtime::stop::Stop;
use crate::runtime::supervise::{self, OnFailure, Restart};
use crate::runtime::tracked::Tracked;
use crate::tracking::task_registry::WorkKind;
use crate::util::spans::TaskSpan;

/// A task about to start: it does at the end of the statement that makes it.
///
/// ```
/// # use std::time::Duration;
/// # async fn setup(app: &mut adieu::App) -> adieu::Result {
/// app.task("metrics", |stop| async move { stop.requested().await })
///     .report_only()
///     .limit(Duration::from_secs(1));
/// # Ok(())
/// # }
/// ```
pub struct TaskBuilder<'app> {
    app: &'app mut Registrar,
    name: Cow<'static, str>,
    place: &'static Location<'static>,
    limit: Option<Duration>,
    on_failure: OnFailure,
    code: Option<Code>,
}

pub(crate) enum Code {
    Once(Box<dyn FnOnce(Stop) -> BoxFuture<crate::Result> + Send>),
    Again(
        Restart,
        Box<dyn FnMut(Stop) -> BoxFuture<crate::Result> + Send>,
    ),
}

pub(crate) fn once<F, Fut>(code: F) -> Code
where
    F: FnOnce(Stop) -> Fut + Send + 'static,
    Fut: Future + Send + 'static,
    Fut::Output: Ending,
{
    Code::Once(Box::new(move |stop| {
        let work = code(stop);
        Box::pin(async move { work.await.into_result() })
    }))
}

pub(crate) fn again<F, Fut>(restart: Restart, mut code: F) -> Code
where
    F: FnMut(Stop) -> Fut + Send + 'static,
    Fut: Future + Send + 'static,
    Fut::Output: Ending,
{
    let start = move |stop| -> BoxFuture<crate::Result> {
        let work = code(stop);
        Box::pin(async move { work.await.into_result() })
    };
    Code::Again(restart, Box::new(start))
}

/// The code of a part that is this task.
pub(crate) fn running<T>(task: JoinHandle<T>) -> Code
where
    T: Ending + Send + 'static,
{
    let task = AbortOnDrop(task);
    Code::Once(Box::new(move |stop| {
        let part = stop.part();
        let token = part.and_then(|part| stop.core.with_part(part, |part| part.token.clone()));
        let work = registered(stop.clone(), token, task);
        Box::pin(async move {
            match work.await {
                Some(output) => output.into_result(),
                None => {
                    stop.note("aborted by the program");
                    Ok(())
                }
            }
        })
    }))
}

impl<'app> TaskBuilder<'app> {
    pub(crate) const fn new(
        app: &'app mut Registrar,
        name: Cow<'static, str>,
        place: &'static Location<'static>,
        code: Code,
    ) -> Self {
        Self {
            app,
            name,
            place,
            limit: None,
            on_failure: OnFailure::Stop,
            code: Some(code),
        }
    }

    /// When it fails (for good, if it is restarted), say so in log and report, and go on without it instead of
    /// stopping the service. The exit code still tells.
    pub const fn report_only(mut self) -> Self {
        self.on_failure = OnFailure::Report;
        self
    }

    /// The longest it may take to finish once the stop is requested, inside the drain's budget. Then it is
    /// cancelled.
    pub const fn limit(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Starts it here and now, and gives its handle.
    ///
    /// # Errors
    /// If its name is in use.
    pub fn start(mut self) -> Result<ComponentHandle, Error> {
        self.begin().unwrap_or_else(|| Err(Error::started_twice()))
    }

    /// Nothing if it has begun.
    fn begin(&mut self) -> Option<Result<ComponentHandle, Error>> {
        let code = self.code.take()?;
        let name = std::mem::take(&mut self.name);
        Some(begin(
            self.app,
            ComponentKind::Task,
            name,
            self.place,
            self.limit,
            self.on_failure,
            code,
        ))
    }
}

/// Registers work of this kind, and starts it under supervision.
pub(crate) fn begin(
    app: &Registrar,
    kind: ComponentKind,
    name: Cow<'static, str>,
    place: &'static Location<'static>,
    limit: Option<Duration>,
    on_failure: OnFailure,
    code: Code,
) -> Result<ComponentHandle, Error> {
    let core = &app.core;
    let id = core.register(name, kind, place, limit)?;
    let is_restartable = matches!(code, Code::Again(..));
    core.with_part(id, |part| part.is_restartable = is_restartable);
    let stop = Stop::new(Arc::clone(core)).of(id);
    match code {
        Code::Once(code) => launch(core, id, supervise::once(stop, id, on_failure, code)),
        Code::Again(restart, code) => launch(
            core,
            id,
            supervise::again(stop, id, restart, on_failure, code),
        ),
    }
    Ok(ComponentHandle::of(core, id, kind))
}

impl Drop for TaskBuilder<'_> {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.begin() {
            self.app.misuse(error);
        }
    }
}

/// Registers a component's work and spawns it on the runtime. Too late means that `setup` outlived the drain; the
/// part then has its outcome from the machine.
pub(crate) fn launch(
    core: &Arc<ServiceShared>,
    id: ComponentId,
    work: impl Future<Output = ()> + Send + 'static,
) {
    let Some((name, place, token)) = core.with_part(id, |part| {
        (part.name.to_string(), part.place, part.token.clone())
    }) else {
        return;
    };
    if let Ok(slot) = spawn::register(core, Cow::Owned(name), place, WorkKind::Task, Some(id)) {
        let work = token.wrap(work);
        let owner = Arc::clone(core);
        let work = async move {
            if work.await.is_err() {
                owner.with_part(id, |part| part.was_cut = true);
            }
        };
        Tracked::new(Arc::clone(core), slot, false, work)
            .in_span(component_span(core, id))
            .spawn();
    }
}

/// The span of a component's whole life, with a target of its own: it lasts as long as the service, and a trace of that
/// length is not for every collector. It begins a trace, because what registered it is over long before.
fn component_span(core: &ServiceShared, id: ComponentId) -> TaskSpan {
    // Out of the lock: the subscriber is the program's.
    let Some((name, kind)) = core.with_part(id, |part| (Arc::clone(&part.name), part.kind)) else {
        return TaskSpan::default();
    };
    TaskSpan::of(tracing::info_span!(
        target: "adieu::component",
        parent: None,
        "component",
        part = &*name,
        kind = %kind
    ))
}

/// Blocking code about to start: it does at the end of the statement that makes it.
pub struct BlockingBuilder<'app> {
    app: &'app mut Registrar,
    name: Cow<'static, str>,
    place: &'static Location<'static>,
    on_failure: OnFailure,
    code: Option<Box<dyn FnOnce(Stop) -> crate::Result + Send>>,
}

impl<'app> BlockingBuilder<'app> {
    pub(crate) fn new<F, T>(
        app: &'app mut Registrar,
        name: Cow<'static, str>,
        place: &'static Location<'static>,
        code: F,
    ) -> Self
    where
        F: FnOnce(Stop) -> T + Send + 'static,
        T: Ending,
    {
        let code = Box::new(move |stop| code(stop).into_result());
        Self {
            app,
            name,
            place,
            on_failure: OnFailure::Stop,
            code: Some(code),
        }
    }

    /// When it fails, say so in log and report, and go on without it instead of stopping the service. The exit
    /// code still tells.
    pub const fn report_only(mut self) -> Self {
        self.on_failure = OnFailure::Report;
        self
    }

    /// Starts it here and now, and gives its handle.
    ///
    /// # Errors
    /// If its name is in use.
    pub fn start(mut self) -> Result<ComponentHandle, Error> {
        self.begin().unwrap_or_else(|| Err(Error::started_twice()))
    }

    /// Nothing if it has begun.
    fn begin(&mut self) -> Option<Result<ComponentHandle, Error>> {
        let code = self.code.take()?;
        Some(self.spawn(code))
    }

    fn spawn(
        &self,
        code: Box<dyn FnOnce(Stop) -> crate::Result + Send>,
    ) -> Result<ComponentHandle, Error> {
        let (core, kind) = (Arc::clone(&self.app.core), ComponentKind::Blocking);
        let id = core.register(self.name.clone(), kind, self.place, None)?;
        let work = supervise::blocking(
            Stop::new(Arc::clone(&core)).of(id),
            id,
            self.on_failure,
            code,
        );
        // Too late means that `setup` outlived the drain; the part then has its outcome from the machine.
        let (name, span) = (self.name.clone(), component_span(&core, id));
        let _ = spawn::blocking(&core, name, self.place, Some(id), span, work);
        Ok(ComponentHandle::of(&core, id, kind))
    }
}

impl Drop for BlockingBuilder<'_> {
    fn drop(&mut self) {
        if let Some(Err(error)) = self.begin() {
            self.app.misuse(error);
        }
    }
}
