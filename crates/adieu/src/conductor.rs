//! Drives the machine: takes events from the inbox, does what the machine says, writes it down.
//!
//! In a service the conductor has a thread of its own, so that no task that blocks the runtime can hold up
//! the stop; closes run on threads of their own for the same reason. In a scope it is a task, so that it
//! lives on the clock of the runtime around it.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::{self, Handle, Runtime};

use crate::component::BoxFuture;
use crate::core::{Core, Message};
use crate::error::Failure;
use crate::lifecycle::{Action, End, Event, Exit, Machine, Outcome, PartId, Time};
use crate::losses::Losses;
use crate::publish::Publisher;
use crate::report::{Herald, Ledger, Listener, Loss, Notice, Voice};
use crate::roster::WorkKind;
use crate::seat;
use crate::seated::Seated;
#[cfg(unix)]
use crate::systemd::Systemd;

pub(crate) struct Conductor {
    core: Arc<Core>,
    machine: Machine,
    ledger: Arc<Mutex<Ledger>>,
    publisher: Arc<Publisher>,
    voice: Voice,
    /// On record, but not yet said.
    unsaid: Vec<Notice>,
    wake: Option<Time>,
    /// Whether closes run on threads of their own.
    has_threads: bool,
    /// Whether `setup` is done and every server listens.
    is_serving: bool,
    #[cfg(unix)]
    systemd: Option<Systemd>,
}

impl Conductor {
    pub(crate) fn new(
        core: Arc<Core>,
        ledger: Arc<Mutex<Ledger>>,
        publisher: Arc<Publisher>,
        listener: Option<Listener>,
    ) -> Self {
        let machine = Machine::new(core.terms);
        let herald = Herald::new(Arc::clone(&core.name), listener);
        Self {
            core,
            machine,
            ledger,
            publisher,
            voice: Voice::Here(herald),
            unsaid: Vec::new(),
            wake: None,
            has_threads: false,
            is_serving: false,
            #[cfg(unix)]
            systemd: None,
        }
    }

    /// Tells systemd how it goes.
    #[cfg(unix)]
    pub(crate) fn notifying(mut self, systemd: Option<Systemd>) -> Self {
        self.systemd = systemd;
        self
    }

    /// The conductor of a service: returns at the end.
    pub(crate) fn run_on_thread(mut self) {
        self.has_threads = true;
        if let Voice::Here(herald) = std::mem::replace(&mut self.voice, Voice::Silent) {
            self.voice = Voice::away(herald);
        }
        let start = self.core.start.into_std();
        while !self.machine.has_ended() {
            let until: Option<Instant> = self.wake.map(|at| start + at);
            let message = self
                .core
                .inbox
                .wait(until)
                .unwrap_or(Message::Event(Event::Tick));
            self.handle(message);
        }
    }

    /// The conductor of a scope: completes at the end. Never dropped before, because it is a task that
    /// nobody holds the handle of.
    pub(crate) async fn run_as_task(mut self) {
        let core = Arc::clone(&self.core);
        while !self.machine.has_ended() {
            let message = match self.wake {
                None => core.inbox.next().await,
                // `next` is cancel-safe: nothing is taken from the inbox by a wait that lost.
                Some(at) => tokio::time::timeout_at(core.start + at, core.inbox.next())
                    .await
                    .unwrap_or(Message::Event(Event::Tick)),
            };
            // adieu: ignore(ADR106) a scope speaks to no systemd
            self.handle(message);
        }
    }

    fn handle(&mut self, message: Message) {
        let now = self.core.now();
        match message {
            Message::Note(notice) => self.say(now, notice),
            #[cfg(feature = "net")]
            Message::Aside(line) => self.voice.say_aside(line),
            Message::Status => {
                let status = self.ledger(|ledger| ledger.status(&self.core, now));
                self.voice.show(status);
            }
            Message::Reloading =>
            {
                #[cfg(unix)]
                if let Some(systemd) = &self.systemd {
                    systemd.reloading();
                }
            }
            #[cfg(feature = "net")]
            Message::Listening => self.serve(),
            #[cfg(all(unix, feature = "net"))]
            Message::MayServe => self.begin_to_run(now),
            #[cfg(all(unix, feature = "net"))]
            Message::TookOver(pid) => {
                if let Some(systemd) = &self.systemd {
                    systemd.speak();
                }
                self.say(now, Notice::TookOver { pid });
            }
            // Told by one who was slow to tell it; whoever has come meanwhile will tell it again.
            Message::Event(Event::Idle) if !self.core.roster.is_idle() => {}
            Message::Event(event) => {
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
        self.speak();
    }

    fn ledger<T>(&self, write: impl FnOnce(&mut Ledger) -> T) -> T {
        write(&mut self.ledger.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts it on record; said by [`speak`](Self::speak).
    fn say(&mut self, now: Time, notice: Notice) {
        #[cfg(all(unix, feature = "admin"))]
        self.core.handoff.remember(&notice);
        self.ledger(|ledger| ledger.write(now, notice.clone()));
        #[cfg(unix)]
        if let Some(systemd) = &mut self.systemd {
            systemd.hear(&notice, now);
        }
        self.unsaid.push(notice);
    }

    /// Says what happened once it is done: whoever hears of it may ask at once, and the thread that is woken to say
    /// it stands in nobody's way. A task that waits for the stop has it before the log does.
    fn speak(&mut self) {
        if !self.unsaid.is_empty() {
            self.voice.say(std::mem::take(&mut self.unsaid));
        }
    }

    fn begin_to_run(&mut self, now: Time) {
        self.core.running.open();
        self.say(now, Notice::Running);
        self.serve();
    }

    /// Whoever started us may hear that clients can come, once there is nobody to wait for.
    fn serve(&mut self) {
        #[cfg(feature = "net")]
        if !self.core.estate.is_open() {
            return;
        }
        if self.core.running.is_open() && !std::mem::replace(&mut self.is_serving, true) {
            #[cfg(unix)]
            if let Some(systemd) = &self.systemd {
                systemd.ready();
            }
            #[cfg(all(unix, feature = "net"))]
            if self.core.estate.is_on_probation() {
                self.core.estate.say_serving();
            }
        }
    }

    fn perform(&mut self, action: Action, now: Time) {
        match action {
            Action::Ready => {
                // The process before us serves until it says otherwise.
                #[cfg(all(unix, feature = "net"))]
                if self.core.estate.is_on_probation() {
                    return self.core.prepare();
                }
                self.begin_to_run(now);
            }
            Action::Begin(cause) => {
                self.core.begin_stopping();
                let _ = self.core.cause.set(cause.clone());
                self.core.announced.open();
                self.ledger(|ledger| {
                    ledger.stopping(now, cause.clone());
                    ledger.ends_by(self.machine.end());
                });
                self.say(now, Notice::Stopping { cause });
            }
            Action::Enter(phase, limit) => {
                self.ledger(|ledger| ledger.enter(phase, now, limit));
                self.say(
                    now,
                    Notice::Phase {
                        phase,
                        budget: limit.saturating_sub(now),
                    },
                );
            }
            Action::CancelSetup => self.core.setup.cancel(),
            Action::RequestStop(deadline) => self.core.stop.request(deadline),
            Action::WatchIdle => self.core.left(self.core.roster.watch()),
            Action::CancelPart(part) => self.cancel_part(part),
            Action::CancelWork => {
                self.core.stop.cancel();
                self.core.roster.wake_all();
            }
            Action::AbandonWork => self.abandon_work(now),
            Action::SealWhenIdle => self.core.left(self.core.roster.seal_when_idle()),
            Action::Seal => {
                self.core.roster.close();
                self.abandon_work(now);
                self.core.left(self.core.roster.seal_when_idle());
            }
            Action::Close(part, _) => self.close(part, now),
            Action::GiveUp(part) => self.cancel_part(part),
            Action::Settled(part, outcome) => self.settled(part, outcome, now),
            Action::Wake(at) => self.wake = Some(at),
            Action::End(exit) => self.end(exit, now),
        }
    }

    fn cancel_part(&self, part: PartId) {
        if let Some(token) = self.core.with_part(part, |part| part.token.clone()) {
            token.cancel();
        }
    }

    /// Names what is left. Parts are named when they are settled, which follows.
    fn abandon_work(&mut self, now: Time) {
        let seated = seat::occupants();
        if seated.contains(&self.core.seat_of(None)) {
            let what = "setup did not end when it was told to: it blocks its thread".to_owned();
            self.ledger(|ledger| {
                ledger.problem(Failure {
                    causes: vec![what],
                    panicked_at: None,
                })
            });
        }
        // One line for all of one name and place: there can be a million.
        let mut children = Losses::default();
        for task in self.core.roster.abandon_all() {
            if task.part.is_none() {
                let blocking = seated.contains(&task.id);
                #[cfg_attr(not(feature = "net"), expect(unused_mut, reason = "no connections"))]
                let mut loss = Loss::cut(&task, Outcome::Abandoned, blocking);
                // What it blocks its thread for is not dropped, and does not name itself.
                #[cfg(feature = "net")]
                if let Some(doing) = self.core.doing(task.id) {
                    loss.name = doing.to_string();
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
            self.say(now, notice);
            self.core.losses().add(loss);
        }
        self.core.losses().unnamed += children.unnamed;
    }

    /// Starts the close of a resource, or a hook. Its end comes back through the inbox.
    fn close(&mut self, id: PartId, now: Time) {
        let taken = self.core.with_part(id, |part| {
            (
                part.closer.take(),
                part.token.clone(),
                Arc::clone(&part.name),
                part.kind,
            )
        });
        let Some((Some(closer), token, part, kind)) = taken else {
            return self.core.tell(Event::Ended(id, End::Done));
        };
        self.ledger(|ledger| ledger.closing(id, now));
        self.say(now, Notice::Closing { part, kind });
        // What the close itself says comes after.
        self.speak();
        let core = Arc::clone(&self.core);
        let closing = Seated::new(
            core.seat_of(Some(id)),
            token.wrap(async move { closer().await }),
        );
        let closing = async move {
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

    fn settled(&mut self, id: PartId, outcome: Outcome, now: Time) {
        let blocking = outcome == Outcome::Abandoned && self.is_blocking(id);
        self.ledger(|ledger| ledger.settled(id, outcome, now, blocking));
        let notice = self.core.with_part(id, |part| Notice::Settled {
            part: Arc::clone(&part.name),
            kind: part.kind,
            outcome,
            place: part.place.to_string(),
            failure: part.failure.clone(),
            blocking,
        });
        if let Some(notice) = notice {
            self.say(now, notice);
        }
    }

    /// Whether the part sits on a thread at this moment, or is blocking code.
    fn is_blocking(&self, id: PartId) -> bool {
        let seated = seat::occupants();
        seated.contains(&self.core.seat_of(Some(id)))
            || self.core.roster.sightings().iter().any(|task| {
                task.part == Some(id)
                    && (task.kind == WorkKind::Blocking || seated.contains(&task.id))
            })
    }

    /// All at once and by name, because there may be a million of them.
    fn name_the_cancelled(&mut self, now: Time) {
        let lines = self.core.losses().lines();
        for loss in lines
            .into_iter()
            .filter(|loss| loss.outcome == Outcome::Cancelled)
        {
            let Loss {
                name: task,
                place,
                count,
                ..
            } = loss;
            self.say(now, Notice::ChildCancelled { task, place, count });
        }
    }

    fn end(&mut self, exit: Exit, now: Time) {
        #[cfg(all(unix, feature = "net"))]
        self.core.handoff.end_now();
        self.core.roster.close();
        // After an orderly stop nothing is left to be named or told. A third signal comes before all that.
        self.abandon_work(now);
        self.core.stop.cancel();
        self.core.roster.wake_all();
        self.name_the_cancelled(now);
        self.ledger(|ledger| ledger.ended(now, exit));
        self.say(now, Notice::Ended { exit });
        // A disk that hangs holds the report, not what is said.
        self.speak();
        let sentinel = self.core.sentinel.get();
        if let Some(sentinel) = sentinel {
            sentinel.decided(exit.code());
        }
        self.publisher.publish(&self.core, &self.ledger, exit);
        self.voice.print(&self.publisher);
        if let Some(sentinel) = sentinel {
            sentinel.written();
        }
        #[cfg(unix)]
        if let Some(systemd) = &self.systemd {
            systemd.finish();
        }
        // A log that takes nothing more is waited for as long as the sentinel allows.
        self.voice.finish();
        self.core.set_ended(exit.code());
    }
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
    let is_stuck = seat::occupants().len() >= runtime.metrics().num_workers();
    is_stuck
        .then(|| {
            runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .ok()
        })
        .flatten()
}

/// How much later than the grace period the sentinel ends the process, if nobody else has.
pub(crate) const HARD_MARGIN: Duration = Duration::from_millis(100);
