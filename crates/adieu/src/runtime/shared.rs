//! What the threads of one service share: the mailbox, the state of the stop, the tasks, the components.

use std::borrow::Cow;
use std::panic::Location;
use std::sync::atomic::{AtomicU8, AtomicU16, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use adieu_lifecycle::{
    Cause, ComponentId, End, Event, Exit, Outcome, Role, StopSignal, Terms, Time,
};
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::error::{Error, ErrorKind, Failure};
use crate::platform;
use crate::report::lost_work::LostWorkTable;
use crate::report::{
    ComponentKind, ComponentSnapshot, ComponentStatus, DeferredLog, DeferredLogs, LostWork, Notice,
    Snapshot,
};
use crate::runtime::component_stop::{ComponentEnd, ComponentStop};
use crate::runtime::ending::Closer;
use crate::runtime::extension::{ComponentProbe, Extensions};
use crate::runtime::hard_exit::HardExit;
use crate::runtime::plan::Plan;
use crate::runtime::stop_state::StopState;
use crate::tracking::cancel::CancelToken;
use crate::tracking::task_registry::{Departure, Removed, TaskInfo, TaskRegistry, TaskSlot};
use crate::util::duration::FOREVER;
use crate::util::latch::Latch;
use crate::util::mailbox::Mailbox;
use crate::util::panics::Panic;
use crate::util::printable;

/// What the driver reads.
pub(crate) enum DriverMessage {
    /// For the machine.
    Event(Event),
    /// For the log and the report only.
    Note(Notice),
    /// For the log only, from the midst of work.
    DeferredLog(DeferredLog),
    /// The program closes a resource before the service stops.
    Close(ComponentId),
    /// Print the status.
    Status,
    /// An extension that held the service back lets it run.
    #[cfg_attr(
        not(all(unix, feature = "net")),
        expect(dead_code, reason = "no hand-off holds it back")
    )]
    MayRun,
    /// An extension has become ready to serve.
    #[cfg_attr(
        not(feature = "net"),
        expect(dead_code, reason = "there are no servers")
    )]
    MayServe,
}

/// One part, as the outside of the machine knows it.
pub(crate) struct ComponentEntry {
    pub(crate) name: Arc<str>,
    pub(crate) kind: ComponentKind,
    pub(crate) role: Role,
    pub(crate) place: &'static Location<'static>,
    pub(crate) born: Time,
    pub(crate) failure: Option<Failure>,
    pub(crate) restarts: u32,
    /// What else the report should say of it.
    pub(crate) notes: Vec<String>,
    /// What a failure of this part does to the service.
    pub(crate) stops_service: Option<Cause>,
    /// It has failed, and the service goes on without it.
    pub(crate) is_report_only: bool,
    /// Work whose own limit was reached before the drain's.
    pub(crate) was_cut: bool,
    /// Tells the work to stop; of a task that is started again, this start of it.
    pub(crate) stop: Arc<ComponentStop>,
    /// Whether it can be started again by its handle.
    pub(crate) is_restartable: bool,
    /// Cancels the work, or the close in progress.
    pub(crate) token: CancelToken,
    pub(crate) closer: Option<Closer>,
    /// The program's own code starts it.
    pub(crate) is_starting: bool,
    /// Its close has begun, or its hook runs.
    pub(crate) is_closing: bool,
    pub(crate) end: Arc<ComponentEnd>,
    /// A server's, from the moment it listens.
    pub(crate) probe: Option<Box<dyn ComponentProbe>>,
}

impl ComponentEntry {
    fn snapshot(&self) -> ComponentSnapshot {
        ComponentSnapshot {
            name: Arc::clone(&self.name),
            kind: self.kind,
            role: self.role,
            location: self.place,
            born: self.born,
            restarts: self.restarts,
            failure: self.failure.clone(),
            notes: self.notes.clone(),
        }
    }

    /// Work whose stop was requested is stopping. In the lame-duck period before that it works normally.
    pub(crate) fn status(&self) -> ComponentStatus {
        if let Some(outcome) = self.end.get() {
            return ComponentStatus::Over(outcome);
        }
        match self.role {
            _ if self.is_starting => ComponentStatus::Starting,
            _ if self.is_closing => ComponentStatus::Closing,
            Role::Hook(_) => ComponentStatus::Waiting,
            Role::Resource if self.closer.is_none() => ComponentStatus::Starting,
            Role::Work if self.stop.state.is_requested() => ComponentStatus::Stopping,
            Role::Work if self.kind.is_server() && self.probe.is_none() => {
                ComponentStatus::Starting
            }
            _ => ComponentStatus::Ready,
        }
    }
}

/// Called at every await point of a task, with its id. For tests that stop a service at each of them.
type AwaitPointObserver = Box<dyn Fn(&ServiceShared, u64) + Send + Sync>;

const CALM: u8 = 0;
const STOPPING: u8 = 1;
const HURRIED: u8 = 2;

// In this order: every task changes the count of the tasks and, right beside it in the `Arc`, the count of the
// handles. On one cache line the two cost threads that spawn together half as much.
#[repr(C)]
pub(crate) struct ServiceShared {
    pub(crate) tasks: TaskRegistry,
    pub(crate) name: Arc<str>,
    pub(crate) terms: Terms,
    pub(crate) start: Instant,
    pub(crate) runtime: Handle,
    pub(crate) mailbox: Mailbox<DriverMessage>,
    pub(crate) stop: StopState,
    /// Cancels `setup`.
    pub(crate) setup: CancelToken,
    /// Opens when `setup` has returned: the service is running.
    pub(crate) running: Latch,
    /// Opens when stopping begins: no longer ready, but going on for the lame-duck time.
    pub(crate) announced: Latch,
    /// Why the service stops, once it does.
    pub(crate) cause: OnceLock<Cause>,
    parts: Mutex<Vec<ComponentEntry>>,
    losses: Mutex<LostWorkTable>,
    urgency: AtomicU8,
    /// The exit code plus one, once there is one.
    ended: AtomicU16,
    /// Opens at the end.
    ended_latch: Latch,
    /// Cancelled when the stop is requested; made when it is first asked for.
    #[cfg(feature = "tokio-util")]
    pub(crate) token: OnceLock<tokio_util::sync::CancellationToken>,
    /// Only a service that owns its process has one.
    pub(crate) hard_exit: OnceLock<HardExit>,
    /// After how long the platform kills, if that is configured.
    pub(crate) platform_kill_after: OnceLock<Time>,
    /// What the features keep in the service.
    pub(crate) extensions: Extensions,
    deferred_logs: DeferredLogs,
    pub(crate) await_point_observer: OnceLock<AwaitPointObserver>,
}

impl ServiceShared {
    pub(crate) fn new(name: Arc<str>, terms: Terms, runtime: Handle) -> Self {
        crate::util::panics::remember_places();
        Self {
            name,
            terms,
            start: Instant::now(),
            tasks: TaskRegistry::new(runtime.metrics().num_workers()),
            runtime,
            mailbox: Mailbox::new(),
            stop: StopState::new(),
            setup: CancelToken::default(),
            running: Latch::default(),
            announced: Latch::default(),
            cause: OnceLock::new(),
            parts: Mutex::default(),
            losses: Mutex::default(),
            urgency: AtomicU8::new(CALM),
            ended: AtomicU16::new(0),
            ended_latch: Latch::default(),
            #[cfg(feature = "tokio-util")]
            token: OnceLock::new(),
            hard_exit: OnceLock::new(),
            platform_kill_after: OnceLock::new(),
            extensions: Extensions::default(),
            deferred_logs: DeferredLogs::default(),
            await_point_observer: OnceLock::new(),
        }
    }

    pub(crate) fn now(&self) -> Time {
        self.start.elapsed()
    }

    pub(crate) fn tell(&self, event: Event) {
        self.mailbox.push(DriverMessage::Event(event));
    }

    pub(crate) fn note(&self, notice: Notice) {
        self.mailbox.push(DriverMessage::Note(notice));
    }

    pub(crate) fn parts(&self) -> MutexGuard<'_, Vec<ComponentEntry>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `change` on a part.
    pub(crate) fn with_part<T>(
        &self,
        id: ComponentId,
        change: impl FnOnce(&mut ComponentEntry) -> T,
    ) -> Option<T> {
        self.parts().get_mut(id.0 as usize).map(change)
    }

    /// A new part. Names are unique, because a report that names two things by one name names neither.
    pub(crate) fn register(
        &self,
        name: Cow<'static, str>,
        kind: ComponentKind,
        place: &'static Location<'static>,
        limit: Option<Time>,
    ) -> Result<ComponentId, Error> {
        let name = printable::name(&name);
        let mut parts = self.parts();
        if let Some(first) = parts.iter().find(|part| *part.name == *name) {
            let (name, first) = (Arc::clone(&first.name), first.place);
            return Err(Error::new(ErrorKind::Duplicate {
                name,
                first,
                again: place,
            }));
        }
        let id = ComponentId(u32::try_from(parts.len()).unwrap_or(u32::MAX));
        let role = kind.role();
        let stop = self.component_stop(id);
        parts.push(ComponentEntry {
            name: name.into(),
            kind,
            role,
            place,
            born: self.now(),
            failure: None,
            restarts: 0,
            notes: Vec::new(),
            stops_service: None,
            is_report_only: false,
            was_cut: false,
            stop,
            is_restartable: false,
            token: CancelToken::default(),
            closer: None,
            is_starting: false,
            is_closing: false,
            end: Arc::default(),
            probe: None,
        });
        let limit = limit.map(|limit| limit.min(FOREVER));
        // Under the lock, so that the machine gets the parts in the order of their numbers.
        self.tell(Event::Registered(id, role, limit));
        Ok(id)
    }

    /// A stop for this component. Made under the lock of the components: either [`pass_stop_on`](Self::pass_stop_on) finds
    /// it, or it finds the service's stop here.
    fn component_stop(&self, id: ComponentId) -> Arc<ComponentStop> {
        let stop = ComponentStop::new(id);
        if self.stop.is_requested() {
            stop.request();
        }
        Arc::new(stop)
    }

    /// Tells every component of the service's stop, which has been requested.
    pub(crate) fn pass_stop_on(&self) {
        let parts = self.parts();
        let stops: Vec<_> = parts.iter().map(|part| Arc::clone(&part.stop)).collect();
        // The wakers are code of the program. One that hangs must not keep the report from the components.
        drop(parts);
        for stop in stops {
            stop.request();
        }
    }

    /// The stop of the next start of a task, if the one that has ended is to start again.
    pub(crate) fn renew_stop(&self, id: ComponentId) -> Option<Arc<ComponentStop>> {
        let mut parts = self.parts();
        let part = parts.get_mut(id.0 as usize)?;
        if self.stop.is_requested() || !part.stop.restarts() {
            return None;
        }
        part.stop = self.component_stop(id);
        part.restarts += 1;
        Some(Arc::clone(&part.stop))
    }

    pub(crate) fn plan(&self) -> Plan {
        let parts: Vec<_> = self
            .parts()
            .iter()
            .map(|part| (Arc::clone(&part.name), part.role))
            .collect();
        let mut plan = Plan::new(self.terms, &parts);
        if let Some((.., last)) = plan.phases.last_mut() {
            for extension in self.extensions.iter() {
                extension.add_to_plan(last);
            }
        }
        plan
    }

    /// Asks for the stop. Only the first request has an effect.
    pub(crate) fn request_stop(&self, cause: Cause) {
        if !self.is_stopping() && self.begin_stopping() {
            self.tell(Event::Stop(cause));
        }
    }

    /// From here the grace period runs, whatever the cause; says whether this was the first request.
    pub(crate) fn begin_stopping(&self) -> bool {
        let first = self
            .urgency
            .compare_exchange(CALM, STOPPING, Ordering::AcqRel, Ordering::Acquire)
            .is_ok();
        if let Some(hard_exit) = self.hard_exit.get().filter(|_| first) {
            hard_exit.arm(self.terms.grace);
        }
        if first {
            for extension in self.extensions.iter() {
                extension.on_stop_requested();
            }
        }
        first
    }

    /// Whether the stop was requested; true before the driver has handled the request.
    pub(crate) fn is_stopping(&self) -> bool {
        self.urgency.load(Ordering::Acquire) != CALM
    }

    /// The exit code if the end must come from outside: the machine never came to say it.
    pub(crate) fn hard_exit_code(&self) -> Exit {
        match self.urgency.load(Ordering::Acquire) {
            HURRIED => Exit::Signal(StopSignal::Interrupt.number()),
            _ => Exit::Cut,
        }
    }

    /// A signal that asks for the end: the first one stops, a further interrupt hurries, the next kills.
    pub(crate) fn stop_on_signal(&self, signal: StopSignal) {
        if let Some(custom) = signal.kills_after() {
            self.shorten_deadline(signal, *self.platform_kill_after.get().unwrap_or(&custom));
        }
        if self.begin_stopping() {
            self.tell(Event::Stop(Cause::Signal(signal)));
        } else if signal == StopSignal::Interrupt {
            if self.urgency.swap(HURRIED, Ordering::AcqRel) == STOPPING {
                if let Some(hard_exit) = self.hard_exit.get() {
                    hard_exit.arm(self.terms.hurry);
                }
                self.tell(Event::Hurry(signal));
            } else {
                self.tell(Event::Kill);
                if let Some(hard_exit) = self.hard_exit.get() {
                    hard_exit.end_now();
                }
            }
        }
    }

    /// The sender of this signal kills the process after this long: the stop is over a little before, also one that has
    /// begun already.
    fn shorten_deadline(&self, signal: StopSignal, kills_after: Time) {
        let left = platform::usable(kills_after);
        if let Some(hard_exit) = self.hard_exit.get() {
            hard_exit.arm(left);
        }
        self.tell(Event::Within(left));
        if left < self.terms.grace {
            self.note(Notice::GraceCut {
                signal,
                grace: self.terms.grace,
                kills_after,
            });
        }
    }

    /// A tracked task is gone: records, in this order: outcome, consequences, count.
    #[inline]
    pub(crate) fn task_ended(&self, slot: TaskSlot, quiet: bool, result: Result<End, &Panic>) {
        if !matches!(result, Ok(End::Done)) {
            return self.task_lost(slot, quiet, result);
        }
        let Some((gone, left)) = self.tasks.remove_and_release(slot) else {
            return;
        };
        if let Some(part) = gone.part {
            self.part_ended(part, result);
            self.release_count(slot, &gone);
        } else if left != Departure::Unremarkable {
            self.on_departure(left);
        }
    }

    #[cold]
    fn task_lost(&self, slot: TaskSlot, quiet: bool, result: Result<End, &Panic>) {
        // Only the task itself leaves, so it is still the same after the look.
        let seen = self.tasks.get(slot);
        let (Some(gone), Some(task)) = (self.tasks.remove(slot), seen) else {
            return;
        };
        match (gone.part, result) {
            (Some(part), result) => self.part_ended(part, result),
            (None, Ok(_)) if task.kind.reports_own_losses() => {}
            (None, Ok(_)) => {
                let loss = LostWork::cut(&task, Outcome::Cancelled, false);
                self.losses().add(loss);
            }
            (None, Err(_)) if quiet => {}
            (None, Err(panic)) => self.child_panicked(&task, panic),
        }
        self.release_count(slot, &gone);
    }

    fn release_count(&self, slot: TaskSlot, gone: &Removed) {
        if !gone.abandoned {
            self.on_departure(self.tasks.release_count(slot));
        }
    }

    fn part_ended(&self, id: ComponentId, result: Result<End, &Panic>) {
        let (end, cause) = self
            .with_part(id, |part| {
                let end = result.unwrap_or_else(|panic| {
                    part.failure.get_or_insert_with(|| Failure::from(panic));
                    End::Failed
                });
                let end = match end {
                    End::Done if part.failure.is_some() => End::Failed,
                    End::Done if part.was_cut => End::Cancelled,
                    end => end,
                };
                (
                    end,
                    part.stops_service.take().filter(|_| end == End::Failed),
                )
            })
            .unwrap_or((End::Done, None));
        self.tell(Event::Ended(id, end));
        if let Some(cause) = cause {
            self.request_stop(cause);
        }
    }

    fn child_panicked(&self, task: &TaskInfo, panic: &Panic) {
        let mut loss = LostWork::cut(task, Outcome::Failed, false);
        loss.failure = Some(Failure::from(panic));
        self.note(Notice::ChildFailed {
            task: loss.name.clone(),
            place: loss.place.clone(),
            failure: panic.into(),
        });
        self.losses().add(loss);
        self.request_stop(Cause::Panic(Arc::from(printable::name(&task.name))));
    }

    /// Passes on what the last one to leave has found out.
    pub(crate) fn on_departure(&self, departure: Departure) {
        match departure {
            Departure::Unremarkable => {}
            Departure::Idle => self.tell(Event::Idle),
            Departure::Sealed => {
                let losses = self.losses();
                let cut = losses.any(|outcome| outcome != Outcome::Failed);
                let failed = losses.any(|outcome| outcome == Outcome::Failed);
                drop(losses);
                self.tell(Event::Sealed { cut, failed });
            }
        }
    }

    pub(crate) fn losses(&self) -> MutexGuard<'_, LostWorkTable> {
        self.losses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended_latch.is_open()
    }

    /// The exit code, once the service has ended.
    pub(crate) fn exit_code(&self) -> Option<u8> {
        u8::try_from(self.ended.load(Ordering::Acquire).checked_sub(1)?).ok()
    }

    pub(crate) fn set_ended(&self, code: u8) {
        self.ended.store(u16::from(code) + 1, Ordering::Release);
        self.ended_latch.open();
    }

    pub(crate) async fn ended(&self) {
        self.ended_latch.wait().await;
    }

    /// Called when a task, or `setup`, is about to wait.
    #[inline]
    pub(crate) fn at_await_point(&self, id: u64) {
        if let Some(observe) = self.await_point_observer.get() {
            observe(self, id);
        }
    }

    /// The poll-slot id of a component's close or hook, or of `setup` (`None`).
    pub(crate) fn poll_id_of(&self, part: Option<ComponentId>) -> u64 {
        self.tasks
            .reserved_id(part.map_or(u32::MAX - 1, |part| part.0))
    }

    /// What a connection or a stream is doing, and with which client, if this is the task of one.
    pub(crate) fn describe_connection(&self, task: u64) -> Option<(String, String)> {
        let parts = self.parts();
        parts
            .iter()
            .find_map(|part| part.probe.as_ref()?.describe_task(task))
    }

    /// Writes a line to the log from the midst of work, which neither waits for the log nor falls with it.
    pub(crate) fn log_deferred(&self, write: impl FnOnce() + Send + 'static) {
        if let Some(line) = self.deferred_logs.take(write) {
            self.mailbox.push(DriverMessage::DeferredLog(line));
        }
    }

    /// What the report needs to know as of now.
    pub(crate) fn snapshot(&self, now: Time) -> Snapshot {
        let components = self.parts().iter().map(ComponentEntry::snapshot).collect();
        let mut others = Vec::new();
        for extension in self.extensions.iter() {
            extension.add_to_report(now, &mut others);
        }
        let lost_work = self.losses();
        Snapshot {
            service: Arc::clone(&self.name),
            grace: self.terms.grace,
            components,
            lost: lost_work.lines(),
            lost_unnamed: lost_work.unnamed,
            others,
        }
    }

    /// The name of the task or component with this id, and its source location.
    pub(crate) fn who(&self, id: u64) -> Option<(String, String)> {
        if let Some(task) = self.tasks.by_id(id) {
            let place = task.place.to_string();
            // Every connection has the same name and place; what it is asked for says more.
            if task.kind.reports_own_losses()
                && let Some((what, _)) = self.describe_connection(id)
            {
                return Some((what, place));
            }
            return Some((printable::name(&task.name), place));
        }
        if id == self.poll_id_of(None) {
            return Some(("setup".to_owned(), String::new()));
        }
        let parts = self.parts();
        let (_, part) = (0_u32..)
            .zip(parts.iter())
            .find(|(number, _)| self.tasks.reserved_id(*number) == id)?;
        Some((part.name.to_string(), part.place.to_string()))
    }
}
