//! Drives the machine: takes events from the mailbox, does what the machine says, writes it down.
//!
//! In a service the driver has a thread of its own, so that no task that blocks the runtime can hold up
//! the stop; closes run on threads of their own for the same reason. In a scope it is a task, so that it
//! lives on the clock of the runtime around it.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use adieu_lifecycle::{Action, ComponentId, End, Event, Exit, Machine, Outcome, Time};
use tokio::runtime::{self, Handle, Runtime};
use tracing::Instrument;

use crate::error::Failure;
use crate::report::lost_work::LostWorkTable;
use crate::report::writer::ReportWriter;
use crate::report::{
    LostWork, Notice, NoticeListener, NoticeSink, Report, ReportBuilder, SinkHandle,
};
use crate::runtime::ending::BoxFuture;
use crate::runtime::extension::Extensions;
use crate::runtime::shared::{DriverMessage, ServiceShared};
use crate::runtime::status;
use crate::tracking::monitored::Monitored;
use crate::tracking::poll_slot;
use crate::tracking::task_registry::WorkKind;

pub(crate) struct Driver {
    core: Arc<ServiceShared>,
    machine: Machine,
    ledger: Arc<Mutex<ReportBuilder>>,
    writer: Arc<ReportWriter>,
    sink: SinkHandle,
    /// On record, but not yet said.
    pending: Vec<Notice>,
    wake: Option<Time>,
    /// Whether closes run on threads of their own.
    has_threads: bool,
    /// Whether the extensions know that clients can come.
    is_serving: bool,
}

impl Driver {
    pub(crate) fn new(
        core: Arc<ServiceShared>,
        ledger: Arc<Mutex<ReportBuilder>>,
        writer: Arc<ReportWriter>,
        listener: Option<NoticeListener>,
    ) -> Self {
        let machine = Machine::new(core.terms);
        let sink = NoticeSink::new(Arc::clone(&core.name), listener);
        Self {
            core,
            machine,
            ledger,
            writer,
            sink: SinkHandle::Inline(sink),
            pending: Vec::new(),
            wake: None,
            has_threads: false,
            is_serving: false,
        }
    }

    /// The driver of a service: returns at the end.
    pub(crate) fn run_on_thread(mut self) {
        self.has_threads = true;
        if let SinkHandle::Inline(sink) = std::mem::replace(&mut self.sink, SinkHandle::Finished) {
            self.sink = SinkHandle::on_thread(sink);
        }
        let start = self.core.start.into_std();
        while !self.machine.has_ended() {
            let until: Option<Instant> = self.wake.map(|at| start + at);
            let message = self
                .core
                .mailbox
                .wait(until)
                .unwrap_or(DriverMessage::Event(Event::Tick));
            self.handle(message);
        }
    }

    /// The driver of a scope: completes at the end. Never dropped before, because no code
    /// holds the handle of its task.
    pub(crate) async fn run_as_task(mut self) {
        let core = Arc::clone(&self.core);
        while !self.machine.has_ended() {
            let message = match self.wake {
                None => core.mailbox.next().await,
                // `next` is cancel-safe: nothing is taken from the mailbox by a wait that lost.
                Some(at) => tokio::time::timeout_at(core.start + at, core.mailbox.next())
                    .await
                    .unwrap_or(DriverMessage::Event(Event::Tick)),
            };
            self.handle(message);
        }
    }

    fn handle(&mut self, message: DriverMessage) {
        let now = self.core.now();
        match message {
            DriverMessage::Note(notice) => self.notify(now, notice),
            DriverMessage::Close(part) => self.close(part, now),
            DriverMessage::DeferredLog(line) => self.sink.log_deferred(line),
            DriverMessage::Status => {
                let status = self.ledger(|ledger| status::status(ledger, &self.core, now));
                self.sink.print_status(status);
            }
            DriverMessage::MayRun => self.begin_to_run(now),
            DriverMessage::MayServe => self.serve(),
            // Sent before another task started, which will send it again when it ends.
            DriverMessage::Event(Event::Idle) if !self.core.tasks.is_idle() => {}
            DriverMessage::Event(event) => {
                if event == Event::Tick {
                    self.wake = None;
                }
                let is_bound = matches!(event, Event::Within(_));
                for action in self.machine.step(event, now) {
                    self.perform(action, now);
                }
                if is_bound {
                    self.ledger(|ledger| ledger.ends_by(self.machine.end()));
                }
            }
        }
        self.flush_notices();
    }

    fn ledger<T>(&self, write: impl FnOnce(&mut ReportBuilder) -> T) -> T {
        write(&mut self.ledger.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts a notice on record; [`flush_notices`](Self::flush_notices) passes it on.
    fn notify(&mut self, now: Time, notice: Notice) {
        self.ledger(|ledger| ledger.write(now, notice.clone()));
        for extension in self.core.extensions.iter() {
            extension.on_notice(&notice, now);
        }
        self.pending.push(notice);
    }

    /// Passes notices on once the driver has done what they tell of: a listener may ask for the status at once, and a
    /// task that waits for the stop wakes up before the log is written.
    fn flush_notices(&mut self) {
        if !self.pending.is_empty() {
            self.sink.emit(std::mem::take(&mut self.pending));
        }
    }

    fn begin_to_run(&mut self, now: Time) {
        self.core.running.open();
        self.notify(now, Notice::Running);
        self.serve();
    }

    /// Tells the extensions that clients can come, once: when the service runs and all of them are ready.
    fn serve(&mut self) {
        let are_ready =
            |extensions: &Extensions| extensions.iter().all(|it| it.is_ready_to_serve());
        if !self.is_serving && self.core.running.is_open() && are_ready(&self.core.extensions) {
            self.is_serving = true;
            for extension in self.core.extensions.iter() {
                extension.on_serving(&self.core);
            }
        }
    }

    fn perform(&mut self, action: Action, now: Time) {
        match action {
            Action::Ready => {
                let core = Arc::clone(&self.core);
                if !core.extensions.iter().any(|it| it.holds_back(&core)) {
                    self.begin_to_run(now);
                }
            }
            Action::Begin(cause) => {
                self.core.begin_stopping();
                let _ = self.core.cause.set(cause.clone());
                self.core.announced.open();
                self.ledger(|ledger| {
                    ledger.stopping(now, cause.clone());
                    ledger.ends_by(self.machine.end());
                });
                self.notify(now, Notice::Stopping { cause });
            }
            Action::Enter(phase, limit) => {
                self.ledger(|ledger| ledger.enter(phase, now, limit));
                self.notify(
                    now,
                    Notice::Phase {
                        phase,
                        budget: limit.saturating_sub(now),
                    },
                );
            }
            Action::CancelSetup => self.core.setup.cancel(),
            Action::RequestStop(deadline) => {
                self.core.stop.request(deadline);
                self.core.pass_stop_on();
            }
            Action::WatchIdle => self.core.on_departure(self.core.tasks.watch()),
            Action::CancelPart(part) => self.cancel_part(part),
            Action::CancelWork => {
                self.core.stop.cancel();
                self.core.tasks.wake_all();
            }
            Action::AbandonWork => self.abandon_work(now),
            Action::SealWhenIdle => self.core.on_departure(self.core.tasks.seal_when_idle()),
            Action::Seal => {
                self.core.tasks.close();
                self.abandon_work(now);
                self.core.on_departure(self.core.tasks.seal_when_idle());
            }
            Action::Close(part, _) => self.close(part, now),
            Action::GiveUp(part) => self.cancel_part(part),
            Action::Settled(part, outcome) => self.settled(part, outcome, now),
            Action::Wake(at) => self.wake = Some(at),
            Action::End(exit) => self.end(exit, now),
        }
    }

    fn cancel_part(&self, part: ComponentId) {
        if let Some(token) = self.core.with_part(part, |part| part.token.clone()) {
            token.cancel();
        }
    }

    /// Names what is left. Parts are named when they are settled, which follows.
    fn abandon_work(&mut self, now: Time) {
        let polled = poll_slot::polled_tasks();
        if polled.contains(&self.core.poll_id_of(None)) {
            let what = "setup did not end when it was cancelled: it blocks its thread".to_owned();
            self.ledger(|ledger| {
                ledger.problem(Failure {
                    causes: vec![what],
                    panicked_at: None,
                })
            });
        }
        // One line for all of one name and place: there can be a million.
        let mut children = LostWorkTable::default();
        for task in self.core.tasks.abandon_all() {
            if task.part.is_none() {
                let blocking = polled.contains(&task.id);
                let mut loss = LostWork::cut(&task, Outcome::Abandoned, blocking);
                // What it blocks its thread for is not dropped, and does not name itself.
                if let Some((what, with)) = self.core.describe_connection(task.id) {
                    loss.name = format!("{what} {with}");
                }
                children.add(loss);
            }
        }
        for loss in children.lines() {
            let notice = Notice::ChildAbandoned {
                task: loss.name.clone(),
                place: loss.place.clone(),
                count: loss.count,
                blocking: loss.blocking,
            };
            self.notify(now, notice);
            self.core.losses().add(loss);
        }
        self.core.losses().unnamed += children.unnamed;
    }

    /// Starts the close of a resource, or a hook. Its end comes back through the mailbox.
    fn close(&mut self, id: ComponentId, now: Time) {
        let taken = self.core.with_part(id, |part| {
            let closer = part.closer.take();
            let was_closing = std::mem::replace(&mut part.is_closing, closer.is_some());
            part.is_closing |= was_closing;
            let name = Arc::clone(&part.name);
            (closer, was_closing, part.token.clone(), name, part.kind)
        });
        let (closer, token, part, kind) = match taken {
            Some((Some(closer), _, token, part, kind)) => (closer, token, part, kind),
            // The program has begun to close it. Its end comes from there, within the time that it has from here on.
            Some((None, true, ..)) => return,
            _ => return self.core.tell(Event::Ended(id, End::Done)),
        };
        self.ledger(|ledger| ledger.closing(id, now));
        let name = Arc::clone(&part);
        self.notify(now, Notice::Closing { part, kind });
        // What the close itself says comes after.
        self.flush_notices();
        let core = Arc::clone(&self.core);
        let closing = async move {
            // Made here and not in the driver: the subscriber is the program's.
            let span = tracing::info_span!(target: "adieu", parent: None, "close", part = &*name, kind = %kind);
            let closing = token.wrap(async move { closer().await }.instrument(span));
            let closing = Monitored::new(core.poll_id_of(Some(id)), closing);
            let (end, failure) = match closing.await {
                Ok(Ok(Ok(()))) => (End::Done, None),
                Ok(Ok(Err(error))) => (End::Failed, Some(Failure::from_error(&*error))),
                Ok(Err(_)) => (End::Cancelled, None),
                Err(panic) => (End::Failed, Some(Failure::from(&panic))),
            };
            core.with_part(id, |part| part.failure = failure);
            core.tell(Event::Ended(id, end));
        };
        self.launch(Box::pin(closing));
    }

    fn launch(&self, work: BoxFuture<()>) {
        if self.has_threads {
            on_thread(&self.core.runtime, work);
        } else {
            self.core.runtime.spawn(work);
        }
    }

    fn settled(&mut self, id: ComponentId, outcome: Outcome, now: Time) {
        let blocking = outcome == Outcome::Abandoned && self.is_blocking(id);
        self.ledger(|ledger| ledger.settled(id, outcome, now, blocking));
        if let Some(end) = self.core.with_part(id, |part| Arc::clone(&part.end)) {
            end.set(outcome);
        }
        let is_running = self.core.cause.get().is_none();
        let notice = self.core.with_part(id, |part| Notice::Settled {
            part: Arc::clone(&part.name),
            kind: part.kind,
            outcome,
            place: part.place.to_string(),
            failure: part.failure.clone(),
            blocking,
            goes_on: is_running && part.is_report_only,
        });
        if let Some(notice) = notice {
            self.notify(now, notice);
        }
    }

    /// Whether the part sits on a thread at this moment, or is blocking code.
    fn is_blocking(&self, id: ComponentId) -> bool {
        let polled = poll_slot::polled_tasks();
        polled.contains(&self.core.poll_id_of(Some(id)))
            || self.core.tasks.infos().iter().any(|task| {
                task.part == Some(id)
                    && (task.kind == WorkKind::Blocking || polled.contains(&task.id))
            })
    }

    /// All at once and by name, because there may be a million of them.
    fn name_the_cancelled(&mut self, now: Time) {
        let lines = self.core.losses().lines();
        for loss in lines
            .into_iter()
            .filter(|loss| loss.outcome == Outcome::Cancelled)
        {
            let LostWork {
                name: task,
                place,
                count,
                ..
            } = loss;
            self.notify(now, Notice::ChildCancelled { task, place, count });
        }
    }

    /// The end. The order is the contract:
    ///
    /// 1. What an extension has started outside must not outlive the process.
    /// 2. No work can start any more, and what is alive is named.
    /// 3. The end is on record, and the listener is notified: a disk that hangs holds the report, not the notices.
    /// 4. From here on the hard exit has the exit code.
    /// 5. The report is written, then printed; the hard exit leaves a second for that.
    /// 6. systemd is notified, then the log is flushed for as long as the hard exit allows.
    /// 7. `run` returns.
    fn end(&mut self, exit: Exit, now: Time) {
        for extension in self.core.extensions.iter() {
            extension.before_end();
        }
        self.core.tasks.close();
        // After an orderly stop nothing is left to be named or told. A third signal comes before all that.
        self.abandon_work(now);
        self.core.stop.cancel();
        self.core.pass_stop_on();
        self.core.tasks.wake_all();
        self.name_the_cancelled(now);
        self.ledger(|ledger| ledger.ended(now, exit));
        self.notify(now, Notice::Ended { exit });
        self.flush_notices();
        let hard_exit = self.core.hard_exit.get();
        if let Some(hard_exit) = hard_exit {
            hard_exit.decided(exit.code());
        }
        self.writer
            .publish(|| report(&self.core, &self.ledger, exit));
        self.sink.print_report(&self.writer);
        if let Some(hard_exit) = hard_exit {
            hard_exit.written();
        }
        for extension in self.core.extensions.iter() {
            extension.after_report();
        }
        self.sink.finish();
        self.core.set_ended(exit.code());
    }
}

/// The report as of now. `exit` counts if the machine has not said how it ended.
pub(crate) fn report(core: &ServiceShared, builder: &Mutex<ReportBuilder>, exit: Exit) -> Report {
    let now = core.now();
    let snapshot = core.snapshot(now);
    let builder = builder.lock().unwrap_or_else(PoisonError::into_inner);
    builder.report(snapshot, now, exit)
}

/// Runs a close where no blocked runtime can hold it up; falls back to the runtime without a thread.
fn on_thread(runtime: &Handle, work: BoxFuture<()>) {
    let slot = Arc::new(Mutex::new(Some(work)));
    let take = |slot: &Mutex<Option<BoxFuture<()>>>| {
        slot.lock().unwrap_or_else(PoisonError::into_inner).take()
    };
    let (handle, theirs) = (runtime.clone(), Arc::clone(&slot));
    let spawned = thread::Builder::new()
        .name("adieu-close".into())
        .spawn(move || {
            let Some(work) = take(&theirs) else { return };
            match spare_runtime(&handle) {
                Some(spare) => spare.block_on(work),
                None => handle.block_on(work),
            }
        });
    if spawned.is_err()
        && let Some(work) = take(&slot)
    {
        runtime.spawn(work);
    }
}

/// When every thread of the runtime is blocked, its timers and sockets are dead. A close that makes its own
/// still works on a spare one.
fn spare_runtime(runtime: &Handle) -> Option<Runtime> {
    let is_stuck = poll_slot::polled_tasks().len() >= runtime.metrics().num_workers();
    is_stuck
        .then(|| {
            runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .ok()
        })
        .flatten()
}

#[cfg(test)]
#[path = "driver_tests.rs"]
mod tests;
