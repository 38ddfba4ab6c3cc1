//! The supervisor loop of the command: starts it, watches readiness and liveness, replaces it by its next generation,
//! and takes it to its end.

use std::sync::Arc;
use std::time::Duration;

use adieu::Stop;
use tokio::time::{Instant, sleep_until, timeout};

use super::args::RestartWhen;
use super::exit_status::End;
use super::generation::Generation;
use super::options::Ready;
use super::readiness::advice;
use super::service::Shared;
use super::signals::Signal;
use super::spawn_error::{SpawnError, spawn_error};
use super::{cloak, log, notify, relay, stopping, sys};

/// What a command that was aborted for its silence has to write its core.
const ABORT: Duration = Duration::from_secs(2);

struct Supervisor<'a> {
    shared: &'a Arc<Shared>,
    stop: Stop,
    current: Generation,
    /// Since when it has been ready.
    ready: Option<Instant>,
    /// Until then; `None` once that was said.
    ready_by: Option<Instant>,
    is_aborted: bool,
    /// Started, and not ready yet.
    next: Option<(Generation, Instant)>,
    /// Something has changed again since the next one was started.
    again: bool,
}

enum Event {
    Stop,
    Ended(End),
    Moved(u32),
    Ready,
    Late,
    Silent,
    Restart,
    NextReady,
    NextEnded(End),
    NextMoved(u32),
    NextLate,
}

/// One life under the policy of the library: an error means that the command is to be started again, if that is
/// borne. Dropped half-way, the processes live on, and the release phase kills them.
pub(super) async fn supervise(shared: Arc<Shared>, stop: Stop) -> adieu::Result {
    let current = match shared.take_first() {
        Some(first) => first,
        // The file was there before; it may be back at the next attempt, as in a deployment that replaces it.
        None => start(&shared, None).inspect_err(|refused| log::warn(refused))?,
    };
    shared.set_current(&current);
    let supervisor = Supervisor {
        shared: &shared,
        stop,
        ready_by: Some(shared.ready_by()),
        current,
        ready: None,
        is_aborted: false,
        next: None,
        again: false,
    };
    supervisor.run().await
}

pub(super) fn start(shared: &Shared, beside: Option<&[usize]>) -> Result<Generation, SpawnError> {
    let generation = Generation::start(shared, beside).map_err(|error| {
        let command = shared.options.command.first();
        let command = command.map(|it| it.to_string_lossy()).unwrap_or_default();
        spawn_error(&command, &error)
    })?;
    log::info(format_args!(
        "{} started (pid {})",
        shared.name,
        generation.pid()
    ));
    Ok(generation)
}

impl Supervisor<'_> {
    async fn run(mut self) -> adieu::Result {
        loop {
            match self.event().await {
                Event::Stop => return self.stop().await,
                Event::Ended(end) => match self.next.take() {
                    None => return self.ended(end).await,
                    Some((next, ready_by)) => {
                        self.say_ended(&self.current, end);
                        log::warn("the new generation takes over before it is ready");
                        self.shared.sockets().direct_to(next.set);
                        let old = std::mem::replace(&mut self.current, next);
                        tokio::spawn(clear_up(Arc::clone(self.shared), old));
                        self.ready_by = Some(ready_by);
                        self.ready = None;
                        self.is_aborted = false;
                        self.shared.set_ready(false);
                        self.shared.set_current(&self.current);
                        self.restart_again();
                    }
                },
                Event::Moved(pid) => self.follow(pid),
                Event::Ready => self.ready(),
                Event::Late => {
                    self.ready_by = None;
                    let (name, time) = (&self.shared.name, self.shared.options.ready_timeout);
                    let why = advice(self.shared.options.ready);
                    log::warn(format_args!("{name} is not ready after {time:?}: {why}"));
                }
                Event::Silent => self.abort(),
                Event::Restart if self.shared.is_stopping() => {
                    log::info("no next generation is started: the stop has begun");
                }
                Event::Restart if self.next.is_some() => {
                    self.again = true;
                    log::info(
                        "one more generation follows: something changed since this one was started",
                    );
                }
                Event::Restart => self.begin_restart(),
                Event::NextReady => self.replace(),
                Event::NextEnded(end) => self.give_up(&end.how.to_string()),
                Event::NextMoved(pid) => self.follow_next(pid),
                Event::NextLate => {
                    let time = self.shared.options.ready_timeout;
                    let why = advice(self.shared.options.ready);
                    self.give_up(&format!("is not ready after {time:?}: {why}"));
                }
            }
        }
    }

    /// Every branch is cancel-safe: ends and words are kept where they are seen again, times are absolute, and a
    /// wish to restart is taken by the branch that wins with it.
    async fn event(&self) -> Event {
        let (shared, current) = (self.shared, &self.current);
        let next = async {
            match &self.next {
                None => std::future::pending().await,
                Some((next, ready_by)) => tokio::select! {
                    biased;
                    pid = next.moved() => Event::NextMoved(pid),
                    end = next.process.ended() => unless_moved(next, Event::NextMoved, Event::NextEnded(end)),
                    () = next.ready(shared) => Event::NextReady,
                    () = sleep_until(*ready_by) => Event::NextLate,
                },
            }
        };
        tokio::select! {
            biased;
            () = self.stop.requested() => Event::Stop,
            pid = current.moved() => Event::Moved(pid),
            end = current.process.ended() => unless_moved(current, Event::Moved, Event::Ended(end)),
            event = next => event,
            () = current.ready(shared), if self.ready.is_none() => Event::Ready,
            () = late(self.ready_by), if self.ready.is_none() => Event::Late,
            () = current.silent(shared.options.watchdog, self.ready), if !self.is_aborted => Event::Silent,
            () = shared.restart.notified() => Event::Restart,
        }
    }

    fn ready(&mut self) {
        self.ready = Some(Instant::now());
        self.shared.set_ready(true);
        if self.shared.options.ready != Ready::Start {
            let took = self.current.process.began.elapsed().as_millis();
            log::info(format_args!("{} ready after {took} ms", self.shared.name));
            log::settle_soon();
        }
        notify::tell_outside("READY=1");
    }

    /// The command goes on in another process, as after a hand-over of its own. The one it was may take its time to
    /// end.
    fn follow(&mut self, pid: u32) {
        let Some(successor) = self.current.follow(self.shared, pid) else {
            return;
        };
        let old = std::mem::replace(&mut self.current, successor);
        self.shared.set_current(&self.current);
        log::info(format_args!(
            "pid {pid} is the command now, in the place of pid {}",
            old.pid()
        ));
        self.shared.leaving(&old);
        tokio::spawn(await_predecessor(Arc::clone(self.shared), old));
    }

    fn follow_next(&mut self, pid: u32) {
        if let Some((next, _)) = &mut self.next
            && let Some(successor) = next.follow(self.shared, pid)
        {
            *next = successor;
        }
    }

    /// As systemd does it: the core shows where it hangs.
    fn abort(&mut self) {
        self.is_aborted = true;
        let watchdog = self.shared.options.watchdog.unwrap_or_default();
        log::warn(format_args!(
            "{} (pid {}) has sent no WATCHDOG=1 for {watchdog:?}: SIGABRT",
            self.shared.name,
            self.current.pid()
        ));
        let process = self.current.process.clone();
        process.send(Signal::ABRT, false);
        tokio::spawn(async move {
            if timeout(ABORT, process.ended()).await.is_err() {
                process.send(Signal::KILL, true);
            }
        });
    }

    fn begin_restart(&mut self) {
        self.again = false;
        notify::tell_reloading();
        let mut in_use = self.shared.sets_leaving();
        in_use.push(self.current.set);
        match start(self.shared, Some(&in_use)) {
            Ok(next) => self.next = Some((next, self.shared.ready_by())),
            Err(error) => {
                log::warn(format_args!("{error}; the old generation stays"));
                notify::tell_outside("READY=1");
            }
        }
    }

    /// The next generation is the present one now, and the old one may go.
    fn replace(&mut self) {
        let Some((next, _)) = self.next.take() else {
            return;
        };
        self.shared.sockets().direct_to(next.set);
        let old = std::mem::replace(&mut self.current, next);
        self.ready = Some(Instant::now());
        self.is_aborted = false;
        self.shared.set_current(&self.current);
        self.shared.set_ready(true);
        log::info(format_args!(
            "pid {} serves, pid {} is asked to end",
            self.current.pid(),
            old.pid()
        ));
        notify::tell_outside("READY=1");
        tokio::spawn(retire(Arc::clone(self.shared), old));
        self.restart_again();
    }

    /// The next generation will not do.
    fn give_up(&mut self, why: &str) {
        if let Some((next, _)) = self.next.take() {
            log::warn(format_args!(
                "the new generation (pid {}) {why}; the old one stays",
                next.pid()
            ));
            let shared = Arc::clone(self.shared);
            if !self.may_serve(&next) {
                next.process.send(Signal::KILL, true);
            } else if next.process.has_ended() {
                tokio::spawn(clear_up(shared, next));
            } else {
                tokio::spawn(retire(shared, next));
            }
            notify::tell_outside("READY=1");
        }
        self.restart_again();
    }

    /// Whether a client may have reached a generation that is not ready: it accepts from the sockets of the present
    /// one.
    fn may_serve(&self, next: &Generation) -> bool {
        self.shared.sockets().overlap(next.set, self.current.set)
    }

    fn restart_again(&mut self) {
        if std::mem::take(&mut self.again) {
            self.shared.restart.notify_one();
        }
    }

    async fn stop(self) -> adieu::Result {
        match &self.next {
            // It is told with the present one, and has the same time.
            Some((next, _)) if self.may_serve(next) => self.shared.leaving(next),
            Some((next, _)) => next.process.send(Signal::KILL, true),
            None => {}
        }
        let ended = stopping::stop(self.shared, &self.current).await;
        let end = self.current.process.ended().await;
        self.note(end);
        ended
    }

    /// The command has ended without being asked to.
    async fn ended(self, end: End) -> adieu::Result {
        self.shared.set_ready(false);
        self.say_ended(&self.current, end);
        self.note(end);
        let good = self.shared.options.is_success(end.how);
        let again = match self.shared.options.restart {
            RestartWhen::Never => false,
            RestartWhen::OnFailure => !good,
            RestartWhen::Always => true,
        };
        let failure = format!("{} {}", self.shared.name, end.how);
        if again {
            let cleared = stopping::clear_group(self.shared, self.current.group());
            // A stop has a time of its own for the processes that are left.
            if self.stop.until(cleared).await.is_none() {
                stopping::await_descendants(self.shared, &self.stop, false).await?;
            }
            return Err(failure.into());
        }
        stopping::await_descendants(self.shared, &self.stop, good).await?;
        if good { Ok(()) } else { Err(failure.into()) }
    }

    fn say_ended(&self, generation: &Generation, end: End) {
        let words = format!(
            "{} (pid {}) {}",
            self.shared.name,
            generation.pid(),
            end.how
        );
        if self.shared.options.is_success(end.how) {
            log::info(words);
        } else {
            log::warn(words);
        }
    }

    fn note(&self, end: End) {
        let lived = self.current.process.began.elapsed().as_secs_f64();
        self.stop.note(format!(
            "generation {} (pid {}) {} after {lived:.2} s: {}",
            self.current.number,
            self.current.pid(),
            end.how,
            end.usage
        ));
    }
}

/// Ends what is left of a generation whose command has died during a restart: its workers may still serve.
/// Dropped half-way, the stop ends them.
async fn clear_up(shared: Arc<Shared>, old: Generation) {
    leave(&shared, &old).await;
    stopping::end_group(&shared, old.group()).await;
    relay::rescue(&shared, old.set);
    shared.left(&old);
}

/// A generation serves no more: it says no more, and its queue is emptied. Cancel-safe but for the first.
async fn leave(shared: &Shared, old: &Generation) {
    shared.leaving(old);
    if let Some(notify_socket) = &old.notify_socket {
        notify_socket.leave();
    }
    let is_gone = old.process.has_ended() && !shared.processes.has_group(old.group());
    if !shared.sockets().is_empty() && !is_gone {
        // A queue that it shares with the one that serves is not its own to empty.
        let waiting = || {
            let sockets = shared.sockets();
            let queues = sockets.left_behind(old.set).map(sys::queue);
            queues.flatten().sum()
        };
        cloak::until_quiet(waiting, shared.options.timeouts.grace / 2).await;
    }
}

/// Sees a generation off that has been replaced, or that will not do: its queue first, then the signal, then, if need
/// be, SIGKILL.
async fn retire(shared: Arc<Shared>, old: Generation) {
    let is_new = shared.current().is_some_and(|it| it.number < old.number);
    leave(&shared, &old).await;
    old.process
        .tell_to_end(shared.end_signal(), shared.options.to_group);
    let grace = shared.options.timeouts.grace;
    if timeout(grace, old.process.ended()).await.is_err() {
        log::warn(format_args!(
            "pid {} has not ended after {grace:?}: SIGKILL to its group",
            old.pid()
        ));
        old.process.send(Signal::KILL, true);
    }
    let end = old.process.ended().await;
    stopping::end_group(&shared, old.group()).await;
    relay::rescue(&shared, old.set);
    shared.left(&old);
    log::info(format_args!(
        "the {} generation (pid {}) {}",
        if is_new { "new" } else { "old" },
        old.pid(),
        end.how
    ));
}

/// Waits for a process whose command goes on in another one. It ends by itself; what is in its group may be the other.
async fn await_predecessor(shared: Arc<Shared>, old: Generation) {
    let end = old.process.ended().await;
    shared.left(&old);
    log::info(format_args!("pid {} {}", old.pid(), end.how));
}

/// An end, unless the one that ended has said that another process is the one to look at.
fn unless_moved(generation: &Generation, moved: impl FnOnce(u32) -> Event, ended: Event) -> Event {
    generation.has_moved().map_or(ended, moved)
}

async fn late(by: Option<Instant>) {
    match by {
        Some(by) => sleep_until(by).await,
        None => std::future::pending().await,
    }
}
