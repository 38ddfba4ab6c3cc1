//! `scope("name")…run(setup)`: the same life cycle without owning the process.

use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use adieu_core::{Winner, race};
use adieu_lifecycle::{Cause, Exit};
use tokio::task::JoinHandle;

use crate::app::in_place::current_runtime;
use crate::app::settings::Settings;
use crate::app::{App, ShutdownHandle};
use crate::app::{extensions, setup};
use crate::component::BoxFuture;
use crate::error::{Error, ErrorKind, Failure};
use crate::platform::DetectedPlatform;
use crate::report::writer::{PrintReport, ReportWriter};
use crate::report::{Notice, Report, ReportBuilder, Unhandled};
use crate::runtime::driver::Driver;
use crate::runtime::shared::ServiceShared;
use crate::signal::{self, AfterEnd};

/// A service inside a larger program or a test: no runtime of its own, no signal handlers unless asked, any
/// number of them at once.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let (done, trigger) = tokio::sync::oneshot::channel::<()>();
/// let importing = adieu::scope("import").stop_when(async { drop(trigger.await) }).run(async |app| {
///     app.task("worker", |stop| async move { stop.requested().await });
///     Ok(())
/// });
/// done.send(()).ok();
/// let report = importing.await;
/// assert_eq!(report.exit_code(), 0);
/// # }
/// ```
pub fn scope(name: impl Into<Arc<str>>) -> Scope {
    Scope {
        settings: Settings::new(name, PrintReport::Never),
        signals: false,
        trigger: None,
    }
}

/// A scope about to run. Made by [`scope`](scope()).
#[must_use = "a scope does nothing until `run`"]
pub struct Scope {
    pub(super) settings: Settings,
    signals: bool,
    pub(super) trigger: Option<BoxFuture<()>>,
}

impl Scope {
    /// The whole budget of a stop, as for [`Service::grace`](crate::Service::grace); the environment has no say.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.settings.grace = Some(grace);
        self
    }

    /// The lame-duck period: how long to go on serving after readiness turned off. Part of the grace period.
    pub fn lame_duck(mut self, lame_duck: Duration) -> Self {
        self.settings.lame_duck = Some(lame_duck);
        self
    }

    /// The longest that `setup` may take; no bound, if left out. Then it is dropped, what was opened is closed in reverse order,
    /// and the exit code is 1. Log and report name what was opening.
    pub const fn start_timeout(mut self, timeout: Duration) -> Self {
        self.settings.start_timeout = Some(timeout);
        self
    }

    /// Writes the report as JSON to this file, mode 0600.
    pub fn report_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.settings.report_file = Some(path.into());
        self
    }

    /// When to print the report to standard error; never, if left out.
    pub const fn print(mut self, print: PrintReport) -> Self {
        self.settings.print = print;
        self
    }

    /// Hears every notice at the moment it happens. It must not wait.
    pub fn on_notice(mut self, listener: impl FnMut(&Notice) + Send + 'static) -> Self {
        self.settings.listen(listener);
        self
    }

    /// Calls this for every failure that the program's own code has not handled: errors and panics of `setup`, of tasks
    /// and their children, of hooks and closes, of scheduled runs, of signal handlers, of reloads. It gets the component,
    /// its place in the source, the error with its causes, and what the service does next.
    /// It runs where [`on_notice`](Self::on_notice) does, and must not wait.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// # let (say, said) = std::sync::mpsc::channel();
    /// let report = adieu::scope("orders")
    ///     .on_failure(move |failed| {
    ///         // To a tracker of errors, say.
    ///         say.send(format!("{}: {}", failed.component, failed.failure)).ok();
    ///     })
    ///     .run(async |app| {
    ///         app.task("importer", |_stop| async { Err::<(), _>("no such file") });
    ///         Ok(())
    ///     })
    ///     .await;
    /// assert_eq!(said.recv().as_deref(), Ok("importer: no such file"));
    /// # assert_eq!(report.exit_code(), 1);
    /// # }
    /// ```
    pub fn on_failure(mut self, handler: impl FnMut(&Unhandled) + Send + 'static) -> Self {
        self.settings.on_failure = Some(Box::new(handler));
        self
    }

    /// Handles signals as a service does: stops on SIGTERM, SIGINT and SIGHUP, prints its status on SIGUSR1. The handlers are taken away when the scope ends.
    ///
    /// What catches the signals owns the process, so grace and lame duck fit the platform as those of a service do, if
    /// none were set: in Kubernetes it serves for another 5 s once readiness is off.
    pub const fn signals(mut self) -> Self {
        self.signals = true;
        self
    }

    /// Stops when this future completes.
    pub fn stop_when(mut self, trigger: impl Future<Output = ()> + Send + 'static) -> Self {
        self.trigger = Some(Box::pin(trigger));
        self
    }

    /// Runs to the end and gives the report.
    ///
    /// The end cannot be forgotten: if the returned future is dropped, `setup` is dropped with it, and the stop
    /// goes on in the background to close what was opened.
    pub async fn run<F>(self, setup: F) -> Report
    where
        F: AsyncFnOnce(&mut App) -> crate::Result,
    {
        let name = Arc::clone(&self.settings.name);
        match self.begin() {
            Ok(stage) => stage.run(setup).await,
            Err(error) => {
                let exit = if error.is_misuse() {
                    Exit::Usage
                } else {
                    Exit::Failed
                };
                Report::start_failed(&name, exit, Failure::from_error(&error))
            }
        }
    }

    pub(crate) fn begin(mut self) -> Result<StartedScope, Error> {
        let runtime = current_runtime("a scope")?;
        let what = "signal handlers could not be installed";
        let system = |cause| Error::new(ErrorKind::System { what, cause });
        let signals = self
            .signals
            .then(|| signal::catch(None))
            .transpose()
            .map_err(system)?;
        // What the platform sends its signals to owns the process, whatever it is called.
        let surroundings = if self.signals {
            DetectedPlatform::look()?
        } else {
            DetectedPlatform::of_a_scope()
        };
        let core = Arc::new(ServiceShared::new(
            Arc::clone(&self.settings.name),
            self.settings.terms(surroundings)?,
            runtime.clone(),
        ));
        if let Some(said) = surroundings.said() {
            let _ = core.platform_kill_after.set(said);
        }
        extensions::attach(&core);
        let ledger = Arc::new(Mutex::new(ReportBuilder::new()));
        let listener = self.settings.take_listener();
        let writer = Arc::new(ReportWriter::new(
            self.settings.report_file,
            self.settings.print,
        ));
        let driver = Driver::new(
            Arc::clone(&core),
            Arc::clone(&ledger),
            Arc::clone(&writer),
            listener,
        );
        // The task holds the listening: the handlers stay until the end, also if the scope's future is dropped.
        let listening = signals.map(|signals| signals.deliver_to(&core, AfterEnd::GoesOn));
        let conducting = runtime.spawn(async move {
            driver.run_as_task().await;
            drop(listening);
        });
        if let Some(trigger) = self.trigger {
            let core = Arc::clone(&core);
            runtime.spawn(async move { wait_for(trigger, &core).await });
        }
        Ok(StartedScope {
            core,
            ledger,
            writer,
            start_timeout: self.settings.start_timeout,
            conducting,
        })
    }
}

/// Stops the scope when the trigger comes; nothing is lost if the scope ends first and the trigger is dropped.
async fn wait_for(trigger: BoxFuture<()>, core: &ServiceShared) {
    if let Winner::Second(()) = race(core.ended(), trigger).await {
        core.request_stop(Cause::Requested("the scope's trigger".into()));
    }
}

/// A scope whose driver is running.
pub(crate) struct StartedScope {
    pub(crate) core: Arc<ServiceShared>,
    ledger: Arc<Mutex<ReportBuilder>>,
    writer: Arc<ReportWriter>,
    start_timeout: Option<Duration>,
    /// Ends when the signal handlers are gone. Dropped, it lets the driver go on.
    conducting: JoinHandle<()>,
}

impl StartedScope {
    pub(crate) async fn run<F>(self, setup: F) -> Report
    where
        F: AsyncFnOnce(&mut App) -> crate::Result,
    {
        let dropped = StopOnDrop(ShutdownHandle::new(Arc::clone(&self.core)));
        setup::run(&self.core, &self.ledger, self.start_timeout, setup).await;
        self.core.ended().await;
        // The caller finds the signals as they were before. It fails only with the runtime.
        let _ = self.conducting.await;
        #[cfg(feature = "admin")]
        self.core.admin().closed().await;
        drop(dropped);
        self.writer
            .report()
            .unwrap_or_else(|| Report::missing(&self.core.name))
    }
}

/// Begins the stop if the scope's future is dropped; after the end it has no effect.
struct StopOnDrop(ShutdownHandle);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop("the scope was dropped");
    }
}
