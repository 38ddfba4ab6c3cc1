//! `service("name")…run(setup)`: owns the process: its runtime, its signals, its end.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tokio::runtime::{self, Runtime};

use crate::app::App;
use crate::conductor::Conductor;
use crate::core::Core;
use crate::error::{Error, ErrorKind, Failure};
use crate::lifecycle::{Exit, Terms};
use crate::publish::{Print, Publisher};
use crate::report::{Ledger, Notice, Report};
use crate::sentinel::Sentinel;
use crate::settings::Settings;
use crate::{setup, signal};

/// A service that owns its process. See the [crate documentation](crate).
pub fn service(name: impl Into<Arc<str>>) -> Service {
    Service {
        settings: Settings::new(name, Print::Auto),
        block_limit: Some(Duration::from_millis(100)),
        threads: None,
    }
}

/// A service about to run. Made by [`service`].
#[must_use = "a service does nothing until `run`"]
pub struct Service {
    settings: Settings,
    block_limit: Option<Duration>,
    threads: Option<usize>,
}

impl Service {
    /// The whole budget of a stop, from the request to the end. Whatever happens, the process is gone half a
    /// second after it.
    ///
    /// Left out, it fits the platform: 8 s in a plain container (docker kills after 10), 25 s in Kubernetes
    /// (which kills after 30) and elsewhere. The environment variable `ADIEU_GRACE` overrides it.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.settings.grace = Some(grace);
        self
    }

    /// How long to go on as before after readiness went off, so that load balancers notice. Part of the grace.
    pub fn lame_duck(mut self, lame_duck: Duration) -> Self {
        self.settings.lame_duck = lame_duck;
        self
    }

    /// Writes the report as JSON to this file, mode 0600. The variable `ADIEU_REPORT` overrides it.
    pub fn report_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.settings.report_file = Some(path.into());
        self
    }

    /// When to print the report to standard error.
    pub const fn print(mut self, print: Print) -> Self {
        self.settings.print = print;
        self
    }

    /// Hears every notice when it happens, in order, on a thread that only logs and listens. What it does
    /// cannot hold up the stop; what it has not heard by the hard deadline it never hears.
    pub fn on_notice(mut self, listener: impl FnMut(&Notice) + Send + 'static) -> Self {
        self.settings.listen(listener);
        self
    }

    /// How long a task may block its thread before the watchdog says so; `None` for no watchdog.
    pub const fn watchdog(mut self, limit: Option<Duration>) -> Self {
        self.block_limit = limit;
        self
    }

    /// How many threads run the tasks; one for each core if left out.
    pub const fn worker_threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Runs the service to its end: signals first, then `setup`, then the work until something asks to stop.
    ///
    /// Must be called where no runtime is, as in a plain `fn main()`: a service owns exactly one. Inside a
    /// runtime it returns a report that says so, with exit code 2; [`scope`](crate::scope()) is for there.
    pub fn run<F>(self, setup: F) -> Report
    where
        F: AsyncFnOnce(&mut App) -> crate::Result,
    {
        let name = Arc::clone(&self.settings.name);
        let print = self.settings.print;
        self.try_run(setup).unwrap_or_else(|error| {
            let exit = if error.is_misuse() {
                Exit::Usage
            } else {
                Exit::Failed
            };
            let report = Report::stillborn(&name, exit, Failure::from_error(&error));
            Publisher::new(None, print).print_one(&report);
            report
        })
    }

    fn try_run<F>(mut self, setup: F) -> Result<Report, Error>
    where
        F: AsyncFnOnce(&mut App) -> crate::Result,
    {
        if runtime::Handle::try_current().is_ok() {
            return Err(Error::new(ErrorKind::NestedRuntime));
        }
        // Before anything is made: from here on no signal is lost.
        let signals = signal::catch().map_err(system("signal handlers could not be installed"))?;
        self.settings.read_environment()?;
        let terms = self.settings.terms()?;
        let runtime = self.build_runtime()?;
        let stage = Stage::set(self.settings, terms, self.block_limit, &runtime)?;
        let listening = signals.deliver_to(&stage.core);
        runtime.block_on(async {
            setup::run(&stage.core, &stage.ledger, setup).await;
            stage.core.ended().await;
        });
        // Without waiting for what was abandoned: it has its outcome, and the process ends now.
        runtime.shutdown_background();
        listening.for_ever();
        let report = stage.publisher.report();
        stage.sentinel.retire();
        report.ok_or_else(|| Error::config("the report is missing".to_owned()))
    }

    fn build_runtime(&self) -> Result<Runtime, Error> {
        let mut builder = runtime::Builder::new_multi_thread();
        if let Some(threads) = self.threads {
            builder.worker_threads(threads.max(1));
        }
        builder
            .enable_all()
            .build()
            .map_err(system("the runtime could not be made"))
    }
}

fn system(what: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    move |cause| Error::new(ErrorKind::System { what, cause })
}

/// Everything around one run that is not the user's.
struct Stage {
    core: Arc<Core>,
    ledger: Arc<Mutex<Ledger>>,
    publisher: Arc<Publisher>,
    sentinel: Sentinel,
}

impl Stage {
    fn set(
        settings: Settings,
        terms: Terms,
        block_limit: Option<Duration>,
        runtime: &Runtime,
    ) -> Result<Self, Error> {
        let core = Arc::new(Core::new(settings.name, terms, runtime.handle().clone()));
        let ledger = Arc::new(Mutex::new(Ledger::new()));
        let publisher = Arc::new(Publisher::new(settings.report_file, settings.print));
        let last_words = {
            let (core, ledger, publisher) = (
                Arc::clone(&core),
                Arc::clone(&ledger),
                Arc::clone(&publisher),
            );
            move || {
                publisher.publish(&core, &ledger, core.hard_exit());
                publisher.print();
            }
        };
        let thread = "a thread could not be made";
        let sentinel = Sentinel::post(&core, block_limit, last_words).map_err(system(thread))?;
        let _ = core.sentinel.set(sentinel.clone());
        let conductor = Conductor::new(
            Arc::clone(&core),
            Arc::clone(&ledger),
            Arc::clone(&publisher),
            settings.listener,
        );
        thread::Builder::new()
            .name("adieu-conductor".into())
            .spawn(move || conductor.run_on_thread())
            .map_err(system(thread))?;
        Ok(Self {
            core,
            ledger,
            publisher,
            sentinel,
        })
    }
}
