//! What everybody in one service shares: the inbox, the state of the stop, the roster, the parts.

use std::borrow::Cow;
use std::panic::Location;
use std::sync::atomic::{AtomicU8, AtomicU16, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::cancel::Token;
use crate::component::Closer;
use crate::duration::FOREVER;
use crate::error::{Error, ErrorKind, Failure};
use crate::gate::Gate;
use crate::inbox::Inbox;
use crate::lifecycle::{
    Cause, End, Event, Exit, Outcome, PartId, Plan, Role, StopSignal, Terms, Time,
};
use crate::losses::Losses;
use crate::panics::Panic;
use crate::report::{Loss, Notice, PartKind};
use crate::roster::{Gone, Left, Place, Roster, Sighting};
use crate::sentinel::Sentinel;
use crate::stop::StopState;

/// What the conductor reads.
pub(crate) enum Message {
    /// For the machine.
    Event(Event),
    /// For the log and the report only.
    Note(Notice),
    /// For the log only, from the midst of work.
    #[cfg(feature = "net")]
    Aside(crate::report::Aside),
    /// Somebody wants to see how it stands.
    Status,
    /// Everything is being loaded anew.
    Reloading,
    /// The last server that did not listen does now.
    #[cfg(feature = "net")]
    Listening,
    /// The process before this one allows it to serve.
    #[cfg(all(unix, feature = "net"))]
    MayServe,
    /// The process of this number, which was before this one, has let go.
    #[cfg(all(unix, feature = "net"))]
    TookOver(u32),
}

/// One part, as the outside of the machine knows it.
pub(crate) struct Part {
    pub(crate) name: Arc<str>,
    pub(crate) kind: PartKind,
    pub(crate) role: Role,
    pub(crate) place: &'static Location<'static>,
    pub(crate) born: Time,
    pub(crate) failure: Option<Failure>,
    pub(crate) restarts: u32,
    /// What else the report should say of it.
    pub(crate) notes: Vec<String>,
    /// What a failure of this part does to the service.
    pub(crate) stops_service: Option<Cause>,
    /// Work whose own limit was reached before the drain's.
    pub(crate) was_cut: bool,
    /// Cancels the work, or the close in progress.
    pub(crate) token: Token,
    pub(crate) closer: Option<Closer>,
    /// Says what the connection with this task is doing; a server's.
    #[cfg(feature = "net")]
    pub(crate) witness: Option<Box<dyn Fn(u64) -> Option<crate::net::Doing> + Send>>,
    /// Counts a server's clients; there from the moment it listens.
    #[cfg(feature = "admin")]
    pub(crate) census: Option<Box<dyn Fn() -> crate::net::Census + Send>>,
}

const CALM: u8 = 0;
const STOPPING: u8 = 1;
const HURRIED: u8 = 2;

// In this order: every task changes the count of the tasks and, right beside it in the `Arc`, the count of the
// handles. On one cache line the two cost threads that spawn together half as much.
#[repr(C)]
pub(crate) struct Core {
    pub(crate) roster: Roster,
    pub(crate) name: Arc<str>,
    pub(crate) terms: Terms,
    pub(crate) start: Instant,
    pub(crate) runtime: Handle,
    pub(crate) inbox: Inbox<Message>,
    pub(crate) stop: StopState,
    /// Cancels `setup`.
    pub(crate) setup: Token,
    /// Opens when `setup` has returned: the service is running.
    pub(crate) running: Gate,
    /// Opens when stopping begins: no longer ready, but going on for the lame-duck time.
    pub(crate) announced: Gate,
    /// Why the service stops, once it does.
    pub(crate) cause: OnceLock<Cause>,
    parts: Mutex<Vec<Part>>,
    losses: Mutex<Losses>,
    urgency: AtomicU8,
    /// The exit code plus one, once there is one.
    ended: AtomicU16,
    /// Opens at the end.
    ended_gate: Gate,
    /// Only a service that owns its process has one.
    pub(crate) sentinel: OnceLock<Sentinel>,
    /// After how long the platform kills, if somebody has said so.
    pub(crate) said_patience: OnceLock<Time>,
    /// What the program has bound to signals.
    pub(crate) bindings: crate::hear::Bindings,
    pub(crate) reloads: crate::reload::Reloads,
    /// The listeners, and what becomes of them.
    #[cfg(feature = "net")]
    pub(crate) estate: crate::net::Estate,
    #[cfg(feature = "net")]
    pub(crate) asides: crate::report::Asides,
    /// The way to the next process.
    #[cfg(all(unix, feature = "net"))]
    pub(crate) handoff: crate::handoff::HandOff,
    #[cfg(feature = "schedule")]
    pub(crate) agenda: crate::schedule::Agenda,
    #[cfg(feature = "admin")]
    pub(crate) office: crate::admin::Office,
    #[cfg(feature = "testing")]
    pub(crate) probe: crate::testing::Probe,
}

impl Core {
    pub(crate) fn new(name: Arc<str>, terms: Terms, runtime: Handle) -> Self {
        crate::panics::remember_places();
        Self {
            name,
            terms,
            start: Instant::now(),
            roster: Roster::new(runtime.metrics().num_workers()),
            runtime,
            inbox: Inbox::new(),
            stop: StopState::new(),
            setup: Token::default(),
            running: Gate::default(),
            announced: Gate::default(),
            cause: OnceLock::new(),
            parts: Mutex::default(),
            losses: Mutex::default(),
            urgency: AtomicU8::new(CALM),
            ended: AtomicU16::new(0),
            ended_gate: Gate::default(),
            sentinel: OnceLock::new(),
            said_patience: OnceLock::new(),
            bindings: crate::hear::Bindings::default(),
            reloads: crate::reload::Reloads::default(),
            #[cfg(feature = "net")]
            estate: crate::net::Estate::default(),
            #[cfg(feature = "net")]
            asides: crate::report::Asides::default(),
            #[cfg(all(unix, feature = "net"))]
            handoff: crate::handoff::HandOff::default(),
            #[cfg(feature = "schedule")]
            agenda: crate::schedule::Agenda::default(),
            #[cfg(feature = "admin")]
            office: crate::admin::Office::default(),
            #[cfg(feature = "testing")]
            probe: crate::testing::Probe::default(),
        }
    }

    pub(crate) fn now(&self) -> Time {
        self.start.elapsed()
    }

    pub(crate) fn tell(&self, event: Event) {
        self.inbox.push(Message::Event(event));
    }

    pub(crate) fn note(&self, notice: Notice) {
        self.inbox.push(Message::Note(notice));
    }

    pub(crate) fn parts(&self) -> MutexGuard<'_, Vec<Part>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `change` on a part.
    pub(crate) fn with_part<T>(
        &self,
        id: PartId,
        change: impl FnOnce(&mut Part) -> T,
    ) -> Option<T> {
        self.parts().get_mut(id.0 as usize).map(change)
    }

    /// A new part. Names are unique, because a report that names two things by one name names neither.
    pub(crate) fn register(
        &self,
        name: Cow<'static, str>,
        kind: PartKind,
        place: &'static Location<'static>,
        limit: Option<Time>,
    ) -> Result<PartId, Error> {
        let mut parts = self.parts();
        if let Some(first) = parts.iter().find(|part| *part.name == *name) {
            let (name, first) = (Arc::clone(&first.name), first.place);
            return Err(Error::new(ErrorKind::Duplicate {
                name,
                first,
                again: place,
            }));
        }
        let id = PartId(u32::try_from(parts.len()).unwrap_or(u32::MAX));
        let role = kind.role();
        parts.push(Part {
            name: name.into(),
            kind,
            role,
            place,
            born: self.now(),
            failure: None,
            restarts: 0,
            notes: Vec::new(),
            stops_service: None,
            was_cut: false,
            token: Token::default(),
            closer: None,
            #[cfg(feature = "net")]
            witness: None,
            #[cfg(feature = "admin")]
            census: None,
        });
        let limit = limit.map(|limit| limit.min(FOREVER));
        // Under the lock, so that the machine hears of parts in the order of their numbers.
        self.tell(Event::Registered(id, role, limit));
        Ok(id)
    }

    pub(crate) fn plan(&self) -> Plan {
        let parts: Vec<_> = self
            .parts()
            .iter()
            .map(|part| (Arc::clone(&part.name), part.role))
            .collect();
        #[cfg_attr(
            not(feature = "admin"),
            expect(unused_mut, reason = "nothing is added")
        )]
        let mut plan = Plan::new(self.terms, &parts);
        #[cfg(feature = "admin")]
        if let Some((.., last)) = plan.phases.last_mut() {
            last.extend(self.office.names());
        }
        plan
    }

    /// Asks for the stop. Only the first request has an effect.
    pub(crate) fn request_stop(&self, cause: Cause) {
        if self.begin_stopping() {
            self.tell(Event::Stop(cause));
        }
    }

    /// From here the clock runs, whoever asked; says whether this was the first request.
    pub(crate) fn begin_stopping(&self) -> bool {
        let first = self
            .urgency
            .compare_exchange(CALM, STOPPING, Ordering::AcqRel, Ordering::Acquire)
            .is_ok();
        if let Some(sentinel) = self.sentinel.get().filter(|_| first) {
            sentinel.arm(self.terms.grace);
        }
        #[cfg(all(unix, feature = "net"))]
        if first {
            self.handoff.forestall();
        }
        first
    }

    /// Whether somebody has asked for the stop; true before the conductor has heard of it.
    #[cfg(any(feature = "admin", all(unix, feature = "net")))]
    pub(crate) fn is_stopping(&self) -> bool {
        self.urgency.load(Ordering::Acquire) != CALM
    }

    /// The exit code if the end must come from outside: the machine never came to say it.
    pub(crate) fn hard_exit(&self) -> Exit {
        match self.urgency.load(Ordering::Acquire) {
            HURRIED => Exit::Signal(StopSignal::Interrupt.number()),
            _ => Exit::Cut,
        }
    }

    /// A signal that asks for the end: the first one stops, a further interrupt hurries, the next kills.
    pub(crate) fn signal(&self, signal: StopSignal) {
        if let Some(custom) = signal.kills_after() {
            self.make_haste(signal, *self.said_patience.get().unwrap_or(&custom));
        }
        if self.begin_stopping() {
            self.tell(Event::Stop(Cause::Signal(signal)));
        } else if signal == StopSignal::Interrupt {
            if self.urgency.swap(HURRIED, Ordering::AcqRel) == STOPPING {
                if let Some(sentinel) = self.sentinel.get() {
                    sentinel.arm(self.terms.hurry);
                }
                self.tell(Event::Hurry(signal));
            } else {
                self.tell(Event::Kill);
                if let Some(sentinel) = self.sentinel.get() {
                    sentinel.end_now();
                }
            }
        }
    }

    /// A tracked task is gone: says so to whoever must know, in this order: outcome, consequences, count.
    #[inline]
    pub(crate) fn task_ended(&self, place: Place, quiet: bool, result: Result<End, &Panic>) {
        if !matches!(result, Ok(End::Done)) {
            return self.task_lost(place, quiet, result);
        }
        let Some((gone, left)) = self.roster.depart(place) else {
            return;
        };
        if let Some(part) = gone.part {
            self.part_ended(part, result);
            self.uncount(place, &gone);
        } else if left != Left::Unremarkable {
            self.left(left);
        }
    }

    #[cold]
    fn task_lost(&self, place: Place, quiet: bool, result: Result<End, &Panic>) {
        // Only the task itself leaves, so it is still the same after the look.
        let seen = self.roster.see(place);
        let (Some(gone), Some(task)) = (self.roster.leave(place), seen) else {
            return;
        };
        match (gone.part, result) {
            (Some(part), result) => self.part_ended(part, result),
            #[cfg(feature = "net")]
            (None, Ok(_)) if task.kind == crate::roster::WorkKind::Connection => {}
            (None, Ok(_)) => {
                let loss = Loss::cut(&task, Outcome::Cancelled, false);
                self.losses().add(loss);
            }
            (None, Err(_)) if quiet => {}
            (None, Err(panic)) => self.child_panicked(&task, panic),
        }
        self.uncount(place, &gone);
    }

    fn uncount(&self, place: Place, gone: &Gone) {
        if !gone.abandoned {
            self.left(self.roster.uncount(place));
        }
    }

    fn part_ended(&self, id: PartId, result: Result<End, &Panic>) {
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

    fn child_panicked(&self, task: &Sighting, panic: &Panic) {
        let mut loss = Loss::cut(task, Outcome::Failed, false);
        loss.failure = Some(Failure::from(panic));
        self.note(Notice::ChildFailed {
            task: loss.name.clone(),
            place: loss.place.clone(),
            failure: panic.into(),
        });
        self.losses().add(loss);
        self.request_stop(Cause::Panic(Arc::from(&*task.name)));
    }

    /// Passes on what the last one to leave has found out.
    pub(crate) fn left(&self, left: Left) {
        match left {
            Left::Unremarkable => {}
            Left::Idle => self.tell(Event::Idle),
            Left::Sealed => {
                let losses = self.losses();
                let cut = losses.any(|outcome| outcome != Outcome::Failed);
                let failed = losses.any(|outcome| outcome == Outcome::Failed);
                drop(losses);
                self.tell(Event::Sealed { cut, failed });
            }
        }
    }

    pub(crate) fn losses(&self) -> MutexGuard<'_, Losses> {
        self.losses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended_gate.is_open()
    }

    /// The exit code, once the service has ended.
    pub(crate) fn exit_code(&self) -> Option<u8> {
        u8::try_from(self.ended.load(Ordering::Acquire).checked_sub(1)?).ok()
    }

    pub(crate) fn set_ended(&self, code: u8) {
        self.ended.store(u16::from(code) + 1, Ordering::Release);
        self.ended_gate.open();
    }

    pub(crate) async fn ended(&self) {
        self.ended_gate.pass().await;
    }

    /// The seat number of a part's close or hook, or of `setup` (`None`).
    pub(crate) fn seat_of(&self, part: Option<PartId>) -> u64 {
        self.roster
            .reserved_id(part.map_or(u32::MAX - 1, |part| part.0))
    }

    /// What a connection or a stream is doing, if this is the task of one.
    #[cfg(feature = "net")]
    pub(crate) fn doing(&self, task: u64) -> Option<crate::net::Doing> {
        let parts = self.parts();
        parts.iter().find_map(|part| part.witness.as_ref()?(task))
    }

    /// The name of whoever has this seat number, and where it was spawned.
    pub(crate) fn who(&self, id: u64) -> Option<(String, String)> {
        if let Some(task) = self.roster.find(id) {
            let place = task.place.to_string();
            // Every connection has the same name and place; what it is asked for says more.
            #[cfg(feature = "net")]
            if task.kind == crate::roster::WorkKind::Connection
                && let Some(doing) = self.doing(id)
            {
                return Some((doing.what, place));
            }
            return Some((task.name.into_owned(), place));
        }
        if id == self.seat_of(None) {
            return Some(("setup".to_owned(), String::new()));
        }
        let parts = self.parts();
        let (_, part) = (0_u32..)
            .zip(parts.iter())
            .find(|(number, _)| self.roster.reserved_id(*number) == id)?;
        Some((part.name.to_string(), part.place.to_string()))
    }
}
