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
use crate::platform::Surroundings;
use crate::publish::{Print, Publisher};
use crate::report::{Ledger, Notice, Report};
use crate::sentinel::Sentinel;
use crate::settings::Settings;
use crate::setup;
use crate::signal::{self, Then};
#[cfg(unix)]
use crate::systemd::Systemd;

/// A service that owns its process. See the [crate documentation](crate).
pub fn service(name: impl Into<Arc<str>>) -> Service {
    Service {
        settings: Settings::new(name, Print::Auto),
        block_limit: Some(Duration::from_millis(100)),
        threads: None,
        #[cfg(all(unix, feature = "net"))]
        command: None,
        #[cfg(all(unix, feature = "net"))]
        patience: Duration::from_secs(30),
    }
}

/// A service about to run. Made by [`service`].
#[must_use = "a service does nothing until `run`"]
pub struct Service {
    settings: Settings,
    block_limit: Option<Duration>,
    threads: Option<usize>,
    #[cfg(all(unix, feature = "net"))]
    command: Option<crate::handoff::MakeCommand>,
    #[cfg(all(unix, feature = "net"))]
    patience: Duration,
}

impl Service {
    /// The whole budget of a stop, from the request to the end. Whatever happens, the process is gone half a
    /// second after it.
    ///
    /// Left out, it fits the platform: 8 s in a plain container (docker kills after 10), 25 s in Kubernetes
    /// (which kills after 30) and elsewhere. The environment variable `ADIEU_GRACE` overrides it. A grace that is
    /// longer than the platform waits is warned of at the start; `ADIEU_KILL_AFTER=60s` says how long it waits if
    /// that is not what it does by default, and then five sixths of it are the grace if none was set.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.settings.grace = Some(grace);
        self
    }

    /// How long to go on as before after readiness went off, so that load balancers notice. Part of the grace.
    ///
    /// Left out, it is 5 s in Kubernetes, where clients still come for a while after the stop has begun, but never
    /// more than a quarter of the grace; elsewhere it is none. The environment variable `ADIEU_LAME_DUCK` overrides it:
    /// `0s` is for a service whose surroundings have waited already, as `adieu run --pre-stop` does.
    pub fn lame_duck(mut self, lame_duck: Duration) -> Self {
        self.settings.lame_duck = Some(lame_duck);
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

    /// What SIGUSR2 starts to take over from this process. Left out, it is the command that started this one, looked
    /// up anew, so that a new version in its place is what runs next.
    ///
    /// The new process is given every listener and runs its `setup` as always; [`App::listen`](crate::App::listen)
    /// takes the listener of its name. When its `setup` has returned and its checks pass, it begins to accept, and
    /// this process stops accepting, finishes what it has, and ends. If the new one crashes, hangs or does not get
    /// ready in time, it is ended, this process goes on as if nothing had been, and log, report and systemd hear
    /// why. A stop that comes first wins.
    ///
    /// ```no_run
    /// # async fn setup(_: &mut adieu::App) -> adieu::Result { Ok(()) }
    /// use std::process::Command;
    ///
    /// adieu::service("orders").handoff(|| Command::new("/opt/orders/current/bin/orders")).run(setup);
    /// ```
    #[cfg(all(unix, feature = "net"))]
    pub fn handoff(
        mut self,
        command: impl FnMut() -> std::process::Command + Send + 'static,
    ) -> Self {
        self.command = Some(Box::new(command));
        self
    }

    /// How long a process that is to take over may take until it is ready. 30 s if left out.
    #[cfg(all(unix, feature = "net"))]
    pub const fn handoff_timeout(mut self, patience: Duration) -> Self {
        self.patience = patience;
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
        // Before there is a thread, because it changes the environment.
        #[cfg(feature = "net")]
        let heirlooms = crate::net::inherited()?;
        #[cfg(all(unix, feature = "net"))]
        let (predecessor, heirlooms) = match crate::handoff::from_environment()? {
            Some((predecessor, given)) => (
                Some(predecessor),
                heirlooms.into_iter().chain(given).collect(),
            ),
            None => (None, heirlooms),
        };
        #[cfg(all(unix, feature = "net"))]
        let is_successor = predecessor.is_some();
        #[cfg(not(all(unix, feature = "net")))]
        let is_successor = false;
        // Before anything is made: from here on no signal is lost. SIGUSR2 too, also where there is no hand-off:
        // whoever sends it means a hand-off, and its default is to kill the process.
        let hand_off = cfg!(unix).then_some(crate::Signal::User2);
        let signals =
            signal::catch(hand_off).map_err(system("signal handlers could not be installed"))?;
        self.settings.read_environment()?;
        let surroundings = Surroundings::look()?;
        let terms = self.settings.terms(surroundings)?;
        let runtime = self.build_runtime()?;
        let stage = Stage::set(
            self.settings,
            terms,
            self.block_limit,
            &runtime,
            is_successor,
        )?;
        #[cfg(feature = "net")]
        stage.core.estate.inheritance.add(heirlooms);
        #[cfg(all(unix, feature = "net"))]
        if let Some(predecessor) = predecessor {
            predecessor
                .attend(&stage.core)
                .map_err(system("a thread could not be made"))?;
        }
        if let Some(said) = surroundings.said() {
            let _ = stage.core.said_patience.set(said);
        }
        if let Some(kills_after) = surroundings.kills_before(terms.grace) {
            stage.core.note(Notice::GraceTooLong {
                platform: surroundings.platform,
                grace: terms.grace,
                kills_after,
            });
        }
        let listening = signals.deliver_to(&stage.core, Then::Ends);
        #[cfg(all(unix, feature = "net"))]
        {
            let command = self.command.unwrap_or_else(crate::handoff::own_command);
            stage.core.handoff.allow(command, self.patience);
        }
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
        is_successor: bool,
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
        #[cfg(not(unix))]
        let _ = is_successor;
        #[cfg(unix)]
        let conductor = {
            let systemd = Systemd::listening(terms.grace, is_successor);
            if let Some(systemd) = &systemd {
                systemd.watch(runtime.handle(), is_successor);
            }
            conductor.notifying(systemd)
        };
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
