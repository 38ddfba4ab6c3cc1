//! The supervisor loop of the command: starts it, watches readiness and liveness, replaces it by a new process,
//! and ends it.

use std::sync::Arc;
use std::time::Duration;

use adieu::Stop;
use tokio::time::{Instant, sleep_until, timeout};

use super::args::RestartWhen;
use super::exit_status::End;
use super::generation::Generation;
use super::options::Ready;
use super::readiness::advice;
use super::signals::Signal;
use super::spawn_error::{SpawnError, spawn_error};
use super::worker::Worker;
use super::{cloak, log, notify, relay, stopping, sys};

/// What a command that was aborted for its silence has to write its core.
const CORE_DUMP_TIMEOUT: Duration = Duration::from_secs(2);

struct Supervisor<'a> {
    worker: &'a Arc<Worker>,
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
pub(super) async fn supervise(worker: Arc<Worker>, stop: Stop) -> adieu::Result {
    let first = worker.take_first();
    if first.is_none() && stop.until(worker.may_start()).await.is_none() {
        return Ok(());
    }
    let _living = worker.living();
    let current = match first {
        Some(first) => first,
        None if worker.current().is_none() => start_first(&worker).inspect_err(|refused| {
            log::warn(refused);
            // To try again would change nothing: the others are stopped in order.
            worker.run.set_refused(refused.0);
            worker.stop_run(refused.to_string());
        })?,
        // The file was there before; it may be back at the next attempt, as in a deployment that replaces it.
        None => start(&worker, None).inspect_err(|refused| log::warn(refused))?,
    };
    worker.set_current(&current);
    let supervisor = Supervisor {
        worker: &worker,
        stop,
        ready_by: Some(worker.ready_by()),
        current,
        ready: None,
        is_aborted: false,
        next: None,
        again: false,
    };
    supervisor.run().await
}

/// The first start, which says what will not work at a stop.
pub(super) fn start_first(worker: &Worker) -> Result<Generation, SpawnError> {
    let first = start(worker, None)?;
    if worker.options().cloak
        && worker.sockets().is_empty()
        && worker.front().is_none()
        && worker.is_first()
        && let Some(objection) = cloak::warning(first.pid(), &worker.name)
    {
        log::warn(objection);
    }
    Ok(first)
}

fn start(worker: &Worker, beside: Option<&[usize]>) -> Result<Generation, SpawnError> {
    let generation = Generation::start(worker, beside).map_err(|error| {
        let command = worker.options().command.first();
        let command = command.map(|it| it.to_string_lossy()).unwrap_or_default();
        spawn_error(&command, &error)
    })?;
    log::info(format_args!(
        "{} started (pid {})",
        worker.name,
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
                        self.worker.withdraw(&self.current);
                        log::warn("the new process takes over before it is ready");
                        self.worker.sockets().direct_to(next.set);
                        let old = std::mem::replace(&mut self.current, next);
                        tokio::spawn(clear_up(Arc::clone(self.worker), old));
                        self.ready_by = Some(ready_by);
                        self.ready = None;
                        self.is_aborted = false;
                        self.worker.set_ready(false);
                        self.worker.set_current(&self.current);
                        self.worker.pass_restart_on();
                        self.restart_again();
                    }
                },
                Event::Moved(pid) => self.follow(pid),
                Event::Ready => self.ready(),
                Event::Late => {
                    self.ready_by = None;
                    let (name, time) = (&self.worker.name, self.worker.options().ready_timeout);
                    let why = advice(self.worker.options());
                    log::warn(format_args!("{name} is not ready after {time:?}: {why}"));
                }
                Event::Silent => self.abort(),
                Event::Restart if self.worker.run.is_stopping() => {
                    log::info("no new process is started: the stop has begun");
                }
                Event::Restart if self.next.is_some() => {
                    self.again = true;
                    log::info(
                        "one more restart follows: something changed since this process was started",
                    );
                }
                Event::Restart => self.begin_restart(),
                Event::NextReady => self.replace(),
                Event::NextEnded(end) => self.give_up(&end.how.to_string()),
                Event::NextMoved(pid) => self.follow_next(pid),
                Event::NextLate => {
                    let time = self.worker.options().ready_timeout;
                    let why = advice(self.worker.options());
                    self.give_up(&format!("is not ready after {time:?}: {why}"));
                }
            }
        }
    }

    /// Every branch is cancel-safe: ends and words are kept where they are seen again, times are absolute, and a
    /// wish to restart is taken by the branch that wins with it.
    async fn event(&self) -> Event {
        let (worker, current) = (self.worker, &self.current);
        // It is ready when it has done its work.
        let is_once = worker.options().once;
        let next = async {
            match &self.next {
                None => std::future::pending().await,
                Some((next, ready_by)) => tokio::select! {
                    biased;
                    pid = next.moved() => Event::NextMoved(pid),
                    end = next.process.ended() => unless_moved(next, Event::NextMoved, Event::NextEnded(end)),
                    () = next.ready(worker) => Event::NextReady,
                    () = sleep_until(*ready_by) => Event::NextLate,
                },
            }
        };
        tokio::select! {
            biased;
            () = self.turn_to_stop() => Event::Stop,
            pid = current.moved() => Event::Moved(pid),
            end = current.process.ended() => unless_moved(current, Event::Moved, Event::Ended(end)),
            event = next => event,
            () = current.ready(worker), if self.ready.is_none() && !is_once => Event::Ready,
            () = late(self.ready_by), if self.ready.is_none() && !is_once => Event::Late,
            () = current.silent(worker.options().watchdog, self.ready), if !self.is_aborted => Event::Silent,
            () = worker.restart.notified() => Event::Restart,
        }
    }

    /// Completes when a stop was requested and every command that came after this one has ended. Cancel-safe.
    async fn turn_to_stop(&self) {
        self.stop.requested().await;
        // The time of all commands begins here.
        self.worker.run.kill_at();
        self.worker.may_stop().await;
    }

    fn ready(&mut self) {
        self.ready = Some(Instant::now());
        self.worker.direct_to(&self.current);
        self.worker.set_ready(true);
        if self.worker.options().ready != Ready::Start {
            let took = self.current.process.began.elapsed().as_millis();
            log::info(format_args!("{} ready after {took} ms", self.worker.name));
            log::settle_soon();
        }
        self.worker.tell_ready();
    }

    /// The command goes on in another process, as after a hand-over of its own. The one it was may take its time to
    /// end.
    fn follow(&mut self, pid: u32) {
        let Some(successor) = self.current.follow(self.worker, pid) else {
            return;
        };
        let old = std::mem::replace(&mut self.current, successor);
        self.worker.set_current(&self.current);
        log::info(format_args!(
            "pid {pid} is the command now, in the place of pid {}",
            old.pid()
        ));
        self.worker.leaving(&old);
        tokio::spawn(await_predecessor(Arc::clone(self.worker), old));
    }

    fn follow_next(&mut self, pid: u32) {
        if let Some((next, _)) = &mut self.next
            && let Some(successor) = next.follow(self.worker, pid)
        {
            *next = successor;
        }
    }

    /// As systemd does it: the core shows where it hangs.
    fn abort(&mut self) {
        self.is_aborted = true;
        let watchdog = self.worker.options().watchdog.unwrap_or_default();
        log::warn(format_args!(
            "{} (pid {}) has sent no WATCHDOG=1 for {watchdog:?}: SIGABRT",
            self.worker.name,
            self.current.pid()
        ));
        let process = self.current.process.clone();
        process.send(Signal::ABRT, false);
        tokio::spawn(async move {
            if timeout(CORE_DUMP_TIMEOUT, process.ended()).await.is_err() {
                process.send(Signal::KILL, true);
            }
        });
    }

    fn begin_restart(&mut self) {
        self.again = false;
        notify::tell_reloading();
        let mut in_use = self.worker.sets_leaving();
        in_use.push(self.current.set);
        match start(self.worker, Some(&in_use)) {
            Ok(next) => self.next = Some((next, self.worker.ready_by())),
            Err(error) => {
                log::warn(format_args!("{error}; the old process stays"));
                self.worker.tell_ready();
            }
        }
    }

    /// The new process serves from now on, and the old one may end.
    fn replace(&mut self) {
        let Some((next, _)) = self.next.take() else {
            return;
        };
        self.worker.sockets().direct_to(next.set);
        self.worker.direct_to(&next);
        let old = std::mem::replace(&mut self.current, next);
        self.ready = Some(Instant::now());
        self.is_aborted = false;
        self.worker.set_current(&self.current);
        self.worker.set_ready(true);
        log::info(format_args!(
            "pid {} serves, pid {} is asked to end",
            self.current.pid(),
            old.pid()
        ));
        self.worker.tell_ready();
        tokio::spawn(retire(Arc::clone(self.worker), old));
        self.worker.pass_restart_on();
        self.restart_again();
    }

    /// The new process did not get ready, or failed.
    fn give_up(&mut self, why: &str) {
        if let Some((next, _)) = self.next.take() {
            log::warn(format_args!(
                "the new process (pid {}) {why}; the old one stays",
                next.pid()
            ));
            let worker = Arc::clone(self.worker);
            if !self.may_serve(&next) {
                next.process.send(Signal::KILL, true);
            } else if next.process.has_ended() {
                tokio::spawn(clear_up(worker, next));
            } else {
                tokio::spawn(retire(worker, next));
            }
            self.worker.tell_ready();
        }
        self.restart_again();
    }

    /// Whether a client may have reached a generation that is not ready: it accepts from the sockets of the old
    /// process.
    fn may_serve(&self, next: &Generation) -> bool {
        self.worker.sockets().overlap(next.set, self.current.set)
    }

    fn restart_again(&mut self) {
        if std::mem::take(&mut self.again) {
            self.worker.restart.notify_one();
        }
    }

    async fn stop(self) -> adieu::Result {
        match &self.next {
            // It gets the stop signal with the old one, and has as much time.
            Some((next, _)) if self.may_serve(next) => self.worker.leaving(next),
            Some((next, _)) => next.process.send(Signal::KILL, true),
            None => {}
        }
        let ended = stopping::stop(self.worker, &self.current).await;
        let end = self.current.process.ended().await;
        self.note(end);
        ended
    }

    /// The command has ended without being asked to.
    async fn ended(self, end: End) -> adieu::Result {
        self.worker.set_ready(false);
        self.worker.withdraw(&self.current);
        self.say_ended(&self.current, end);
        self.note(end);
        let good = self.worker.options().is_success(end.how);
        let again = match self.worker.options().restart {
            RestartWhen::Never => false,
            RestartWhen::OnFailure => !good,
            RestartWhen::Always => true,
        };
        let failure = format!("{} {}", self.worker.name, end.how);
        self.worker.run.note_ended(self.worker);
        if again {
            let cleared = stopping::clear_group(self.worker, self.current.group());
            // A stop has a time of its own for the processes that are left.
            if self.stop.until(cleared).await.is_none() {
                stopping::await_descendants(self.worker, &self.stop, false).await?;
            }
            return Err(failure.into());
        }
        if !self.worker.run.has_one() {
            return self.ended_among_others(good, failure).await;
        }
        stopping::await_descendants(self.worker, &self.stop, good).await?;
        if good { Ok(()) } else { Err(failure.into()) }
    }

    /// One of several commands has ended: the others are stopped, unless it was to do its work and end.
    async fn ended_among_others(self, good: bool, failure: String) -> adieu::Result {
        let worker = self.worker;
        let group = self.current.group();
        if good && worker.options().once {
            stopping::end_group(worker, group).await;
            worker.set_ready(true);
            worker.tell_ready();
            return Ok(());
        }
        if good {
            worker.stop_run(failure.clone());
        }
        stopping::end_group(worker, group).await;
        worker.set_over();
        stopping::await_descendants(worker, &self.stop, good).await?;
        if good { Ok(()) } else { Err(failure.into()) }
    }

    fn say_ended(&self, generation: &Generation, end: End) {
        let words = format!(
            "{} (pid {}) {}",
            self.worker.name,
            generation.pid(),
            end.how
        );
        if self.worker.options().is_success(end.how) {
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
async fn clear_up(worker: Arc<Worker>, old: Generation) {
    leave(&worker, &old).await;
    stopping::end_group(&worker, old.group()).await;
    relay::rescue(&worker, old.set);
    worker.left(&old);
}

/// A generation serves no more: it says no more, and its queue is emptied. Cancel-safe but for the first.
async fn leave(worker: &Worker, old: &Generation) {
    worker.leaving(old);
    if let Some(notify_socket) = &old.notify_socket {
        notify_socket.leave();
    }
    if let Some(upstream) = &old.upstream {
        upstream.retire(worker.grace() / 2).await;
    }
    let is_gone = old.process.has_ended() && !worker.processes().has_group(old.group());
    if !worker.sockets().is_empty() && !is_gone {
        // A queue that it shares with the one that serves is not its own to empty.
        let waiting = || {
            let sockets = worker.sockets();
            let queues = sockets.left_behind(old.set).map(sys::queue);
            queues.flatten().sum()
        };
        cloak::until_quiet(waiting, worker.grace() / 2).await;
    }
}

/// Sees a generation off that has been replaced, or that will not do: its queue first, then the signal, then, if need
/// be, SIGKILL.
async fn retire(worker: Arc<Worker>, old: Generation) {
    let is_new = worker.current().is_some_and(|it| it.number < old.number);
    leave(&worker, &old).await;
    old.process
        .tell_to_end(worker.end_signal(), worker.options().to_group);
    let grace = worker.grace();
    if timeout(grace, old.process.ended()).await.is_err() {
        log::warn(format_args!(
            "pid {} has not ended after {grace:?}: SIGKILL to its group",
            old.pid()
        ));
        old.process.send(Signal::KILL, true);
    }
    let end = old.process.ended().await;
    stopping::end_group(&worker, old.group()).await;
    relay::rescue(&worker, old.set);
    worker.left(&old);
    log::info(format_args!(
        "the {} process (pid {}) {}",
        if is_new { "new" } else { "old" },
        old.pid(),
        end.how
    ));
}

/// Waits for a process whose command goes on in another one. It ends by itself; what is in its group may be the other.
async fn await_predecessor(worker: Arc<Worker>, old: Generation) {
    let end = old.process.ended().await;
    worker.left(&old);
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
