//! Components of a kind of the program's own.

use std::borrow::Cow;
use std::future::{Future, pending};
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use adieu_core::{Winner, race};
use adieu_lifecycle::{ComponentId, End, Event};
use tokio::time::Instant;
use tracing::Instrument;

use super::{BoxFuture, ComponentHandle};
use crate::error::{BoxError, Error, ErrorKind, Failure};
use crate::report::{ComponentKind, Notice};
use crate::runtime::shared::ServiceShared;
use crate::runtime::stop::Stop;
use crate::runtime::supervise::{self, OnFailure};
use crate::tracking::monitored::Monitored;

use super::task::launch;

/// A kind of component of your own: a Kafka consumer, a cluster membership, a server that adieu has not.
///
/// [`App::start_component`](crate::App::start_component) starts it, and it has the rights of the others: its place in the
/// order of the start and in the drain, its share of the grace period, its handle, its line in the report under its own
/// kind. `/readyz` waits until it has started.
///
/// ```
/// use adieu::component::{Component, Stopped};
/// use adieu::{BoxError, Stop};
/// use tokio::time::Instant;
///
/// struct Membership {
///     peers: Vec<String>,
/// }
///
/// impl Component for Membership {
///     fn kind(&self) -> &'static str {
///         "membership"
///     }
///
///     async fn start(&mut self, stop: &Stop) -> Result<(), BoxError> {
///         let peers = self.peers.clone();
///         stop.spawn("gossip", async move { drop(peers) })?;
///         Ok(())
///     }
///
///     async fn stop(self, _deadline: Option<Instant>) -> Result<Stopped, BoxError> {
///         // Tell the peers.
///         Ok(Stopped::Finished)
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let report = adieu::scope("orders")
///     .stop_when(async {})
///     .run(async |app| {
///         app.start_component("cluster", Membership { peers: vec![] }).await?;
///         Ok(())
///     })
///     .await;
/// assert_eq!(report.exit_code(), 0, "{report}");
/// # }
/// ```
pub trait Component: Send + 'static {
    /// What the report calls it, in one word, like `kafka`.
    fn kind(&self) -> &'static str;

    /// Starts it. What follows in `setup` begins when this has returned.
    ///
    /// `stop` is requested by the stop of the service, or of its handle; work that it spawns is tracked. Dropped half-way if
    /// the service is asked to stop meanwhile; [`stop`](Self::stop) is not called then.
    fn start(&mut self, stop: &Stop) -> impl Future<Output = Result<(), BoxError>> + Send;

    /// Completes with an error if it fails while it runs, which stops the service. Never completes, if left out.
    ///
    /// Dropped at its await when the stop is requested.
    fn failed(&mut self) -> impl Future<Output = BoxError> + Send {
        pending()
    }

    /// Stops it. Called once, at the beginning of the drain, or when its handle asks for it. `deadline` is the moment at which
    /// it will be cancelled, if the service stops: then this future is dropped.
    fn stop(
        self,
        deadline: Option<Instant>,
    ) -> impl Future<Output = Result<Stopped, BoxError>> + Send;

    /// The longest that [`stop`](Self::stop) may take, inside the drain's budget. No bound of its own, if left out.
    fn limit(&self) -> Option<Duration> {
        None
    }
}

/// How a [`Component`] has stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stopped {
    /// It has finished what it had begun.
    Finished,
    /// It had to give something up, which the report says. The exit code is 3.
    Cut(String),
}

/// Says how the start has ended, also when it is dropped.
struct Starting<'app> {
    core: &'app ServiceShared,
    id: ComponentId,
    end: Option<End>,
}

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        if let Some(end) = self.end {
            self.core.tell(Event::Ended(self.id, end));
        }
    }
}

/// Registers and starts a component.
pub(crate) async fn start<C: Component>(
    core: &Arc<ServiceShared>,
    name: Cow<'static, str>,
    place: &'static Location<'static>,
    mut component: C,
) -> Result<ComponentHandle, Error> {
    let kind = ComponentKind::Custom(component.kind());
    let id = core.register(name, kind, place, component.limit())?;
    let name = core.with_part(id, |part| {
        part.is_starting = true;
        Arc::clone(&part.name)
    });
    let name = name.unwrap_or_default();
    core.note(Notice::Opening {
        part: Arc::clone(&name),
    });
    let stop = Stop::new(Arc::clone(core)).of(id);
    // Given up, nothing was cut: it had not begun to work.
    let mut starting = Starting {
        core,
        id,
        end: Some(End::Done),
    };
    let span = tracing::info_span!(target: "adieu", "start", part = &*name, kind = %kind);
    let starts = component.start(&stop).instrument(span);
    let started = Monitored::new(core.poll_id_of(Some(id)), starts).await;
    let error = match started {
        Ok(Ok(())) => None,
        Ok(Err(cause)) => Some(Error::new(ErrorKind::Start { name, cause })),
        Err(panic) => Some(Error::new(ErrorKind::StartPanicked { name, panic })),
    };
    if let Some(error) = error {
        starting.end = Some(End::Failed);
        core.with_part(id, |part| part.failure = Some(Failure::from_error(&error)));
        return Err(error);
    }
    // From here on its task says how it ends.
    starting.end = None;
    core.with_part(id, |part| part.is_starting = false);
    let run = Box::new(move |stop| -> BoxFuture<crate::Result> { Box::pin(run(stop, component)) });
    launch(core, id, supervise::once(stop, id, OnFailure::Stop, run));
    Ok(ComponentHandle::of(core, id, kind))
}

async fn run<C: Component>(stop: Stop, mut component: C) -> crate::Result {
    if let Winner::Second(error) = race(stop.requested(), component.failed()).await {
        return Err(error);
    }
    let Stopped::Cut(what) = component.stop(stop.deadline()).await? else {
        return Ok(());
    };
    stop.note(what);
    if let Some(id) = stop.part() {
        stop.core.with_part(id, |part| part.was_cut = true);
    }
    Ok(())
}
