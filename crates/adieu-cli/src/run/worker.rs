//! What is known of the whole run, of each command in it, and of each worker of a command: one process at a time, and
//! for a while its successor beside it.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use adieu::ShutdownHandle;
use tokio::sync::{Notify, OnceCell, watch};
use tokio::time::Instant;

use super::exit_status::ExitStatus;
use super::front::Front;
use super::generation::Generation;
use super::options::{CommandOptions, Options};
use super::process_tree::ProcessTree;
use super::relay::Relays;
use super::signals::Signal;
use super::sockets::Sockets;
use super::{log, notify};

/// What a command that has not been signalled yet has left after a second SIGTERM or SIGINT.
const GRACE_AFTER_SECOND_SIGNAL: Duration = Duration::from_secs(1);

/// The whole of one `adieu run`.
pub(super) struct Run {
    pub(super) options: Options,
    pub(super) processes: Arc<ProcessTree>,
    workers: OnceLock<Vec<Weak<Worker>>>,
    is_stopping: AtomicBool,
    was_killed: AtomicBool,
    state: Mutex<RunState>,
}

struct RunState {
    stop_signal: Signal,
    /// When SIGKILL is due, once the stop has reached the commands.
    kill_at: Option<Instant>,
    /// The worker that ended last without being asked to.
    ended: Option<Weak<Worker>>,
    /// The exit code for a command that could not be started.
    refused: Option<u8>,
}

impl Run {
    pub(super) fn new(options: Options, processes: Arc<ProcessTree>) -> Self {
        Self {
            options,
            processes,
            workers: OnceLock::new(),
            is_stopping: false.into(),
            was_killed: false.into(),
            state: Mutex::new(RunState {
                stop_signal: Signal::TERM,
                kill_at: None,
                ended: None,
                refused: None,
            }),
        }
    }

    /// The workers of all commands, in the order of the file. They own the run, and not the other way around.
    pub(super) fn make_workers(
        self: &Arc<Self>,
        sockets: Vec<Sockets>,
        fronts: Vec<Option<Front>>,
    ) -> Vec<Arc<Worker>> {
        let mut workers = Vec::new();
        let commands = self.options.commands.iter().enumerate();
        for (((number, options), sockets), front) in commands.zip(sockets).zip(fronts) {
            let command = Arc::new(CommandState {
                number,
                options: options.clone(),
                sockets: Mutex::new(sockets),
                front,
                relays: Relays::default(),
                is_drained: OnceCell::new(),
            });
            for index in 1..=options.workers {
                workers.push(Arc::new(Worker::new(self, &command, index)));
            }
        }
        let _ = self
            .workers
            .set(workers.iter().map(Arc::downgrade).collect());
        workers
    }

    fn state(&self) -> MutexGuard<'_, RunState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn workers(&self) -> impl Iterator<Item = Arc<Worker>> {
        let workers = self.workers.get().into_iter().flatten();
        workers.filter_map(Weak::upgrade)
    }

    /// Whether there is one worker: then every descendant is its own.
    pub(super) fn has_one(&self) -> bool {
        self.workers.get().is_none_or(|workers| workers.len() == 1)
    }

    /// The workers of these commands, by their numbers.
    fn of_commands<'a>(&'a self, numbers: &'a [usize]) -> impl Iterator<Item = Arc<Worker>> + 'a {
        self.workers()
            .filter(|worker| numbers.contains(&worker.command.number))
    }

    /// From the first moment of the stop on, also in the lame-duck period.
    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    pub(super) fn set_stopping(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        for worker in self.workers() {
            if let Some(front) = worker.front() {
                front.stop_waiting();
            }
        }
    }

    /// The stop had to kill.
    pub(super) fn set_killed(&self) {
        self.was_killed.store(true, Ordering::Relaxed);
    }

    pub(super) fn was_killed(&self) -> bool {
        self.was_killed.load(Ordering::Relaxed)
    }

    /// The stop was asked for with this signal.
    pub(super) fn set_stop_signal(&self, signal: Signal) {
        self.state().stop_signal = signal;
    }

    /// When SIGKILL is due. Counted from the first call, when the stop reaches the commands.
    pub(super) fn kill_at(&self) -> Instant {
        let left = self.options.timeouts.left();
        let mut state = self.state();
        *state.kill_at.get_or_insert_with(|| Instant::now() + left)
    }

    pub(super) fn set_refused(&self, code: u8) {
        self.state().refused.get_or_insert(code);
    }

    pub(super) fn refused(&self) -> Option<u8> {
        self.state().refused
    }

    /// This worker has ended without being asked to. During a stop others end because of it.
    pub(super) fn note_ended(&self, worker: &Arc<Worker>) {
        if !self.is_stopping() {
            self.state().ended = Some(Arc::downgrade(worker));
        }
    }

    /// The worker whose end is the exit code: the one that ended unasked and so began the stop, else the first in order
    /// that did not end with success.
    pub(super) async fn decisive(
        &self,
        was_end: bool,
    ) -> Option<(Arc<Worker>, Option<ExitStatus>)> {
        let ended = self.state().ended.as_ref().and_then(Weak::upgrade);
        if let Some(worker) = ended.filter(|_| was_end) {
            let how = worker.end().await;
            return Some((worker, how));
        }
        let mut first = None;
        for worker in self.workers() {
            let how = worker.end().await;
            if how.is_some_and(|how| !worker.options().is_success(how)) {
                return Some((worker, how));
            }
            // One that was never started has no end.
            if first.is_none() || how.is_some() && matches!(first, Some((_, None))) {
                first = Some((worker, how));
            }
        }
        first
    }

    /// A signal that does not stop.
    pub(super) fn forward(&self, signal: Signal) {
        for worker in self.workers() {
            worker.forward(signal);
        }
    }

    /// After a second stop signal. A command that has not been signalled yet, as in the lame-duck period, is signalled
    /// and has a moment. Dropped half-way, it has been signalled.
    pub(super) async fn stop_in_a_moment(&self) {
        let is_living = |worker: &Worker| {
            let current = worker.current();
            current.is_some_and(|it| !it.process.has_ended())
        };
        let living: Vec<_> = self.workers().filter(|it| is_living(it)).collect();
        let untold = living
            .iter()
            .filter(|it| !it.was_told.load(Ordering::Relaxed));
        let untold: Vec<_> = untold.collect();
        if living.is_empty() {
            return;
        }
        if untold.is_empty() {
            return log::warn("second SIGINT: sending SIGKILL to every process that is left");
        }
        log::warn(format_args!(
            "second SIGINT: the command has {GRACE_AFTER_SECOND_SIGNAL:?}, then SIGKILL to every process that is left"
        ));
        for worker in untold {
            if let Some(current) = worker.current() {
                worker.send_stop_signal(&current);
            }
        }
        let _ = tokio::time::timeout(GRACE_AFTER_SECOND_SIGNAL, self.processes.emptied()).await;
    }
}

/// A command, with what its workers share.
pub(super) struct CommandState {
    /// Its place in the file.
    number: usize,
    options: CommandOptions,
    sockets: Mutex<Sockets>,
    front: Option<Front>,
    pub(super) relays: Relays,
    /// Set once the accept queue has been drained in the stop: by the first worker, for all.
    pub(super) is_drained: OnceCell<()>,
}

/// One process of a command at a time, under supervision.
pub(super) struct Worker {
    /// In log and report.
    pub(super) name: String,
    pub(super) run: Arc<Run>,
    pub(super) command: Arc<CommandState>,
    /// Which one of its command, from 1 on.
    pub(super) index: usize,
    /// A restart was asked for, by SIGHUP or a changed file.
    pub(super) restart: Notify,
    state: Mutex<WorkerState>,
    is_ready: watch::Sender<bool>,
    /// Whether it has a process, or is about to have one.
    is_living: watch::Sender<bool>,
    /// Whether its process and the group of that have ended.
    is_over: AtomicBool,
    was_told: AtomicBool,
    generations: AtomicU32,
    shutdown: OnceLock<ShutdownHandle>,
}

#[derive(Default)]
struct WorkerState {
    /// Started in setup, for the task that keeps it.
    first: Option<Generation>,
    current: Option<Generation>,
    /// Replaced, and not gone yet.
    leaving: Vec<Generation>,
}

/// A worker has a process, until this is dropped.
pub(super) struct Living<'a>(&'a Worker);

impl Drop for Living<'_> {
    fn drop(&mut self) {
        self.0.is_living.send_replace(false);
    }
}

impl Worker {
    fn new(run: &Arc<Run>, command: &Arc<CommandState>, index: usize) -> Self {
        let options = &command.options;
        Self {
            name: match options.workers {
                1 => options.name.clone(),
                _ => format!("{} {index}", options.name),
            },
            run: Arc::clone(run),
            command: Arc::clone(command),
            index,
            restart: Notify::new(),
            state: Mutex::default(),
            is_ready: watch::Sender::new(false),
            is_living: watch::Sender::new(false),
            is_over: false.into(),
            was_told: false.into(),
            generations: 0.into(),
            shutdown: OnceLock::new(),
        }
    }

    pub(super) fn options(&self) -> &CommandOptions {
        &self.command.options
    }

    pub(super) const fn is_first(&self) -> bool {
        self.index == 1
    }

    pub(super) fn processes(&self) -> &Arc<ProcessTree> {
        &self.run.processes
    }

    /// From the first moment until SIGKILL.
    pub(super) fn grace(&self) -> Duration {
        self.run.options.timeouts.grace
    }

    fn state(&self) -> MutexGuard<'_, WorkerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those of its command, which all workers share.
    pub(super) fn sockets(&self) -> MutexGuard<'_, Sockets> {
        let sockets = self.command.sockets.lock();
        sockets.unwrap_or_else(PoisonError::into_inner)
    }

    /// That of its command, to which all workers belong.
    pub(super) fn front(&self) -> Option<&Front> {
        self.command.front.as_ref()
    }

    /// Whether the next process can be started beside the one that serves.
    pub(super) fn can_replace(&self) -> bool {
        self.front().is_some() || !self.sockets().is_empty()
    }

    /// The requests of `--front` go to this process.
    pub(super) fn direct_to(&self, generation: &Generation) {
        if let (Some(front), Some(upstream)) = (self.front(), &generation.upstream) {
            front.direct_to(upstream);
        }
    }

    /// No more requests go to this process.
    pub(super) fn withdraw(&self, generation: &Generation) {
        if let (Some(front), Some(upstream)) = (self.front(), &generation.upstream) {
            front.withdraw(upstream);
        }
    }

    pub(super) fn next_number(&self) -> u32 {
        self.generations.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn ready_by(&self) -> Instant {
        Instant::now() + self.options().ready_timeout
    }

    pub(super) fn set_first(&self, first: Generation) {
        let mut state = self.state();
        state.current = Some(first.clone());
        state.first = Some(first);
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

    /// It is about to have a process.
    pub(super) fn living(&self) -> Living<'_> {
        self.is_over.store(false, Ordering::Relaxed);
        self.is_living.send_replace(true);
        Living(self)
    }

    pub(super) fn set_over(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Who stops the whole run when this command has ended.
    pub(super) fn set_shutdown_handle(&self, handle: ShutdownHandle) {
        let _ = self.shutdown.set(handle);
    }

    /// Begins the stop of the whole run.
    pub(super) fn stop_run(&self, why: String) {
        if let Some(handle) = self.shutdown.get() {
            handle.stop(why);
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        *self.is_ready.borrow()
    }

    /// Our parent process is notified when all are ready.
    pub(super) fn set_ready(&self, ready: bool) {
        self.is_ready.send_replace(ready);
    }

    pub(super) fn tell_ready(&self) {
        if self.run.workers().all(|worker| worker.is_ready()) {
            notify::tell_outside("READY=1");
        }
    }

    /// Completes when every command that this one comes after is ready. Cancel-safe.
    pub(super) async fn may_start(&self) {
        for worker in self.run.of_commands(&self.options().after) {
            let _ = worker.is_ready.subscribe().wait_for(|ready| *ready).await;
        }
    }

    /// Completes when no command that came after this one has a process. Cancel-safe.
    pub(super) async fn may_stop(&self) {
        for worker in self.run.of_commands(&self.options().dependents) {
            let _ = worker
                .is_living
                .subscribe()
                .wait_for(|living| !*living)
                .await;
        }
    }

    /// When this one is killed in the stop: those that it comes after still need time.
    pub(super) fn kill_at(&self) -> Instant {
        let (now, last) = (Instant::now(), self.run.kill_at());
        now + (last - now) / self.options().levels
    }

    /// Whether no other worker has a process.
    pub(super) fn is_last(&self) -> bool {
        let is_over = |it: &Self| it.is_over.load(Ordering::Relaxed) || !*it.is_living.borrow();
        let mut workers = self.run.workers();
        workers.all(|worker| std::ptr::eq(&*worker, self) || is_over(&worker))
    }

    /// The next worker of the command restarts when this one has: one after the other, and none after a failure.
    pub(super) fn pass_restart_on(&self) {
        let is_next = |worker: &Arc<Self>| {
            Arc::ptr_eq(&worker.command, &self.command) && worker.index == self.index + 1
        };
        if let Some(next) = self.run.workers().find(is_next) {
            next.restart.notify_one();
        }
    }

    /// Those below the processes of this command, and these.
    pub(super) fn processes_of_command(&self) -> Vec<u32> {
        if self.run.has_one() {
            return self.run.processes.descendants();
        }
        let same = |worker: &Arc<Self>| Arc::ptr_eq(&worker.command, &self.command);
        let workers: Vec<_> = self.run.workers().filter(same).collect();
        let generations = workers.iter().flat_map(|worker| {
            let current = worker.current();
            current.into_iter().chain(worker.all_leaving())
        });
        let living = generations.filter(|it| !it.process.has_ended());
        living
            .flat_map(|it| super::procfs::subtree(it.pid()))
            .collect()
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
    fn stop_signal(&self) -> Signal {
        let heard = self.run.state().stop_signal;
        self.options().signals.of(heard).unwrap_or(heard)
    }

    /// The signal for what a command has left behind, and for one that is replaced.
    pub(super) fn end_signal(&self) -> Signal {
        let signals = &self.options().signals;
        signals.of(Signal::TERM).unwrap_or(Signal::TERM)
    }

    fn forward(&self, signal: Signal) {
        if signal == Signal::HUP && self.can_replace() {
            // The others follow, one after the other.
            if self.is_first() {
                self.restart.notify_one();
            }
            return;
        }
        let current = self.current();
        if let (Some(current), Some(signal)) = (current, self.options().signals.of(signal)) {
            current.process.send(signal, self.options().to_group);
        }
    }

    /// The command is signalled to stop.
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
                .tell_to_end(signal, self.options().to_group);
        }
    }

    /// How the command has ended, once it has.
    async fn end(&self) -> Option<ExitStatus> {
        let current = self.current()?;
        let patience = Duration::from_millis(100);
        let end = tokio::time::timeout(patience, current.process.ended()).await;
        end.ok().map(|end| end.how)
    }
}
