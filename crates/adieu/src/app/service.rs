//! `service("name")…run(setup)`: owns the process: its runtime, its signals, its end.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use adieu_lifecycle::{Exit, Terms};
use tokio::runtime::{self, Runtime};

use crate::app::App;
use crate::app::settings::Settings;
use crate::app::{extensions, setup};
use crate::error::{Error, ErrorKind, Failure};
use crate::platform::DetectedPlatform;
#[cfg(unix)]
use crate::platform::systemd::Systemd;
use crate::report::writer::{PrintReport, ReportWriter};
use crate::report::{Notice, Report, ReportBuilder, Unhandled};
use crate::runtime::driver::{self, Driver};
use crate::runtime::hard_exit::HardExit;
use crate::runtime::shared::ServiceShared;
use crate::signal::{self, AfterEnd, Subscription};

/// A service that owns its process. See the [crate documentation](crate).
pub fn service(name: impl Into<Arc<str>>) -> Service {
    Service {
        settings: Settings::new(name, PrintReport::Auto),
        block_limit: Some(Duration::from_millis(100)),
        threads: None,
        runtime: None,
        #[cfg(all(unix, feature = "net"))]
        raises_file_limit: true,
        #[cfg(all(unix, feature = "net"))]
        command: None,
        #[cfg(all(unix, feature = "net"))]
        patience: Duration::from_secs(30),
    }
}

/// A service about to run. Made by [`service`].
///
/// ```no_run
/// use std::time::Duration;
///
/// # async fn setup(_: &mut adieu::App) -> adieu::Result { Ok(()) }
/// fn main() -> adieu::Report {
///     adieu::service("orders")
///         .grace(Duration::from_secs(25)) // also ADIEU_GRACE
///         .lame_duck(Duration::from_secs(5)) // also ADIEU_LAME_DUCK
///         .start_timeout(Duration::from_secs(60))
///         .report_file("/tmp/orders.json") // also ADIEU_REPORT
///         .run(setup)
/// }
/// ```
#[must_use = "a service does nothing until `run`"]
pub struct Service {
    pub(super) settings: Settings,
    block_limit: Option<Duration>,
    threads: Option<usize>,
    runtime: Option<runtime::Builder>,
    #[cfg(all(unix, feature = "net"))]
    raises_file_limit: bool,
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

    /// The lame-duck period: how long to go on serving after readiness turned off, so that load balancers notice. Part of
    /// the grace period.
    ///
    /// Left out, it is 5 s in Kubernetes, where clients still come for a while after the stop has begun, but never
    /// more than a quarter of the grace; elsewhere it is none. The environment variable `ADIEU_LAME_DUCK` overrides it:
    /// `0s` is for a service whose surroundings have waited already, as `adieu run --pre-stop` does.
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

    /// Writes the report as JSON to this file, mode 0600. The variable `ADIEU_REPORT` overrides it.
    pub fn report_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.settings.report_file = Some(path.into());
        self
    }

    /// When to print the report to standard error.
    pub const fn print(mut self, print: PrintReport) -> Self {
        self.settings.print = print;
        self
    }

    /// Hears every notice when it happens, in order, on a thread that only logs and listens. What it does
    /// cannot hold up the stop; what it has not heard by the hard deadline it never hears.
    pub fn on_notice(mut self, listener: impl FnMut(&Notice) + Send + 'static) -> Self {
        self.settings.listen(listener);
        self
    }

    /// Calls this for every failure that the program's own code has not handled: errors and panics of `setup`, of tasks
    /// and their children, of hooks and closes, of scheduled runs, of signal handlers, of reloads. It gets the component,
    /// its place in the source, the error with its causes, and what the service does next.
    /// It runs where [`on_notice`](Self::on_notice) does.
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

    /// Makes the runtime with this builder: thread names, stack size, blocking threads, `new_current_thread`. Its drivers
    /// are switched on, and [`worker_threads`](Self::worker_threads) overrides its own number if that was said as well.
    ///
    /// ```no_run
    /// # async fn setup(_: &mut adieu::App) -> adieu::Result { Ok(()) }
    /// let mut builder = tokio::runtime::Builder::new_multi_thread();
    /// builder.thread_name("orders").max_blocking_threads(32);
    /// adieu::service("orders").runtime(builder).run(setup);
    /// ```
    pub fn runtime(mut self, builder: runtime::Builder) -> Self {
        self.runtime = Some(builder);
        self
    }

    /// Leaves the process's soft limit of open files as it is.
    ///
    /// Otherwise the first [`App::listen`](crate::App::listen) raises it to the hard limit, at most to 1,048,576. The
    /// soft limit is 1,024 on most systems, for the sake of programs that call `select`, which cannot handle higher
    /// descriptors; tokio does not call it. Say this if a library in the process does, or a child process, which inherits
    /// the limit. Connections are bounded by whatever limit there is.
    #[cfg(all(unix, feature = "net"))]
    pub const fn keep_file_limit(mut self) -> Self {
        self.raises_file_limit = false;
        self
    }

    /// Lets SIGUSR2 start a process that takes over from this one: the command that started this one, looked up anew, so
    /// that a new version in its place is what runs next. Left out, SIGUSR2 is refused and logged.
    ///
    /// The new process is given every listener and runs its `setup` as always; [`App::listen`](crate::App::listen)
    /// takes the listener of its name. When its `setup` has returned and its checks pass, it begins to accept, and
    /// this process stops accepting, finishes what it has, and ends. If the new one crashes, hangs or does not get
    /// ready in time, it is ended, this process goes on as if nothing had been, and log, report and systemd hear
    /// why. A stop that comes first wins.
    ///
    /// ```no_run
    /// # async fn setup(_: &mut adieu::App) -> adieu::Result { Ok(()) }
    /// adieu::service("orders").handoff().run(setup);
    /// ```
    #[cfg(all(unix, feature = "net"))]
    pub fn handoff(self) -> Self {
        self.handoff_command(crate::handoff::own_command())
    }

    /// As [`handoff`](Self::handoff), with another command.
    ///
    /// ```no_run
    /// # async fn setup(_: &mut adieu::App) -> adieu::Result { Ok(()) }
    /// use std::process::Command;
    ///
    /// adieu::service("orders").handoff_command(|| Command::new("/opt/orders/current/bin/orders")).run(setup);
    /// ```
    #[cfg(all(unix, feature = "net"))]
    pub fn handoff_command(
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
    /// runtime it returns a report that says so, with exit code 2; [`run_in_place`](Self::run_in_place) is for there.
    pub fn run<F>(self, setup: F) -> Report
    where
        F: AsyncFnOnce(&mut App) -> crate::Result,
    {
        let name = Arc::clone(&self.settings.name);
        let print = self.settings.print;
        self.try_run(setup)
            .unwrap_or_else(|error| never_begun(&name, print, &error))
    }

    fn try_run<F>(self, setup: F) -> Result<Report, Error>
    where
        F: AsyncFnOnce(&mut App) -> crate::Result,
    {
        if runtime::Handle::try_current().is_ok() {
            return Err(Error::new(ErrorKind::NestedRuntime));
        }
        let mut prepared = self.prepare()?;
        let runtime = prepared.service.build_runtime()?;
        let (started, listening) = prepared.begin(runtime.handle(), AfterEnd::Ends)?;
        runtime.block_on(started.live(setup));
        // Without waiting for what was abandoned: it has its outcome, and the process ends now.
        runtime.shutdown_background();
        listening.for_ever();
        let report = started.writer.report();
        started.hard_exit.stop();
        report.ok_or_else(|| Error::config("the report is missing".to_owned()))
    }

    /// What comes before there is a thread of ours: descriptors and signals.
    pub(super) fn prepare(mut self) -> Result<Prepared, Error> {
        // Before there is a thread, because it changes the environment where it may.
        #[cfg(feature = "net")]
        let inherited_fds = crate::net::inherited_fds_from_environment()?;
        #[cfg(all(unix, feature = "net"))]
        let (predecessor, inherited_fds) = match crate::handoff::from_environment()? {
            Some((predecessor, given)) => (
                Some(predecessor),
                inherited_fds.into_iter().chain(given).collect(),
            ),
            None => (None, inherited_fds),
        };
        // Before anything is made: from here on no signal is lost. SIGUSR2 too, also where there is no hand-off:
        // its sender means a hand-off, and its default is to kill the process.
        let hand_off = cfg!(unix).then_some(crate::signal::Signal::User2);
        let signals =
            signal::catch(hand_off).map_err(system("signal handlers could not be installed"))?;
        self.settings.read_environment()?;
        let surroundings = DetectedPlatform::look()?;
        let terms = self.settings.terms(surroundings)?;
        Ok(Prepared {
            service: self,
            signals,
            surroundings,
            terms,
            #[cfg(feature = "net")]
            inherited_fds,
            #[cfg(all(unix, feature = "net"))]
            predecessor,
        })
    }

    fn build_runtime(&mut self) -> Result<Runtime, Error> {
        let builder = self
            .runtime
            .get_or_insert_with(runtime::Builder::new_multi_thread);
        if let Some(threads) = self.threads {
            builder.worker_threads(threads.max(1));
        }
        builder
            .enable_all()
            .build()
            .map_err(system("the runtime could not be made"))
    }
}

/// A service that hears signals, and has no runtime yet.
pub(super) struct Prepared {
    service: Service,
    signals: signal::SignalGuard,
    surroundings: DetectedPlatform,
    terms: Terms,
    #[cfg(feature = "net")]
    inherited_fds: Vec<crate::net::InheritedFd>,
    #[cfg(all(unix, feature = "net"))]
    predecessor: Option<crate::handoff::Predecessor>,
}

impl Prepared {
    /// Starts all that is around the program's own code.
    pub(super) fn begin(
        self,
        runtime: &runtime::Handle,
        then: AfterEnd,
    ) -> Result<(Started, Subscription), Error> {
        #[cfg(all(unix, feature = "net"))]
        let is_successor = self.predecessor.is_some();
        #[cfg(not(all(unix, feature = "net")))]
        let is_successor = false;
        let (terms, surroundings) = (self.terms, self.surroundings);
        let started = Started::start(
            self.service.settings,
            terms,
            self.service.block_limit,
            runtime,
            is_successor,
        )?;
        #[cfg(feature = "net")]
        started.core.listeners().inheritance.add(self.inherited_fds);
        #[cfg(all(unix, feature = "net"))]
        if self.service.raises_file_limit {
            started.core.listeners().descriptors.allow_raising_limit();
        }
        #[cfg(all(unix, feature = "net"))]
        if let Some(predecessor) = self.predecessor {
            predecessor
                .await_release(&started.core)
                .map_err(system("a thread could not be made"))?;
        }
        if let Some(said) = surroundings.said() {
            let _ = started.core.platform_kill_after.set(said);
        }
        if let Some(kills_after) = surroundings.kills_before(terms.grace) {
            started.core.note(Notice::GraceTooLong {
                platform: surroundings.platform,
                grace: terms.grace,
                kills_after,
            });
        }
        if cfg!(panic = "abort") {
            started.core.note(Notice::PanicAborts);
        }
        let listening = self.signals.deliver_to(&started.core, then);
        #[cfg(all(unix, feature = "net"))]
        {
            if let Some(command) = self.service.command {
                let handoff = started.core.handoff();
                handoff.configure(command, self.service.patience);
            }
        }
        Ok((started, listening))
    }
}

/// The report of a service that could not begin, printed.
pub(super) fn never_begun(name: &str, print: PrintReport, error: &Error) -> Report {
    let exit = if error.is_misuse() {
        Exit::Usage
    } else {
        Exit::Failed
    };
    let report = Report::start_failed(name, exit, Failure::from_error(error));
    ReportWriter::new(None, print).print_one(&report);
    report
}

fn system(what: &'static str) -> impl FnOnce(std::io::Error) -> Error {
    move |cause| Error::new(ErrorKind::System { what, cause })
}

/// Everything around one run that is not the user's.
pub(super) struct Started {
    pub(super) core: Arc<ServiceShared>,
    ledger: Arc<Mutex<ReportBuilder>>,
    start_timeout: Option<Duration>,
    pub(super) writer: Arc<ReportWriter>,
    pub(super) hard_exit: HardExit,
}

impl Started {
    /// Setup and life, to the end. Dropped half-way, it lets the driver close what was opened.
    pub(super) async fn live<F>(&self, setup: F)
    where
        F: AsyncFnOnce(&mut App) -> crate::Result,
    {
        setup::run(&self.core, &self.ledger, self.start_timeout, setup).await;
        self.core.ended().await;
    }

    fn start(
        mut settings: Settings,
        terms: Terms,
        block_limit: Option<Duration>,
        runtime: &runtime::Handle,
        is_successor: bool,
    ) -> Result<Self, Error> {
        let listener = settings.take_listener();
        let core = Arc::new(ServiceShared::new(settings.name, terms, runtime.clone()));
        let ledger = Arc::new(Mutex::new(ReportBuilder::new()));
        let writer = Arc::new(ReportWriter::new(settings.report_file, settings.print));
        let final_report = {
            let (core, ledger, writer) =
                (Arc::clone(&core), Arc::clone(&ledger), Arc::clone(&writer));
            move || {
                writer.publish(|| driver::report(&core, &ledger, core.hard_exit_code()));
                writer.print();
            }
        };
        let thread = "a thread could not be made";
        let hard_exit =
            HardExit::spawn(&core, block_limit, final_report).map_err(system(thread))?;
        let _ = core.hard_exit.set(hard_exit.clone());
        extensions::attach(&core);
        let driver = Driver::new(
            Arc::clone(&core),
            Arc::clone(&ledger),
            Arc::clone(&writer),
            listener,
        );
        #[cfg(not(unix))]
        let _ = is_successor;
        #[cfg(unix)]
        if let Some(systemd) = Systemd::listening(terms.grace, is_successor) {
            systemd.watch(runtime, is_successor);
            core.extensions.add(systemd);
        }
        thread::Builder::new()
            .name("adieu-driver".into())
            .spawn(move || driver.run_on_thread())
            .map_err(system(thread))?;
        Ok(Self {
            core,
            ledger,
            start_timeout: settings.start_timeout,
            writer,
            hard_exit,
        })
    }
}
