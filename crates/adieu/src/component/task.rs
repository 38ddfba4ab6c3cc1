//! Tasks: the service's own work, supervised, each with a policy for its failure.

use std::borrow::Cow;
use std::future::Future;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use super::{BoxFuture, Ending};
use crate::app::App;
use crate::core::Core;
use crate::error::{Error, Failure};
use crate::lifecycle::{Cause, PartId};
use crate::report::PartKind;
use crate::roster::WorkKind;
use crate::spawn;
use crate::stop::Stop;
use crate::supervise::{self, OnFailure, Restart};
use crate::tracked::Tracked;

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
pub struct TaskPart<'app> {
    app: &'app mut App,
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

impl<'app> TaskPart<'app> {
    pub(crate) const fn new(
        app: &'app mut App,
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

    fn start(&mut self, code: Code) -> Result<(), Error> {
        let core = Arc::clone(&self.app.core);
        let name = std::mem::take(&mut self.name);
        let id = core.register(name, PartKind::Task, self.place, self.limit)?;
        let stop = Stop::new(Arc::clone(&core));
        match code {
            Code::Once(code) => launch(&core, id, supervise::once(stop, id, self.on_failure, code)),
            Code::Again(restart, code) => {
                launch(
                    &core,
                    id,
                    supervise::again(stop, id, restart, self.on_failure, code),
                );
            }
        }
        Ok(())
    }
}

impl Drop for TaskPart<'_> {
    fn drop(&mut self) {
        if let Some(code) = self.code.take()
            && let Err(error) = self.start(code)
        {
            self.app.misuse(error);
        }
    }
}

/// Puts a part's work on the roster and on the runtime. Too late means that `setup` outlived the drain; the
/// part then has its outcome from the machine.
pub(super) fn launch(
    core: &Arc<Core>,
    id: PartId,
    work: impl Future<Output = ()> + Send + 'static,
) {
    let Some((name, place, token)) = core.with_part(id, |part| {
        (part.name.to_string(), part.place, part.token.clone())
    }) else {
        return;
    };
    if let Ok(seat) = spawn::enter(core, Cow::Owned(name), place, WorkKind::Task, Some(id)) {
        let work = token.wrap(work);
        let owner = Arc::clone(core);
        let work = async move {
            if work.await.is_err() {
                owner.with_part(id, |part| part.was_cut = true);
            }
        };
        core.runtime
            .spawn(Tracked::new(Arc::clone(core), seat, false, work));
    }
}

/// A part that runs on the blocking pool.
pub(crate) fn blocking<F, T>(
    app: &mut App,
    name: Cow<'static, str>,
    place: &'static Location<'static>,
    code: F,
) where
    F: FnOnce(Stop) -> T + Send + 'static,
    T: Ending,
{
    let core = Arc::clone(&app.core);
    let id = match core.register(name.clone(), PartKind::Blocking, place, None) {
        Ok(id) => id,
        Err(error) => return app.misuse(error),
    };
    core.with_part(id, |part| {
        part.stops_service = Some(Cause::Error(Arc::clone(&part.name)))
    });
    let stop = Stop::new(Arc::clone(&core));
    let owner = Arc::clone(&core);
    let code = move || {
        if let Err(error) = code(stop).into_result() {
            let failure = Failure::from_error(&*error);
            owner.with_part(id, |part| part.failure = Some(failure));
        }
    };
    // Too late means that `setup` outlived the drain; the part then has its outcome from the machine.
    let _ = spawn::blocking(&core, name, place, Some(id), code);
}
