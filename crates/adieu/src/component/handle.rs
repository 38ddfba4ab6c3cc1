//! A handle for one component: stops it, starts it again, waits for its end.

use std::fmt;
use std::sync::Arc;

use adieu_lifecycle::{ComponentId, Outcome, Role};

use crate::error::{Error, ErrorKind};
use crate::report::{ComponentKind, ComponentStatus};
use crate::runtime::component_stop::ComponentEnd;
use crate::runtime::shared::{ComponentEntry, DriverMessage, ServiceShared};

/// A handle for one component of a service. Cheap to clone; dropping it changes nothing.
///
/// [`TaskBuilder::start`](crate::component::TaskBuilder::start) gives one, and [`App::component`](crate::App::component) and
/// [`Components::get`](crate::Components::get) find any component by its name.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// # let report = adieu::scope("t").run(async |app| {
/// let importer = app.task("importer", |stop| async move { stop.requested().await }).start()?;
/// app.task("admin", |_stop| async move {
///     importer.stop(); // this one alone
///     println!("{}", importer.done().await);
/// });
/// # Ok(())
/// # }).await;
/// # assert_eq!(report.exit_code(), 0, "{report}");
/// # }
/// ```
#[derive(Clone)]
pub struct ComponentHandle {
    core: Arc<ServiceShared>,
    id: ComponentId,
    name: Arc<str>,
    kind: ComponentKind,
    end: Arc<ComponentEnd>,
}

impl ComponentHandle {
    /// The handle of a component that was registered with this number.
    pub(crate) fn of(core: &Arc<ServiceShared>, id: ComponentId, kind: ComponentKind) -> Self {
        let known = core.with_part(id, |part| (Arc::clone(&part.name), Arc::clone(&part.end)));
        let (name, end) = known.unwrap_or_default();
        Self {
            core: Arc::clone(core),
            id,
            name,
            kind,
            end,
        }
    }

    fn new(core: &Arc<ServiceShared>, id: ComponentId, part: &ComponentEntry) -> Self {
        Self {
            core: Arc::clone(core),
            id,
            name: Arc::clone(&part.name),
            kind: part.kind,
            end: Arc::clone(&part.end),
        }
    }

    /// The component of this name.
    pub(crate) fn find(core: &Arc<ServiceShared>, name: &str) -> Option<Self> {
        let parts = core.parts();
        let mut numbered = (0_u32..).zip(&*parts);
        let (number, part) = numbered.find(|(_, part)| *part.name == *name)?;
        Some(Self::new(core, ComponentId(number), part))
    }

    /// All components, in the order in which they were registered.
    pub(crate) fn all(core: &Arc<ServiceShared>) -> Vec<Self> {
        let parts = core.parts();
        let numbered = (0_u32..).zip(&*parts);
        numbered
            .map(|(number, part)| Self::new(core, ComponentId(number), part))
            .collect()
    }

    /// Its name, as in the report.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is.
    #[must_use]
    pub const fn kind(&self) -> ComponentKind {
        self.kind
    }

    /// What it is doing at this moment.
    #[must_use]
    pub fn status(&self) -> ComponentStatus {
        self.core
            .with_part(self.id, |part| part.status())
            .unwrap_or(ComponentStatus::Starting)
    }

    /// Asks it to stop, and does not wait: [`done`](Self::done) does.
    ///
    /// - The [`Stop`](crate::Stop) of a task, worker, poller or consumer is requested. What it has begun it may finish, and no
    ///   time is set for it: [`cancel`](Self::cancel) ends it.
    /// - A server stops accepting, answers what is in flight, and closes its connections. Other servers go on.
    /// - A resource is closed, if it is open. Nothing keeps its users from using it: stop them first.
    /// - A hook is not changed: it runs at its moment.
    ///
    /// If it then fails, log, report and exit code say so, and the service goes on. When the last task of a service has
    /// ended, the service stops.
    pub fn stop(&self) {
        let (stop, closes) = self
            .core
            .with_part(self.id, |part| match part.role {
                Role::Work => (Some(part.stop.by_handle(false)), false),
                Role::Resource => (None, part.closer.is_some()),
                Role::Hook(_) => (None, false),
            })
            .unwrap_or_default();
        if let Some(stop) = stop {
            stop.request();
        }
        if closes {
            self.core.mailbox.push(DriverMessage::Close(self.id));
        }
    }

    /// Asks it to stop, and starts it again when it has ended, without a delay and whatever it returned. Does not wait.
    ///
    /// For tasks of [`App::restarting`](crate::App::restarting) and for workers with
    /// [`WorkerBuilder::restart`](crate::state::WorkerBuilder::restart), which saves its checkpoint in between. It does not
    /// count against the limit of [`Restart`](crate::Restart). A [`stop`](Self::stop) that comes before the new start wins.
    ///
    /// # Errors
    /// If it cannot be started again, has ended for good, or the service is stopping.
    pub fn restart(&self) -> Result<(), Error> {
        let is_stopping = self.core.is_stopping();
        let stop = self.core.with_part(self.id, |part| {
            let why = match part.end.get() {
                Some(_) => "it has ended",
                None if !part.is_restartable => {
                    "it was made to run once: make it with `app.restarting`, or a worker with `.restart(..)`"
                }
                None if is_stopping => "the service is stopping",
                None => return Ok(part.stop.by_handle(true)),
            };
            Err((why, part.place))
        });
        match stop {
            None => Ok(()),
            Some(Ok(stop)) => {
                stop.request();
                Ok(())
            }
            Some(Err((why, place))) => Err(Error::new(ErrorKind::NotRestarted {
                name: Arc::clone(&self.name),
                place,
                why,
            })),
        }
    }

    /// Cancels it: its future is dropped at the next await, or when a [`shield`](crate::Stop::shield) is over. For what does
    /// not end after [`stop`](Self::stop).
    ///
    /// That is work which was cut: its outcome is [`Outcome::Cancelled`], and the exit code will be 3. Blocking code cannot
    /// be cancelled. A resource is not changed, unless it is closing: then the close is given up.
    pub fn cancel(&self) {
        let ends = self.core.with_part(self.id, |part| {
            // A task that is started again would otherwise be cancelled for good with `restart` still pending.
            (part.stop.by_handle(false), part.token.clone())
        });
        if let Some((stop, token)) = ends {
            stop.request();
            token.cancel();
        }
    }

    /// Waits until it has ended, and says how. A restart is not an end.
    ///
    /// Cancel-safe: dropping it changes nothing, and it can be called again, also after the end.
    pub async fn done(&self) -> Outcome {
        self.end.wait().await
    }
}

impl fmt::Debug for ComponentHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ComponentHandle")
            .field("name", &self.name)
            .field("kind", &self.kind)
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}
