//! The wrapper as a service: a scope of the library whose part is the command.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use adieu::report::{Cause, Notice, Phase};
use adieu::signal::StopSignal;
use adieu::{App, Report};
use adieu_lifecycle::Budget;
use tokio::runtime;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::args::RestartWhen;
use super::exit_code::{conclude, outcome};
use super::exit_status::ExitStatus;
use super::generation::Generation;
use super::options::{Options, Ready};
use super::orphan_guard::OrphanGuard;
use super::process_tree::ProcessTree;
use super::relay::Relays;
use super::signals::{self, Signal};
use super::sockets::Sockets;
use super::spawn_error::SpawnError;
use super::{cloak, codes, log, notify, supervisor, sys, watch};

/// What the kill and the last reaping may take, once the time of the command is up.
const SLACK: Duration = Duration::from_secs(10);
/// What the last processes may take to be gone after a third signal, or when the release phase ran out of time.
const LAST_KILL: Duration = Duration::from_secs(7);
/// What a command that has not been signalled yet has left after a second SIGTERM or SIGINT.
const MOMENT: Duration = Duration::from_secs(1);
/// The last lines may have a reader that does not read.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// What all parts of `adieu run` share.
pub(super) struct Shared {
    pub(super) options: Options,
    pub(super) name: String,
    pub(super) processes: Arc<ProcessTree>,
    pub(super) relays: Relays,
    /// A restart was asked for, by SIGHUP or a changed file.
    pub(super) restart: Notify,
    sockets: Mutex<Sockets>,
    state: Mutex<State>,
    is_ready: AtomicBool,
    is_stopping: AtomicBool,
    was_killed: AtomicBool,
    was_told: AtomicBool,
    generations: AtomicU32,
}

struct State {
    /// Started in set-up, for the task that keeps it.
    first: Option<Generation>,
    current: Option<Generation>,
    /// Replaced, and not gone yet.
    leaving: Vec<Generation>,
    stop_signal: Signal,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn sockets(&self) -> MutexGuard<'_, Sockets> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn next_number(&self) -> u32 {
        self.generations.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn ready_by(&self) -> Instant {
        Instant::now() + self.options.ready_timeout
    }

    pub(super) fn take_first(&self) -> Option<Generation> {
        self.state().first.take()
    }

    pub(super) fn set_current(&self, generation: &Generation) {
        self.state().current = Some(generation.clone());
    }

    pub(super) fn current(&self) -> Option<Generation> {
        self.state().current.clone()
    }

    pub(super) fn set_ready(&self, ready: bool) {
        self.is_ready.store(ready, Ordering::Relaxed);
    }

    /// From the first moment of the stop on, also while everything goes on as before.
    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    pub(super) fn leaving(&self, generation: &Generation) {
        self.state().leaving.push(generation.clone());
    }

    pub(super) fn left(&self, generation: &Generation) {
        let pid = generation.pid();
        self.state().leaving.retain(|it| it.pid() != pid);
        log::settle_soon();
    }

    pub(super) fn all_leaving(&self) -> Vec<Generation> {
        self.state().leaving.clone()
    }

    pub(super) fn sets_leaving(&self) -> Vec<usize> {
        self.state().leaving.iter().map(|it| it.set).collect()
    }

    /// The signal that tells the command of the stop.
    pub(super) fn stop_signal(&self) -> Signal {
        let heard = self.state().stop_signal;
        self.options.signals.of(heard).unwrap_or(heard)
    }

    /// The signal for what a command has left behind, and for one that is replaced.
    pub(super) fn end_signal(&self) -> Signal {
        let signals = &self.options.signals;
        signals.of(Signal::TERM).unwrap_or(Signal::TERM)
    }

    /// A signal that does not stop.
    fn forward(&self, signal: Signal) {
        if signal == Signal::HUP && !self.sockets().is_empty() {
            self.restart.notify_one();
            return;
        }
        let current = self.current();
        if let (Some(current), Some(signal)) = (current, self.options.signals.of(signal)) {
            current.process.send(signal, self.options.to_group);
        }
    }

    /// The command hears of the stop.
    pub(super) fn send_stop_signal(&self, current: &Generation) {
        self.was_told.store(true, Ordering::Relaxed);
        let signal = self.stop_signal();
        log::info(format_args!(
            "{signal} to {} (pid {})",
            self.name,
            current.pid()
        ));
        for generation in self.all_leaving().iter().chain([current]) {
            generation
                .process
                .tell_to_end(signal, self.options.to_group);
        }
    }

    /// After a second stop signal. A command that has not been signalled yet, as in the lame-duck period, is signalled
    /// and has a moment. Dropped half-way, it has been signalled.
    async fn stop_in_a_moment(&self) {
        let current = self.current();
        let Some(current) = current.filter(|it| !it.process.has_ended()) else {
            return;
        };
        if self.was_told.load(Ordering::Relaxed) {
            return log::warn("in a hurry: SIGKILL to whoever is left");
        }
        log::warn(format_args!(
            "second SIGINT: the command has {MOMENT:?}, then SIGKILL to every process that is left"
        ));
        self.send_stop_signal(&current);
        let _ = tokio::time::timeout(MOMENT, self.processes.emptied()).await;
    }

    /// The stop had to kill.
    pub(super) fn set_killed(&self) {
        self.was_killed.store(true, Ordering::Relaxed);
    }

    pub(super) fn was_killed(&self) -> bool {
        self.was_killed.load(Ordering::Relaxed)
    }

    /// How the command has ended, once it has.
    pub(super) async fn end(&self) -> Option<ExitStatus> {
        let current = self.current()?;
        let patience = Duration::from_millis(100);
        let end = tokio::time::timeout(patience, current.process.ended()).await;
        end.ok().map(|end| end.how)
    }
}

pub(super) fn run(options: Options) -> u8 {
    // Both before there is any other thread.
    sys::unblock_signals();
    let guard = OrphanGuard::start();
    log::start(options.quiet);
    let guard = guard.unwrap_or_else(|error| {
        log::warn(format_args!(
            "cannot start the guardian process ({error}): child processes survive if adieu run is killed with SIGKILL"
        ));
        None
    });
    let code = try_run(options, guard).unwrap_or_else(|problem| {
        log::warn(problem);
        codes::OWN
    });
    log::flush(LAST_WORDS);
    code
}

fn try_run(options: Options, guard: Option<OrphanGuard>) -> Result<u8, String> {
    if let Some(signal) = options.parent_death_signal {
        sys::signal_when_parent_ends(signal)
            .map_err(|error| format!("--parent-death-signal {signal}: {error}"))?;
    }
    if let Some(path) = &options.report {
        Report::check_file(path).map_err(|error| {
            format!(
                "the report cannot be written to {}: {error}",
                path.display()
            )
        })?;
    }
    // Before anything that the command is not to have opens a descriptor.
    let sockets = Sockets::open(&options.listen)?;
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("the runtime could not be made: {error}"))?;
    let code = runtime.block_on(live(options, sockets, guard));
    // Nothing in it is worth waiting for: the processes are gone.
    runtime.shutdown_background();
    code
}

async fn live(
    options: Options,
    sockets: Sockets,
    guard: Option<OrphanGuard>,
) -> Result<u8, String> {
    let processes = ProcessTree::become_subreaper(guard, options.warn_reaped)
        .map_err(|error| format!("cannot look after processes: {error}"))?;
    let shared = Arc::new(Shared {
        name: options.name(),
        processes,
        relays: Relays::default(),
        restart: Notify::new(),
        sockets: Mutex::new(sockets),
        state: Mutex::new(State {
            first: None,
            current: None,
            leaving: Vec::new(),
            stop_signal: Signal::TERM,
        }),
        is_ready: false.into(),
        is_stopping: false.into(),
        was_killed: false.into(),
        was_told: false.into(),
        generations: 0.into(),
        options,
    });
    notify::stay_alive();
    let mut refused = None;
    let grace = shared.options.timeouts.grace + SLACK;
    let heard = Arc::clone(&shared);
    let scope = adieu::scope(shared.name.as_str())
        .grace(Budget::grace_for(grace))
        .lame_duck(shared.options.timeouts.pre_stop)
        .signals()
        .on_notice(move |notice| on_notice(&heard, notice));
    let report = scope
        .run(async |app| {
            set_up(app, &shared).await.inspect_err(|problem| {
                refused = problem.downcast_ref().map(|SpawnError(code, _)| *code);
            })
        })
        .await;
    let _ = tokio::time::timeout(LAST_KILL, shared.processes.kill_all()).await;
    shared.processes.dismiss_guard();
    let outcome = outcome(&shared, &report, refused).await;
    let report = report.of_process(outcome.code, outcome.meaning, shared.options.timeouts.grace);
    conclude(&shared, &report, outcome.gave_up);
    Ok(outcome.code)
}

/// What the library says, as far as it matters here.
fn on_notice(shared: &Shared, notice: &Notice) {
    match notice {
        Notice::Running => log::settle(),
        Notice::Stopping { cause } => {
            shared.is_stopping.store(true, Ordering::Relaxed);
            // At once: systemd counts from here, and not from the end of the lame-duck period.
            let most = (shared.options.timeouts.grace + SLACK).as_micros();
            notify::tell_outside(&format!("STOPPING=1\nEXTEND_TIMEOUT_USEC={most}"));
            // The library says by itself that it is not ready any more.
            if *cause == Cause::Signal(StopSignal::Interrupt) {
                shared.state().stop_signal = Signal::INT;
            }
            // Any other stop follows from an end that was told.
            if let Cause::Signal(_) = cause {
                log::info(format_args!("stopping: {cause}"));
            }
        }
        // None for a command that was never ready, and none for one that has ended.
        Notice::Phase {
            phase: Phase::Announce,
            budget,
        } if !budget.is_zero() => log::info(format_args!(
            "readiness off; serving for another {budget:?}"
        )),
        Notice::Restarting {
            restarts, delay, ..
        } => log::warn(format_args!(
            "start number {} in {} ms",
            restarts + 1,
            delay.as_millis()
        )),
        _ => {}
    }
}

async fn set_up(app: &mut App, shared: &Arc<Shared>) -> adieu::Result {
    if let Some(objection) = &shared.options.timeouts.objection {
        log::warn(objection);
    }
    let processes = Arc::clone(shared);
    app.resource("processes", async { io::Result::Ok(processes) })
        .stop(|processes| async move {
            processes.stop_in_a_moment().await;
            processes.processes.kill_all().await;
        })
        .await?;
    if !shared.sockets().is_empty() && sys::is_ignored(Signal::HUP) {
        log::warn(deaf_to_hangup(&shared.options));
    }
    // Before the command: a signal that comes right after its start is its own, too.
    for (caught, signal) in signals::passed_on() {
        let shared = Arc::clone(shared);
        app.on_signal(caught, move || {
            shared.forward(signal);
            std::future::ready(())
        });
    }
    // What cannot be had is said before the command has done anything.
    if let Some(address) = &shared.options.health {
        let admin = app.admin(address).exposed().await?;
        add_checks(app, shared);
        if let Some(address) = admin.local_addr() {
            log::info(format_args!("health on http://{address}/readyz"));
        }
    }
    for path in &shared.options.watch {
        std::fs::metadata(path).map_err(|error| {
            let path = path.display();
            SpawnError(codes::OWN, format!("{path} cannot be watched: {error}"))
        })?;
    }
    if let Some(probe) = &shared.options.asks_own {
        log::info(format_args!(
            "{probe} asks a socket of --listen: the old generation answers it, too. That a new one accepts is seen from \
             outside; to see more, probe something of its own"
        ));
    }
    // Then at once: our parent process waits for it.
    let first = supervisor::start(shared, None)?;
    {
        let mut state = shared.state();
        state.current = Some(first.clone());
        state.first = Some(first);
    }
    shared.set_ready(shared.options.ready == Ready::Start);
    if shared.options.cloak
        && shared.sockets().is_empty()
        && let Some(first) = shared.current()
        && let Some(objection) = cloak::warning(first.pid(), &shared.name)
    {
        log::warn(objection);
    }
    // From here to its task there is no await: a stop in between would find no task that signals the command.
    let (theirs, name) = (Arc::clone(shared), shared.name.clone());
    let keep = move |stop| supervisor::supervise(Arc::clone(&theirs), stop);
    if shared.options.restart == RestartWhen::Never {
        app.task(name, keep);
    } else {
        app.restarting(name, shared.options.restarts, keep);
    }
    sys::repeat_kept();
    if !shared.options.watch.is_empty() {
        watch(shared).await?;
        let paths: Vec<_> = shared
            .options
            .watch
            .iter()
            .map(|it| it.display().to_string())
            .collect();
        log::info(format_args!("watching {}", paths.join(", ")));
    }
    Ok(())
}

/// An ignored signal stays ignored, as the parent process wanted; the log says what then does not work.
fn deaf_to_hangup(options: &Options) -> String {
    let instead = if options.watch.is_empty() {
        "start it with setsid in the place of nohup, or give --watch FILE and change that file"
    } else {
        "a change of what is watched still does; or start it with setsid in the place of nohup"
    };
    format!("SIGHUP is ignored, as under nohup, and will not start the next version: {instead}")
}

fn add_checks(app: &mut App, shared: &Arc<Shared>) {
    let theirs = Arc::clone(shared);
    app.check(shared.name.clone(), move || {
        let ready = theirs.is_ready.load(Ordering::Relaxed);
        let name = theirs.name.clone();
        log::settle_soon();
        async move {
            if ready {
                Ok(())
            } else {
                Err(format!("{name} is not ready"))
            }
        }
    })
    .cache(Duration::ZERO);
    for probe in &shared.options.probes {
        let (processes, probe) = (Arc::clone(&shared.processes), probe.clone());
        let timeout = probe.timeout();
        app.check(probe.name(), move || {
            let (processes, probe) = (Arc::clone(&processes), probe.clone());
            async move { probe.ask(&processes).await }
        })
        .timeout(timeout + Duration::from_millis(100));
    }
}

/// A plain task: the service does not live for its sake.
async fn watch(shared: &Arc<Shared>) -> io::Result<()> {
    let mut watch = watch::on(&shared.options.watch).await?;
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        loop {
            match watch.changed().await {
                Ok(()) => {
                    log::info("something changed: starting the next generation");
                    shared.restart.notify_one();
                }
                Err(error) => return log::warn(format_args!("no longer watching: {error}")),
            }
        }
    });
    Ok(())
}
