//! The end of the command and of all that it leaves behind.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use adieu::Stop;
use tokio::time::{Instant, timeout, timeout_at};

use super::generation::Generation;
use super::service::Shared;
use super::signals::Signal;
use super::{cloak, descendants, log, sys};

/// What those who were killed have to be gone before somebody goes on without them: one may sit in the kernel.
const KILLED: Duration = Duration::from_secs(2);

/// Hides the sockets, tells the command, waits for it and for everybody below it, and kills who is left when the
/// time is up. Dropped half-way, whoever has not ended lives on; the release phase kills them.
pub(super) async fn stop(shared: &Arc<Shared>, current: &Generation) -> adieu::Result {
    let kill_at = Instant::now() + shared.options.term.left();
    let orderly = async {
        if shared.options.cloak {
            hide_sockets(shared).await;
        }
        shared.tell(current);
        let name = &shared.name;
        let end = current.process.ended().await;
        log::info(format_args!("{name} (pid {}) {}", current.pid(), end.how));
        for generation in shared.all_leaving() {
            generation.process.ended().await;
        }
        end_rest(shared).await;
        shared.relays.done().await;
    };
    if timeout_at(kill_at, orderly).await.is_ok() {
        return Ok(());
    }
    let left = who(shared);
    let grace = shared.options.term.grace;
    log::warn(format_args!("{grace:?} are over: SIGKILL to {left}"));
    shared.set_killed();
    shared.family.kill_all().await;
    Err(format!("killed after {grace:?}: {left}").into())
}

async fn hide_sockets(shared: &Shared) {
    let (own, lent): (Vec<OwnedFd>, Vec<u64>) = {
        let mut sockets = shared.sockets();
        sockets.unlink();
        let copies = sockets.ours().map(|socket| socket.try_clone_to_owned());
        (copies.flatten().collect(), sockets.lent().to_vec())
    };
    // Without the guardian, whose line to us is a socket that is nobody's to look at.
    let cloaked = cloak::hide(own, &lent, &shared.family.below());
    let time = shared.options.term.left();
    // The other half is the command's.
    cloaked.quiet(time / 2).await;
    // Let go of before the command closes them: a socket that somebody holds is not closed.
    drop(cloaked);
}

/// Asks those that the command left behind to end too, and waits for them.
async fn end_rest(shared: &Shared) {
    if shared.family.is_alone() {
        return;
    }
    let rest = shared.family.below();
    if !rest.is_empty() {
        log::info(format_args!("SIGTERM to what it left: {}", who(shared)));
    }
    for pid in rest {
        sys::kill(pid, Signal::TERM);
        descendants::wake(pid);
    }
    if !descendants::is_known() {
        sys::kill_everybody(Signal::TERM);
    }
    shared.family.alone().await;
}

/// Ends what is left of the group of a command that has ended. Dropped half-way, they have been asked to end.
pub(super) async fn end_group(shared: &Shared, group: u32) {
    if !sys::group_lives(group) {
        return;
    }
    sys::kill_group(group, Signal::TERM);
    descendants::in_group(group).for_each(descendants::wake);
    if timeout(
        shared.options.term.grace,
        shared.family.without_group(group),
    )
    .await
    .is_err()
    {
        sys::kill_group(group, Signal::KILL);
        let _ = timeout(KILLED, shared.family.without_group(group)).await;
    }
}

/// Ends what a life of the command left, before the next one starts: it may hold what that needs. While another
/// generation lives, only its group is known to be its own. Dropped half-way, they have been asked to end.
pub(super) async fn clear(shared: &Shared, group: u32) {
    if !shared.all_leaving().is_empty() {
        return end_group(shared, group).await;
    }
    let grace = shared.options.term.grace;
    if timeout(grace, end_rest(shared)).await.is_err() {
        let left = who(shared);
        log::warn(format_args!("{grace:?} are over: SIGKILL to {left}"));
        let _ = timeout(KILLED, shared.family.kill_all()).await;
    }
}

/// The command has ended by itself. After a good end, what it left may finish its work, until we are told to stop;
/// after a bad one it is asked to end. Dropped half-way, the release phase kills who is left.
pub(super) async fn await_rest(shared: &Arc<Shared>, stop: &Stop, good: bool) -> adieu::Result {
    if shared.family.is_alone() {
        return Ok(());
    }
    if good {
        let rest = shared.family.below();
        if !rest.is_empty() {
            log::info(format_args!("waiting for what it left: {}", who(shared)));
        }
        if stop.until(shared.family.alone()).await.is_some() {
            return Ok(());
        }
    }
    // A server that put itself in the background has a queue as any other; after a bad end nobody was told to stop.
    let is_stop = stop.is_requested();
    let term = &shared.options.term;
    let time = if is_stop { term.left() } else { term.grace };
    let orderly = async {
        if is_stop && shared.options.cloak {
            hide_sockets(shared).await;
        }
        end_rest(shared).await;
    };
    if timeout(time, orderly).await.is_ok() {
        return Ok(());
    }
    let (left, grace) = (who(shared), term.grace);
    log::warn(format_args!("{grace:?} are over: SIGKILL to {left}"));
    shared.set_killed();
    shared.family.kill_all().await;
    Err(format!("killed after {grace:?}: {left}").into())
}

/// Names, for people; not all of a crowd.
fn who(shared: &Shared) -> String {
    const MOST: usize = 8;
    let all = shared.family.below();
    if all.is_empty() && !descendants::is_known() {
        return "everybody below us".to_owned();
    }
    let mut names: Vec<String> = all
        .iter()
        .take(MOST)
        .map(|pid| format!("{} ({pid})", descendants::name(*pid)))
        .collect();
    if all.len() > MOST {
        names.push(format!("{} more", all.len() - MOST));
    }
    names.join(", ")
}
