//! The components of a service that runs: found by name, and more of them added.

use std::fmt;
use std::sync::{Arc, Mutex};

use adieu_core::{Winner, race};

use super::App;
use crate::component::ComponentHandle;
use crate::error::{Error, ErrorKind};
use crate::report::ReportBuilder;
use crate::runtime::shared::ServiceShared;

/// Finds the components of a service by name, and adds more while it runs. Made by [`App::components`]. Cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// # let report = adieu::scope("t").run(async |app| {
/// let components = app.components();
/// app.task("tenants", |_stop| async move {
///     // In answer to a request, say.
///     let importer = components
///         .add(async |app| Ok(app.task("import tenant 7", |stop| async move { stop.requested().await }).start()?))
///         .await?;
///     importer.stop();
///     importer.done().await;
///     Ok::<(), adieu::BoxError>(())
/// });
/// # Ok(())
/// # }).await;
/// # assert_eq!(report.exit_code(), 0, "{report}");
/// # }
/// ```
#[derive(Clone)]
pub struct Components {
    core: Arc<ServiceShared>,
    ledger: Arc<Mutex<ReportBuilder>>,
}

impl Components {
    pub(super) const fn new(core: Arc<ServiceShared>, ledger: Arc<Mutex<ReportBuilder>>) -> Self {
        Self { core, ledger }
    }

    /// The component of this name; also one that has ended.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<ComponentHandle> {
        ComponentHandle::find(&self.core, name)
    }

    /// All components, in the order in which they were registered.
    #[must_use]
    pub fn all(&self) -> Vec<ComponentHandle> {
        ComponentHandle::all(&self.core)
    }

    /// Adds components to the service while it runs. `setup` is given the same [`App`] as at the start, and what it
    /// registers has the same rights: the stop waits for it, in its order and its budget, and the report names it. What it
    /// returns comes back, a handle for instance.
    ///
    /// A name can be used once in the life of a service, so that the report is clear. For work that comes and goes in great
    /// numbers there is [`Stop::spawn`](crate::Stop::spawn).
    ///
    /// When the service is asked to stop meanwhile, `setup` is dropped: what it has registered by then is stopped with the
    /// rest. The same happens when the returned future is dropped. If `setup` fails, what it had registered stays, and the
    /// service goes on.
    ///
    /// # Errors
    /// What `setup` returned; a name that is in use, with both places in the source; or the service is stopping.
    pub async fn add<T, F>(&self, setup: F) -> crate::Result<T>
    where
        F: AsyncFnOnce(&mut App) -> crate::Result<T>,
    {
        let stopping = || Err(Error::new(ErrorKind::Stopping).into());
        if self.core.is_stopping() {
            return stopping();
        }
        let mut app = App::new(Arc::clone(&self.core), Arc::clone(&self.ledger));
        let adding = async { setup(&mut app).await };
        match race(self.core.announced.wait(), adding).await {
            Winner::First(()) => stopping(),
            Winner::Second(result) => match app.take_misuse() {
                Some(misuse) => Err(misuse.into()),
                None => result,
            },
        }
    }
}

impl fmt::Debug for Components {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Components")
            .field("service", &self.core.name)
            .finish_non_exhaustive()
    }
}
