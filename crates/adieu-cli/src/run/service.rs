//! The wrapper as a service: a scope of the library whose part is the command.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use adieu::report::{Cause, Notice, Phase};
use adieu::signal::StopSignal;
use adieu::{App, Report};
use adieu_lifecycle::Budget;
use tokio::runtime;

use super::args::RestartWhen;
use super::exit_code::{conclude, outcome};
use super::front::Front;
use super::options::{CommandOptions, Options, Ready};
use super::orphan_guard::OrphanGuard;
use super::process_tree::ProcessTree;
use super::signals::{self, Signal};
use super::sockets::Sockets;
use super::spawn_error::SpawnError;
use super::worker::{Run, Worker};
use super::{codes, log, notify, supervisor, sys, watch};

/// What the kill and the last reaping may take, once the time of the command is up.
const REAP_MARGIN: Duration = Duration::from_secs(10);
/// What the last processes may take to be gone after a third signal, or when the release phase ran out of time.
const LAST_KILL_WAIT: Duration = Duration::from_secs(7);
/// The last lines may have a reader that does not read.
const LAST_LOG_TIMEOUT: Duration = Duration::from_millis(500);

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
    log::flush(LAST_LOG_TIMEOUT);
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
    let sockets = Sockets::open(&options.commands)?;
    let fronts = options.commands.iter();
    let fronts = fronts.map(|command| command.front.clone().map(Front::new).transpose());
    let fronts = fronts.collect::<Result<_, _>>()?;
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("the runtime could not be made: {error}"))?;
    let code = runtime.block_on(live(options, sockets, fronts, guard));
    // Nothing in it is worth waiting for: the processes are gone.
    runtime.shutdown_background();
    code
}

async fn live(
    options: Options,
    sockets: Vec<Sockets>,
    fronts: Vec<Option<Front>>,
    guard: Option<OrphanGuard>,
) -> Result<u8, String> {
    let processes = ProcessTree::become_subreaper(guard, options.warn_reaped)
        .map_err(|error| format!("cannot look after processes: {error}"))?;
    let run = Arc::new(Run::new(options, processes));
    // Owned here: the run knows its workers only as long as they are there.
    let workers = run.make_workers(sockets, fronts);
    notify::stay_alive();
    let mut refused = None;
    let timeouts = &run.options.timeouts;
    let observed = Arc::clone(&run);
    let scope = adieu::scope(run.options.name())
        .grace(Budget::grace_for(timeouts.grace + REAP_MARGIN))
        .lame_duck(timeouts.pre_stop)
        .signals()
        .on_notice(move |notice| on_notice(&observed, notice));
    let report = scope
        .run(async |app| {
            set_up(app, &run, &workers).await.inspect_err(|problem| {
                refused = problem.downcast_ref().map(|SpawnError(code, _)| *code);
            })
        })
        .await;
    let _ = tokio::time::timeout(LAST_KILL_WAIT, run.processes.kill_all()).await;
    run.processes.dismiss_guard();
    let outcome = outcome(&run, &report, refused.or_else(|| run.refused())).await;
    let report = report.of_process(outcome.code, outcome.meaning, run.options.timeouts.grace);
    // adieu: ignore(ADR106) nothing else is left to run, and the wait for the reader of a pipe is bounded
    conclude(&run, &report, outcome.gave_up);
    Ok(outcome.code)
}

/// What the library says, as far as it matters here.
fn on_notice(run: &Run, notice: &Notice) {
    match notice {
        Notice::Running => log::settle(),
        Notice::Stopping { cause } => {
            run.set_stopping();
            // At once: systemd counts from here, and not from the end of the lame-duck period.
            let most = (run.options.timeouts.grace + REAP_MARGIN).as_micros();
            notify::tell_outside(&format!("STOPPING=1\nEXTEND_TIMEOUT_USEC={most}"));
            // The library says by itself that it is not ready any more.
            if *cause == Cause::Signal(StopSignal::Interrupt) {
                run.set_stop_signal(Signal::INT);
            }
            // Any other stop follows from an end that was logged.
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
            part,
            restarts,
            delay,
            ..
        } => log::warn(format_args!(
            "{part}: start number {} in {} ms",
            restarts + 1,
            delay.as_millis()
        )),
        _ => {}
    }
}

async fn set_up(app: &mut App, run: &Arc<Run>, workers: &[Arc<Worker>]) -> adieu::Result {
    if let Some(objection) = &run.options.timeouts.objection {
        log::warn(objection);
    }
    let all = Arc::clone(run);
    app.resource("processes", async { io::Result::Ok(all) })
        .stop(|run| async move {
            run.stop_in_a_moment().await;
            run.processes.kill_all().await;
        })
        .await?;
    if let Some(worker) = workers.iter().find(|worker| worker.can_replace())
        && sys::is_ignored(Signal::HUP)
    {
        log::warn(deaf_to_hangup(worker.options()));
    }
    // Before the commands: a signal that comes right after a start is for the command, too.
    for (caught, signal) in signals::passed_on() {
        let run = Arc::clone(run);
        app.on_signal(caught, move || {
            run.forward(signal);
            std::future::ready(())
        });
    }
    // What cannot be had is said before a command has done anything.
    if let Some(address) = &run.options.health {
        let admin = app.admin(address).exposed().await?;
        add_checks(app, workers);
        if let Some(address) = admin.local_addr() {
            log::info(format_args!("health on http://{address}/readyz"));
        }
    }
    for options in &run.options.commands {
        check_paths(options)?;
    }
    for worker in workers.iter().filter(|worker| worker.is_first()) {
        if let Some(front) = worker.front() {
            front.serve(app, &worker.options().name).await?;
        }
    }
    // A single command at once: our parent process waits for it. Of several, each is started by its task, so that one
    // that is not there has the others stopped in order.
    if let [only] = workers {
        only.set_first(supervisor::start_first(only)?);
        only.set_ready(only.options().ready == Ready::Start);
    }
    // From here to its task there is no await: a stop in between would find no task that signals the command.
    for worker in workers {
        worker.set_shutdown_handle(app.shutdown_handle());
        let theirs = Arc::clone(worker);
        let keep = move |stop| supervisor::supervise(Arc::clone(&theirs), stop);
        let options = worker.options();
        if options.restart == RestartWhen::Never {
            app.task(worker.name.clone(), keep);
        } else {
            app.restarting(worker.name.clone(), options.restarts, keep);
        }
    }
    sys::repeat_kept();
    for worker in workers {
        watch(worker).await?;
    }
    Ok(())
}

/// What is wrong with a command before it is started, and what its user should know.
fn check_paths(options: &CommandOptions) -> Result<(), SpawnError> {
    for path in &options.watch {
        std::fs::metadata(path).map_err(|error| {
            let path = path.display();
            SpawnError(codes::OWN, format!("{path} cannot be watched: {error}"))
        })?;
    }
    if let Some(probe) = &options.asks_own {
        log::info(format_args!(
            "{probe} asks a socket of --listen: the old process answers it, too. That a new one accepts is seen from \
             outside; to see more, probe something of its own"
        ));
    }
    Ok(())
}

/// An ignored signal stays ignored, as the parent process wanted; the log says what then does not work.
fn deaf_to_hangup(options: &CommandOptions) -> String {
    let instead = if options.watch.is_empty() {
        "start it with setsid in the place of nohup, or give --watch FILE and change that file"
    } else {
        "a change of what is watched still does; or start it with setsid in the place of nohup"
    };
    format!("SIGHUP is ignored, as under nohup, and will not start the next version: {instead}")
}

fn add_checks(app: &mut App, workers: &[Arc<Worker>]) {
    for worker in workers {
        let theirs = Arc::clone(worker);
        app.check(worker.name.clone(), move || {
            let (ready, name) = (theirs.is_ready(), theirs.name.clone());
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
        if !worker.is_first() {
            continue;
        }
        for probe in &worker.options().probes {
            let (processes, probe) = (Arc::clone(worker.processes()), probe.clone());
            let (timeout, name) = (probe.timeout(), probe.name());
            let name = match worker.run.options.commands.len() {
                1 => name.to_owned(),
                _ => format!("{}: {name}", worker.options().name),
            };
            app.check(name, move || {
                let (processes, probe) = (Arc::clone(&processes), probe.clone());
                async move { probe.ask(&processes).await }
            })
            .timeout(timeout + Duration::from_millis(100));
        }
    }
}

/// A plain task: the service does not live for its sake. The first worker of a command watches for all.
async fn watch(worker: &Arc<Worker>) -> io::Result<()> {
    let paths = &worker.options().watch;
    if paths.is_empty() || !worker.is_first() {
        return Ok(());
    }
    let mut watch = watch::on(paths).await?;
    let shown: Vec<_> = paths.iter().map(|it| it.display().to_string()).collect();
    log::info(format_args!("watching {}", shown.join(", ")));
    let worker = Arc::clone(worker);
    tokio::spawn(async move {
        loop {
            match watch.changed().await {
                Ok(()) => {
                    log::info("something changed: starting a new process");
                    worker.restart.notify_one();
                }
                Err(error) => return log::warn(format_args!("no longer watching: {error}")),
            }
        }
    });
    Ok(())
}
