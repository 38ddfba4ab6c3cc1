//! The end of the command and of all that it leaves behind.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use adieu::Stop;
use tokio::time::{Instant, timeout, timeout_at};

use super::generation::Generation;
use super::service::Shared;
use super::signals::Signal;
use super::{cloak, log, procfs, sys};

/// How long killed processes may take to be gone: one may be in an uninterruptible system call.
const KILLED: Duration = Duration::from_secs(2);

/// Cloaks the sockets, signals the command, waits for it and for all processes below it, and kills what is left when
/// the time is up. Dropped half-way, processes that have not ended live on; the release phase kills them.
pub(super) async fn stop(shared: &Arc<Shared>, current: &Generation) -> adieu::Result {
    let kill_at = Instant::now() + shared.options.timeouts.left();
    let orderly = async {
        if shared.options.cloak {
            hide_sockets(shared).await;
        }
        shared.send_stop_signal(current);
        let name = &shared.name;
        let end = current.process.ended().await;
        log::info(format_args!("{name} (pid {}) {}", current.pid(), end.how));
        for generation in shared.all_leaving() {
            generation.process.ended().await;
        }
        end_descendants(shared).await;
        shared.relays.done().await;
    };
    if timeout_at(kill_at, orderly).await.is_ok() {
        return Ok(());
    }
    let left = names_left(shared);
    let grace = shared.options.timeouts.grace;
    log::warn(format_args!(
        "{grace:?} are over: sending SIGKILL to {left}"
    ));
    shared.set_killed();
    shared.processes.kill_all().await;
    Err(format!("killed after {grace:?}: {left}").into())
}

async fn hide_sockets(shared: &Shared) {
    let (own, lent): (Vec<OwnedFd>, Vec<u64>) = {
        let mut sockets = shared.sockets();
        sockets.unlink();
        let copies = sockets.ours().map(|socket| socket.try_clone_to_owned());
        (copies.flatten().collect(), sockets.lent().to_vec())
    };
    // Without the guard: its socket to us is no listener.
    let cloaked = cloak::hide(own, &lent, &shared.processes.descendants());
    let time = shared.options.timeouts.left();
    // The other half is the command's.
    cloaked.drained(time / 2).await;
    // Let go of before the command closes them: a socket is closed when the last process has closed it.
    drop(cloaked);
}

/// Asks those that the command left behind to end too, and waits for them.
async fn end_descendants(shared: &Shared) {
    if shared.processes.is_empty() {
        return;
    }
    let rest = shared.processes.descendants();
    let signal = shared.end_signal();
    if !rest.is_empty() {
        log::info(format_args!(
            "{signal} to what it left: {}",
            names_left(shared)
        ));
    }
    for pid in rest {
        procfs::signal(pid, signal);
        procfs::wake(pid);
    }
    if !procfs::is_mounted() {
        sys::kill_all_processes(signal);
    }
    shared.processes.emptied().await;
}

/// Ends what is left of the group of a command that has ended. Dropped half-way, they have been asked to end.
pub(super) async fn end_group(shared: &Shared, group: u32) {
    if !shared.processes.has_group(group) {
        return;
    }
    shared.processes.signal_group(group, shared.end_signal());
    shared.processes.wake_group(group);
    if timeout(
        shared.options.timeouts.grace,
        shared.processes.without_group(group),
    )
    .await
    .is_err()
    {
        shared.processes.signal_group(group, Signal::KILL);
        let _ = timeout(KILLED, shared.processes.without_group(group)).await;
    }
}

/// Ends what a life of the command left, before the next one starts: it may hold what that needs. While another
/// generation lives, only its group is known to be its own. Dropped half-way, they have been asked to end.
pub(super) async fn clear_group(shared: &Shared, group: u32) {
    if !shared.all_leaving().is_empty() {
        return end_group(shared, group).await;
    }
    let grace = shared.options.timeouts.grace;
    if timeout(grace, end_descendants(shared)).await.is_err() {
        let left = names_left(shared);
        log::warn(format_args!(
            "{grace:?} are over: sending SIGKILL to {left}"
        ));
        let _ = timeout(KILLED, shared.processes.kill_all()).await;
    }
}

/// The command has ended by itself. After a good end, what it left may finish its work, until we are told to stop;
/// after a bad one it is asked to end. Dropped half-way, the release phase kills what is left.
pub(super) async fn await_descendants(
    shared: &Arc<Shared>,
    stop: &Stop,
    good: bool,
) -> adieu::Result {
    if shared.processes.is_empty() {
        return Ok(());
    }
    if good {
        let rest = shared.processes.descendants();
        if !rest.is_empty() {
            log::info(format_args!(
                "waiting for what it left: {}",
                names_left(shared)
            ));
        }
        if stop.until(shared.processes.emptied()).await.is_some() {
            return Ok(());
        }
    }
    // A server that put itself in the background has a queue as any other; after a failure there was no stop signal.
    let is_stop = stop.is_requested();
    let timeouts = &shared.options.timeouts;
    let time = if is_stop {
        timeouts.left()
    } else {
        timeouts.grace
    };
    let orderly = async {
        if is_stop && shared.options.cloak {
            hide_sockets(shared).await;
        }
        end_descendants(shared).await;
    };
    if timeout(time, orderly).await.is_ok() {
        return Ok(());
    }
    let (left, grace) = (names_left(shared), timeouts.grace);
    log::warn(format_args!(
        "{grace:?} are over: sending SIGKILL to {left}"
    ));
    shared.set_killed();
    shared.processes.kill_all().await;
    Err(format!("killed after {grace:?}: {left}").into())
}

/// Names, for people; not all of a crowd.
fn names_left(shared: &Shared) -> String {
    const MOST: usize = 8;
    let all = shared.processes.descendants();
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
