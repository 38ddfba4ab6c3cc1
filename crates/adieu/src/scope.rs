//! `scope("name")…run(setup)`: the same life cycle without owning the process.

use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::Handle;

use crate::app::{App, ShutdownHandle};
use crate::component::BoxFuture;
use crate::conductor::Conductor;
use crate::core::Core;
use crate::error::{Error, ErrorKind, Failure};
use crate::lifecycle::{Cause, Exit};
use crate::platform::Surroundings;
use crate::publish::{Print, Publisher};
use crate::report::{Ledger, Notice, Report};
use crate::settings::Settings;
use crate::signal::{self, Then};
use crate::{panics, setup};

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
        settings: Settings::new(name, Print::Never),
        signals: false,
        trigger: None,
    }
}

/// A scope about to run. Made by [`scope`](scope()).
#[must_use = "a scope does nothing until `run`"]
pub struct Scope {
    settings: Settings,
    signals: bool,
    trigger: Option<BoxFuture<()>>,
}

impl Scope {
    /// The whole budget of a stop, as for [`Service::grace`](crate::Service::grace); the environment has no say.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.settings.grace = Some(grace);
        self
    }

    /// How long to go on as before after readiness went off. Part of the grace.
    pub fn lame_duck(mut self, lame_duck: Duration) -> Self {
        self.settings.lame_duck = Some(lame_duck);
        self
    }

    /// Writes the report as JSON to this file, mode 0600.
    pub fn report_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.settings.report_file = Some(path.into());
        self
    }

    /// When to print the report to standard error; never, if left out.
    pub const fn print(mut self, print: Print) -> Self {
        self.settings.print = print;
        self
    }

    /// Hears every notice at the moment it happens. It must not wait.
    pub fn on_notice(mut self, listener: impl FnMut(&Notice) + Send + 'static) -> Self {
        self.settings.listen(listener);
        self
    }

    /// Hears signals as a service does: stops on SIGTERM, SIGINT and SIGHUP, prints its status on SIGUSR1. The handlers are taken away when the scope ends.
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
                Report::stillborn(&name, exit, Failure::from_error(&error))
            }
        }
    }

    pub(crate) fn begin(self) -> Result<Stage, Error> {
        let runtime = Handle::try_current().map_err(|_| {
            Error::config(
                "a scope lives inside a tokio runtime, and there is none here: use `adieu::service(name).run(setup)`"
                    .to_owned(),
            )
        })?;
        // There is no other way to ask.
        if panics::quietly(|| drop(tokio::time::sleep(Duration::ZERO))).is_err() {
            return Err(Error::config(
                "a scope needs the runtime's timers, and they are disabled here: call `enable_time` or `enable_all` on \
                 the runtime's builder"
                    .to_owned(),
            ));
        }
        let what = "signal handlers could not be installed";
        let system = |cause| Error::new(ErrorKind::System { what, cause });
        let signals = self
            .signals
            .then(|| signal::catch(None))
            .transpose()
            .map_err(system)?;
        let core = Arc::new(Core::new(
            Arc::clone(&self.settings.name),
            self.settings.terms(Surroundings::of_a_scope())?,
            runtime.clone(),
        ));
        let ledger = Arc::new(Mutex::new(Ledger::new()));
        let publisher = Arc::new(Publisher::new(
            self.settings.report_file,
            self.settings.print,
        ));
        let conductor = Conductor::new(
            Arc::clone(&core),
            Arc::clone(&ledger),
            Arc::clone(&publisher),
            self.settings.listener,
        );
        // The task holds the listening: the handlers stay until the end, also if the scope's future is dropped.
        let listening = signals.map(|signals| signals.deliver_to(&core, Then::GoesOn));
        runtime.spawn(async move {
            conductor.run_as_task().await;
            drop(listening);
        });
        if let Some(trigger) = self.trigger {
            let core = Arc::clone(&core);
            runtime.spawn(async move { wait_for(trigger, &core).await });
        }
        Ok(Stage {
            core,
            ledger,
            publisher,
        })
    }
}

/// Stops the scope when the trigger comes; nothing is lost if the scope ends first and the trigger is dropped.
async fn wait_for(mut trigger: BoxFuture<()>, core: &Core) {
    let mut ended = std::pin::pin!(core.ended());
    let triggered = std::future::poll_fn(|cx| {
        if ended.as_mut().poll(cx).is_ready() {
            return std::task::Poll::Ready(false);
        }
        trigger.as_mut().poll(cx).map(|()| true)
    })
    .await;
    if triggered {
        core.request_stop(Cause::Requested("the scope's trigger".into()));
    }
}

/// A scope whose conductor is running.
pub(crate) struct Stage {
    pub(crate) core: Arc<Core>,
    ledger: Arc<Mutex<Ledger>>,
    publisher: Arc<Publisher>,
}

impl Stage {
    pub(crate) async fn run<F>(self, setup: F) -> Report
    where
        F: AsyncFnOnce(&mut App) -> crate::Result,
    {
        let dropped = StopOnDrop(ShutdownHandle::new(Arc::clone(&self.core)));
        setup::run(&self.core, &self.ledger, setup).await;
        self.core.ended().await;
        #[cfg(feature = "admin")]
        self.core.office.closed().await;
        drop(dropped);
        self.publisher.report().unwrap_or_else(|| {
            let what = Failure {
                causes: vec!["the report is missing".to_owned()],
                panicked_at: None,
            };
            Report::stillborn(&self.core.name, Exit::Failed, what)
        })
    }
}

/// Begins the stop if the scope's future is dropped; after the end it has no effect.
struct StopOnDrop(ShutdownHandle);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop("the scope was dropped");
    }
}
