//! The end of the command and of all that it leaves behind.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use adieu::Stop;
use tokio::time::{Instant, timeout, timeout_at};

use super::generation::Generation;
use super::signals::Signal;
use super::worker::Worker;
use super::{cloak, log, procfs, sys};

/// How long killed processes may take to be gone: one may be in an uninterruptible system call.
const KILL_WAIT: Duration = Duration::from_secs(2);

/// Cloaks the sockets, signals the command, waits for it and for all processes below it, and kills what is left when
/// the time is up. Dropped half-way, processes that have not ended live on; the release phase kills them.
pub(super) async fn stop(worker: &Arc<Worker>, current: &Generation) -> adieu::Result {
    let kill_at = worker.kill_at();
    let orderly = async {
        if let Some(front) = worker.front() {
            // The clients' requests first: they need the command. The other half of the time is the command's.
            let time = kill_at.saturating_duration_since(Instant::now());
            front.drained(time / 2).await;
        }
        if worker.options().cloak {
            drain_sockets(worker, kill_at).await;
        }
        worker.send_stop_signal(current);
        let name = &worker.name;
        let end = current.process.ended().await;
        log::info(format_args!("{name} (pid {}) {}", current.pid(), end.how));
        for generation in worker.all_leaving() {
            generation.process.ended().await;
        }
        // Until the last one is over, a process outside of its group may belong to another command.
        if !worker.run.has_one() {
            end_group(worker, current.group()).await;
        }
        worker.set_over();
        if worker.is_last() {
            end_descendants(worker).await;
        }
        worker.command.relays.done().await;
    };
    if timeout_at(kill_at, orderly).await.is_ok() {
        return Ok(());
    }
    kill(worker, current).await
}

/// Kills what is left after the worker's time, and says what that was.
async fn kill(worker: &Worker, current: &Generation) -> adieu::Result {
    let time = time_of(worker);
    let is_last = worker.is_last();
    let left = match is_last {
        true => names_left(worker),
        false => format!("{} (pid {}) and its group", worker.name, current.pid()),
    };
    log::warn(format_args!("{time} are over: sending SIGKILL to {left}"));
    worker.run.set_killed();
    if is_last {
        worker.processes().kill_all().await;
    } else {
        for generation in worker.all_leaving().iter().chain([current]) {
            kill_generation(worker, generation).await;
        }
    }
    Err(format!("killed after {time}: {left}").into())
}

/// The time that a worker had, in words. A command that others come after is given what they leave.
fn time_of(worker: &Worker) -> String {
    let grace = worker.grace();
    match worker.options().levels {
        1 => format!("{grace:?}"),
        levels => format!("1/{levels} of the time left of {grace:?}"),
    }
}

/// With what it has below it now. Dropped half-way, they have been killed.
async fn kill_generation(worker: &Worker, generation: &Generation) {
    let below = procfs::subtree(generation.pid());
    generation.process.send(Signal::KILL, true);
    for pid in below.into_iter().filter(|pid| procfs::is_below_us(*pid)) {
        procfs::signal(pid, Signal::KILL);
    }
    let _ = timeout(KILL_WAIT, generation.process.ended()).await;
    let _ = timeout(
        KILL_WAIT,
        worker.processes().without_group(generation.group()),
    )
    .await;
}

/// Once for all workers of a command, which share its sockets. Cancel-safe.
async fn drain_sockets(worker: &Worker, kill_at: Instant) {
    let drained = &worker.command.is_drained;
    drained
        .get_or_init(async || hide_sockets(worker, kill_at).await)
        .await;
}

async fn hide_sockets(worker: &Worker, kill_at: Instant) {
    let (own, lent): (Vec<OwnedFd>, Vec<u64>) = {
        let mut sockets = worker.sockets();
        sockets.unlink();
        let copies = sockets.ours().map(|socket| socket.try_clone_to_owned());
        (copies.flatten().collect(), sockets.lent().to_vec())
    };
    // Without the guard: its socket to us does not listen.
    let cloaked = cloak::hide(own, &lent, &worker.processes_of_command());
    let time = kill_at.saturating_duration_since(Instant::now());
    // The other half is the command's.
    cloaked.drained(time / 2).await;
    // Let go of before the command closes them: a socket is closed when the last process has closed it.
    drop(cloaked);
}

/// Asks those that the command left behind to end too, and waits for them.
async fn end_descendants(worker: &Worker) {
    if worker.processes().is_empty() {
        return;
    }
    let rest = worker.processes().descendants();
    let signal = worker.end_signal();
    if !rest.is_empty() {
        log::info(format_args!(
            "{signal} to what it left: {}",
            names_left(worker)
        ));
    }
    for pid in rest {
        procfs::signal(pid, signal);
        procfs::wake(pid);
    }
    if !procfs::is_mounted() {
        sys::kill_all_processes(signal);
    }
    worker.processes().emptied().await;
}

/// Ends what is left of the group of a command that has ended. Dropped half-way, they have been asked to end.
pub(super) async fn end_group(worker: &Worker, group: u32) {
    if !worker.processes().has_group(group) {
        return;
    }
    worker.processes().signal_group(group, worker.end_signal());
    worker.processes().wake_group(group);
    if timeout(worker.grace(), worker.processes().without_group(group))
        .await
        .is_err()
    {
        worker.processes().signal_group(group, Signal::KILL);
        let _ = timeout(KILL_WAIT, worker.processes().without_group(group)).await;
    }
}

/// Ends what a life of the command left, before the next one starts: it may hold what that needs. While another
/// process lives that is ours, only its group is known to be its own. Dropped half-way, they have been asked to end.
pub(super) async fn clear_group(worker: &Worker, group: u32) {
    if !worker.all_leaving().is_empty() || !worker.is_last() {
        return end_group(worker, group).await;
    }
    let grace = worker.grace();
    if timeout(grace, end_descendants(worker)).await.is_err() {
        let left = names_left(worker);
        log::warn(format_args!(
            "{grace:?} are over: sending SIGKILL to {left}"
        ));
        let _ = timeout(KILL_WAIT, worker.processes().kill_all()).await;
    }
}

/// The command has ended by itself. After a good end, what it left may finish its work, until a stop signal arrives;
/// after a bad one it is asked to end. Of several commands, what this one left ends with the last. Dropped half-way, the
/// release phase kills what is left.
pub(super) async fn await_descendants(
    worker: &Arc<Worker>,
    stop: &Stop,
    good: bool,
) -> adieu::Result {
    if worker.processes().is_empty() || !worker.is_last() {
        return Ok(());
    }
    if good && worker.run.has_one() {
        let rest = worker.processes().descendants();
        if !rest.is_empty() {
            log::info(format_args!(
                "waiting for what it left: {}",
                names_left(worker)
            ));
        }
        if stop.until(worker.processes().emptied()).await.is_some() {
            return Ok(());
        }
    }
    // A server that put itself in the background has a queue as any other; after a failure there was no stop signal.
    let is_stop = stop.is_requested();
    let grace = worker.grace();
    let kill_at = if is_stop {
        worker.kill_at()
    } else {
        Instant::now() + grace
    };
    let orderly = async {
        if is_stop && worker.options().cloak {
            drain_sockets(worker, kill_at).await;
        }
        end_descendants(worker).await;
    };
    if timeout_at(kill_at, orderly).await.is_ok() {
        return Ok(());
    }
    let left = names_left(worker);
    log::warn(format_args!(
        "{grace:?} are over: sending SIGKILL to {left}"
    ));
    worker.run.set_killed();
    worker.processes().kill_all().await;
    Err(format!("killed after {grace:?}: {left}").into())
}

/// Names, for people; not all of a crowd.
fn names_left(worker: &Worker) -> String {
    const MOST: usize = 8;
    let all = worker.processes().descendants();
    if all.is_empty() && !procfs::is_mounted() {
        return "every descendant".to_owned();
    }
    let mut names: Vec<String> = all
        .iter()
        .take(MOST)
        .map(|pid| format!("{} ({pid})", procfs::name(*pid)))
        .collect();
    if all.len() > MOST {
        names.push(format!("{} more", all.len() - MOST));
    }
    names.join(", ")
}
