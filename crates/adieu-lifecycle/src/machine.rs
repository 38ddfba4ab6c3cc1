//! The machine: `step(event, now)` gives the actions to take.
//!
//! An event first changes what is known ([`Machine::take`]); then the machine moves as far as its knowledge
//! and the time allow ([`Machine::advance`]). Nothing else changes the state, so these hold in any order of
//! events, and `tests/machine` tries the orders:
//!
//! - phases only move forward;
//! - a resource is closed once, after every user of it has an outcome, and after all that opened later;
//! - every part gets exactly one outcome;
//! - once stopping, the end comes by the end of the grace period, if ticks are delivered.

mod deadline;

use std::collections::BTreeMap;

use super::budget::{Budget, Turns};
use super::event::{Action, End, Event};
use super::part::{Part, Status};
use super::state::{Cause, ComponentId, Exit, Moment, Outcome, Phase, Role, StopSignal, Time};
use super::terms::{Terms, demand};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum State {
    Starting,
    Running,
    Announce,
    Drain,
    /// Cancelled work is coming to its end.
    CancelWork,
    /// The cleanup hooks run.
    CancelHooks,
    /// Work the cleanup started is coming to its end.
    CancelSeal,
    Release,
    Save,
    Ended,
}

/// The life cycle of one service.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Machine {
    terms: Terms,
    state: State,
    parts: BTreeMap<ComponentId, Part>,
    setup_running: bool,
    budget: Budget,
    turns: Turns,
    lame_until: Time,
    drain_began: Time,
    watching: bool,
    idle: bool,
    sealing: bool,
    sealed: bool,
    failed: bool,
    misused: bool,
    cut: bool,
    second_signal: Option<StopSignal>,
    wake: Option<Time>,
    /// In this step: the tick that was asked for should have come before.
    overslept: bool,
}

impl Machine {
    /// A machine whose `setup` is about to run.
    #[must_use]
    pub fn new(terms: Terms) -> Self {
        Self {
            terms,
            state: State::Starting,
            parts: BTreeMap::new(),
            setup_running: true,
            budget: Budget::divide(Time::ZERO, terms.grace, demand(terms, std::iter::empty())),
            turns: Turns::default(),
            lame_until: Time::ZERO,
            drain_began: Time::ZERO,
            watching: false,
            idle: false,
            sealing: false,
            sealed: false,
            failed: false,
            misused: false,
            cut: false,
            second_signal: None,
            wake: None,
            overslept: false,
        }
    }

    /// Takes an event at a time that never goes back; says what to do.
    pub fn step(&mut self, event: Event, now: Time) -> Vec<Action> {
        let mut todo = Vec::new();
        if self.state != State::Ended {
            self.overslept = self.wake.is_some_and(|at| at < now);
            self.take(event, now, &mut todo);
            while self.advance(now, &mut todo) {}
            self.overslept = false;
            self.ask_for_tick(&mut todo);
        }
        todo
    }

    /// Whether the end was reached.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.state == State::Ended
    }

    /// The end of the grace period; meaningful once stopping.
    #[must_use]
    pub const fn end(&self) -> Time {
        self.budget.end()
    }

    fn take(&mut self, event: Event, now: Time, todo: &mut Vec<Action>) {
        match event {
            Event::Registered(id, role, limit) => {
                self.parts.entry(id).or_insert(Part::new(role, limit));
                if role == Role::Work {
                    self.idle = false;
                }
            }
            Event::Opened(id) => {
                if let Some(part) = self
                    .parts
                    .get_mut(&id)
                    .filter(|part| part.status == Status::Opening)
                {
                    part.status = Status::Live;
                }
            }
            Event::Ended(id, end) => self.part_ended(id, end, todo),
            Event::SetupEnded(end) => self.setup_ended(end, now, todo),
            Event::Stop(cause) => self.begin(cause, now, todo),
            Event::Within(left) => self.bound(now, left),
            Event::Hurry(signal) => {
                self.begin(Cause::Signal(signal), now, todo);
                if self.second_signal.is_none() {
                    self.second_signal = Some(signal);
                    self.hurry(now);
                }
            }
            Event::Kill => {
                // Nothing that is open may look closed: the rest of the report says where the end came.
                self.cut |= self.parts.values().any(|part| part.is_live(Role::Work));
                self.finish(Outcome::Abandoned, todo);
            }
            Event::Idle => self.idle = true,
            Event::Sealed { cut, failed } => {
                self.sealed = true;
                self.cut |= cut;
                self.failed |= failed;
            }
            Event::Tick => self.wake = None,
        }
    }

    fn part_ended(&mut self, id: ComponentId, end: End, todo: &mut Vec<Action>) {
        let Some(part) = self.parts.get(&id) else {
            return;
        };
        let Some(outcome) = part.outcome(end) else {
            return;
        };
        // An opening that was given up for the stop does not count as work cut short.
        self.cut |= outcome == Outcome::Cancelled && part.status != Status::Opening;
        self.failed |= outcome == Outcome::Failed;
        self.settle(id, outcome, todo);
    }

    fn setup_ended(&mut self, end: End, now: Time, todo: &mut Vec<Action>) {
        self.setup_running = false;
        if matches!(self.state, State::Drain | State::CancelWork) {
            // Work that it had registered may have come alive after the answer.
            self.ask_whether_idle(todo);
        }
        match end {
            End::Done if self.state == State::Starting => {
                self.state = State::Running;
                todo.push(Action::Ready);
            }
            End::Done | End::Cancelled => {}
            End::Failed => self.failed = true,
            End::Misused => self.misused = true,
        }
        if self.state == State::Starting {
            self.begin(Cause::Setup, now, todo);
        }
    }

    /// The first request counts; the others change nothing.
    fn begin(&mut self, cause: Cause, now: Time, todo: &mut Vec<Action>) {
        if self.state > State::Running {
            return;
        }
        // Without readiness no load balancer has sent clients here, so none needs time to send them elsewhere.
        let was_ready = self.state == State::Running;
        let mut demand = demand(self.terms, self.parts.values().map(|part| part.role));
        // Nor if another process serves them already, or all work here has ended.
        if !was_ready || matches!(cause, Cause::HandedOver(_)) || self.all_work_ended() {
            demand.lame_duck = Time::ZERO;
        }
        // What setup still opens before it is cancelled has to be closed as well.
        demand.resources |= self.setup_running;
        self.budget = Budget::divide(now, self.terms.grace, demand);
        self.lame_until = (now + demand.lame_duck).min(self.budget.limit(Phase::Announce));
        self.state = State::Announce;
        todo.push(Action::Begin(cause));
        if self.setup_running {
            todo.push(Action::CancelSetup);
        }
        self.enter(Phase::Announce, now, self.waiting(Moment::Shutdown), todo);
    }

    /// Moves one step if knowledge and time allow; says whether it did.
    fn advance(&mut self, now: Time, todo: &mut Vec<Action>) -> bool {
        match self.state {
            State::Starting | State::Ended => false,
            State::Running => self.stop_when_all_ended(now, todo),
            State::Announce => {
                self.take_turns(Role::Hook(Moment::Shutdown), now, todo) || {
                    let over = self.closing().is_none()
                        && (now >= self.lame_until
                            || self.second_signal.is_some()
                            || self.all_work_ended());
                    if over {
                        self.state = State::Drain;
                        self.drain_began = now;
                        self.enter(Phase::Drain, now, 1, todo);
                        todo.push(Action::RequestStop(self.budget.limit(Phase::Drain)));
                        // Also if it was asked before: hooks, or others, may have started work since.
                        self.ask_whether_idle(todo);
                    }
                    over
                }
            }
            State::Drain => self.drain(now, todo),
            State::CancelWork => {
                let over =
                    self.is_drained() || now >= self.turns.deadline(self.waiting(Moment::Cleanup));
                if over {
                    if !self.is_drained() {
                        self.abandon_work(Action::AbandonWork, todo);
                    }
                    self.state = State::CancelHooks;
                }
                over
            }
            State::CancelHooks => {
                self.take_turns(Role::Hook(Moment::Cleanup), now, todo) || {
                    let over = self.closing().is_none();
                    if over {
                        self.state = State::CancelSeal;
                        todo.push(Action::SealWhenIdle);
                    }
                    over
                }
            }
            State::CancelSeal => {
                if self.sealed {
                    self.state = State::Release;
                    self.enter(Phase::Release, now, self.open_resources(), todo);
                } else if now >= self.budget.limit(Phase::Cancel) && !self.sealing {
                    // The answer is an `Event::Sealed`, which says what was abandoned besides parts.
                    self.sealing = true;
                    self.abandon_work(Action::Seal, todo);
                }
                self.sealed
            }
            State::Release => {
                self.take_turns(Role::Resource, now, todo) || {
                    let over = self.closing().is_none();
                    if over {
                        self.state = State::Save;
                        self.enter(Phase::Save, now, self.waiting(Moment::Exit), todo);
                    }
                    over
                }
            }
            State::Save => {
                self.take_turns(Role::Hook(Moment::Exit), now, todo) || {
                    let over = self.closing().is_none();
                    if over {
                        self.finish(Outcome::NotReached, todo);
                    }
                    over
                }
            }
        }
    }

    fn stop_when_all_ended(&mut self, now: Time, todo: &mut Vec<Action>) -> bool {
        if self.all_work_ended() {
            // What a task started may outlive it; the service ends with the last of them.
            if !self.watching {
                self.ask_whether_idle(todo);
            }
            if self.idle {
                self.begin(Cause::AllTasksEnded, now, todo);
            }
        }
        self.state != State::Running
    }

    /// There was work, and each part of it has its outcome. What it started may go on.
    fn all_work_ended(&self) -> bool {
        let mut work = self
            .parts
            .values()
            .filter(|part| part.role == Role::Work)
            .peekable();
        work.peek().is_some() && work.all(|part| matches!(part.status, Status::Settled(_)))
    }

    fn drain(&mut self, now: Time, todo: &mut Vec<Action>) -> bool {
        if self.is_drained() {
            self.state = State::CancelHooks;
            self.enter(Phase::Cancel, now, self.waiting(Moment::Cleanup), todo);
            return true;
        }
        if now >= self.budget.limit(Phase::Drain) {
            self.state = State::CancelWork;
            self.enter(Phase::Cancel, now, self.waiting(Moment::Cleanup) + 1, todo);
            todo.push(Action::CancelWork);
            return true;
        }
        for (id, part) in &mut self.parts {
            let due = part
                .limit
                .is_some_and(|limit| now >= self.drain_began + limit);
            if part.is_live(Role::Work) && due && !part.told {
                part.told = true;
                todo.push(Action::CancelPart(*id));
            }
        }
        false
    }

    /// Gives the next part of this role its turn, or ends the turn of one whose time is up.
    fn take_turns(&mut self, role: Role, now: Time, todo: &mut Vec<Action>) -> bool {
        if let Some((id, by)) = self.closing() {
            if now < by {
                return false;
            }
            todo.push(Action::GiveUp(id));
            self.cut = true;
            self.settle(id, Outcome::Abandoned, todo);
            return true;
        }
        let mut waiting = self
            .parts
            .iter()
            .filter(|(_, part)| part.is_live(role))
            .map(|(id, _)| *id);
        // Last opened, first closed; hooks in the order of registration.
        let next = if role == Role::Resource {
            waiting.next_back()
        } else {
            waiting.next()
        };
        let Some(id) = next else { return false };
        let after = waiting.count();
        if let Some(part) = self.parts.get_mut(&id) {
            if self.turns.deadline(after) <= now {
                // More are waiting than were foreseen, or a tick came late.
                self.budget = self.budget.overrun(role.phase(), now, self.overslept);
                self.turns = self.budget.turns(role.phase(), now, after + 1);
            }
            let by = self.turns.deadline(after);
            let by = part.limit.map_or(by, |limit| by.min(now + limit));
            part.status = Status::Closing(by);
            todo.push(Action::Close(id, by));
        }
        true
    }

    fn enter(&mut self, phase: Phase, now: Time, parts: usize, todo: &mut Vec<Action>) {
        self.budget = self.budget.entered(phase, now);
        self.turns = self.budget.turns(phase, now, parts);
        todo.push(Action::Enter(phase, self.budget.limit(phase)));
    }

    /// Forgets the answer that was given before, if any: work may have come since.
    fn ask_whether_idle(&mut self, todo: &mut Vec<Action>) {
        self.watching = true;
        self.idle = false;
        todo.push(Action::WatchIdle);
    }

    fn is_drained(&self) -> bool {
        self.idle && !self.setup_running
    }

    /// Work that is not a part, except for `setup`, is reported by `Event::Sealed`.
    fn abandon_work(&mut self, order: Action, todo: &mut Vec<Action>) {
        todo.push(order);
        let alive: Vec<_> = self.live(Role::Work).collect();
        self.cut |= self.setup_running || !alive.is_empty();
        self.setup_running = false;
        for id in alive {
            self.settle(id, Outcome::Abandoned, todo);
        }
    }

    fn settle(&mut self, id: ComponentId, outcome: Outcome, todo: &mut Vec<Action>) {
        if let Some(part) = self.parts.get_mut(&id) {
            part.status = Status::Settled(outcome);
            todo.push(Action::Settled(id, outcome));
        }
    }

    /// The end. Whatever has no outcome yet gets one: `interrupted` if it was at it, else not reached.
    fn finish(&mut self, interrupted: Outcome, todo: &mut Vec<Action>) {
        let open: Vec<_> = self
            .parts
            .iter()
            .filter_map(|(id, part)| match (part.role, part.status) {
                (_, Status::Settled(_)) => None,
                (Role::Work, _) | (_, Status::Closing(_)) => Some((*id, interrupted)),
                _ => Some((*id, Outcome::NotReached)),
            })
            .collect();
        for (id, outcome) in open {
            self.settle(id, outcome, todo);
        }
        self.state = State::Ended;
        todo.push(Action::End(self.exit()));
    }

    fn exit(&self) -> Exit {
        match self.second_signal {
            Some(signal) => Exit::Signal(signal.number()),
            None if self.cut => Exit::Cut,
            None if self.misused => Exit::Usage,
            None if self.failed => Exit::Failed,
            None => Exit::Clean,
        }
    }

    fn live(&self, role: Role) -> impl Iterator<Item = ComponentId> + '_ {
        self.parts
            .iter()
            .filter(move |(_, part)| part.is_live(role))
            .map(|(id, _)| *id)
    }

    /// How many hooks of this moment are waiting for their turn.
    fn waiting(&self, moment: Moment) -> usize {
        self.live(Role::Hook(moment)).count()
    }

    fn open_resources(&self) -> usize {
        self.live(Role::Resource).count()
    }

    /// The part whose turn it is, and until when.
    fn closing(&self) -> Option<(ComponentId, Time)> {
        self.parts.iter().find_map(|(id, part)| match part.status {
            Status::Closing(by) => Some((*id, by)),
            _ => None,
        })
    }

    /// Asks to be woken for the next thing that only time can bring.
    fn ask_for_tick(&mut self, todo: &mut Vec<Action>) {
        let next = match self.state {
            State::Starting | State::Running | State::Ended => None,
            State::Announce => self.closing().map(|(_, by)| by).or(Some(self.lame_until)),
            State::Drain => self
                .parts
                .values()
                .filter(|part| part.is_live(Role::Work) && !part.told)
                .filter_map(|part| part.limit.map(|limit| self.drain_began + limit))
                .chain([self.budget.limit(Phase::Drain)])
                .min(),
            State::CancelWork => Some(self.turns.deadline(self.waiting(Moment::Cleanup))),
            // The answer to `Action::Seal` does not depend on a user's code, so no time is set for it.
            State::CancelSeal => (!self.sealing).then(|| self.budget.limit(Phase::Cancel)),
            State::CancelHooks | State::Release | State::Save => self.closing().map(|(_, by)| by),
        };
        if next != self.wake {
            self.wake = next;
            todo.extend(next.map(Action::Wake));
        }
    }
}
