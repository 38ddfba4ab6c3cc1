//! What the machine lives in: the conductor, the roster, `setup`, work, closes, signals and the clock, each
//! of which may do its next small step at any moment, or never.

use std::sync::Arc;
use std::time::Duration;

use adieu_lifecycle::{
    Action, Cause, ComponentId, End, Event, Machine, Role, StopSignal, Terms, Time,
};

use crate::ahead;
use crate::auditor::{Auditor, Facts, Promise};
use crate::roster::{Left, Life, Roster};

/// A service, and how much may happen to it.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) terms: Terms,
    /// In the order in which `setup` registers them, with their own limits.
    pub(crate) parts: Vec<(Role, Option<Duration>)>,
    /// Work that is not a component of its own, started at any time.
    pub(crate) children: usize,
    /// How often something may happen half-way to the next wake-up.
    pub(crate) pauses: u8,
    /// How often a tick may come far too late.
    pub(crate) oversleeps: u8,
    /// How often the platform may say that it ends the process sooner than the grace period does.
    pub(crate) bounds: u8,
    /// Whether `setup` may go on although it was cancelled, as code between two awaits does.
    pub(crate) stubborn: bool,
    /// Whether there may be a second and a third signal.
    pub(crate) signals: bool,
    /// Whether anything may fail.
    pub(crate) failures: bool,
}

impl Scenario {
    /// How user code may end by itself.
    fn ends(&self) -> &'static [End] {
        if self.failures {
            &[End::Done, End::Failed]
        } else {
            &[End::Done]
        }
    }
}

/// Something that may happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Move {
    /// `setup` registers its next part.
    Register,
    /// The work that `setup` has just registered comes onto the roster.
    Launch,
    Open,
    OpenFails,
    SetupEnds(End),
    /// A part's work ends by itself or because it was cancelled.
    Leave(usize, End),
    Uncount(usize),
    ChildCounts(usize),
    ChildLists(usize),
    ChildLeaves(usize, End),
    ChildUncounts(usize),
    /// A close or a hook ends, perhaps after it was given up.
    Finish(usize, End),
    /// What the one who found the roster empty has to say arrives.
    Tell(usize),
    Stop,
    Hurry,
    Kill,
    /// The platform says how long is left.
    Bound,
    Pause,
    /// A tick half-way to the time it was asked for.
    WakeEarly,
    Wake,
    Oversleep,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Setup {
    /// Between two parts, at an await.
    Next(usize),
    Launching(usize),
    Opening(usize),
    Over,
}

/// What a close or a hook is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Closing {
    No,
    Runs,
    GivenUp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Urgency {
    Calm,
    Stopping,
    Hurried,
    Killed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) auditor: Auditor,
    machine: Machine,
    pub(crate) now: Time,
    pub(crate) wake: Option<Time>,
    setup: Setup,
    setup_cancelled: bool,
    work: Vec<Life>,
    entered: Vec<ComponentId>,
    closing: Vec<Closing>,
    cancelled: Vec<bool>,
    children: Vec<Life>,
    /// Whether each child is cleanup: started when work was being cancelled, so that it is spared.
    spared: Vec<bool>,
    cancelling: bool,
    roster: Roster,
    cut: bool,
    failed: bool,
    told: Vec<Event>,
    urgency: Urgency,
    pauses: u8,
    oversleeps: u8,
    bounds: u8,
}

fn id(part: usize) -> ComponentId {
    ComponentId(u32::try_from(part).unwrap_or(u32::MAX))
}

impl World {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let parts = scenario.parts.len();
        Self {
            auditor: Auditor::new(scenario.terms),
            machine: Machine::new(scenario.terms),
            now: Duration::from_secs(1),
            wake: None,
            setup: Setup::Next(0),
            setup_cancelled: false,
            work: vec![Life::Unborn; parts],
            entered: Vec::new(),
            closing: vec![Closing::No; parts],
            cancelled: vec![false; parts],
            children: vec![Life::Unborn; scenario.children],
            spared: vec![false; scenario.children],
            cancelling: false,
            roster: Roster::default(),
            cut: false,
            failed: false,
            told: Vec::new(),
            urgency: Urgency::Calm,
            pauses: scenario.pauses,
            oversleeps: scenario.oversleeps,
            bounds: scenario.bounds,
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.machine.has_ended()
    }

    /// Everything that may happen next.
    pub(crate) fn moves(&self, scenario: &Scenario) -> Vec<Move> {
        if self.has_ended() {
            return Vec::new();
        }
        let mut moves = self.certain_moves();
        self.setup_moves(scenario, &mut moves);
        for (part, life) in self.work.iter().enumerate().filter(|(_, life)| life.runs()) {
            moves.extend(scenario.ends().iter().map(|&end| Move::Leave(part, end)));
            // Abandoned work may also be dropped with its runtime.
            if self.cancelling || self.cancelled[part] || *life == Life::Abandoned {
                moves.push(Move::Leave(part, End::Cancelled));
            }
        }
        for (child, life) in self.children.iter().enumerate() {
            match life {
                Life::Unborn if !self.roster.refuses() => moves.push(Move::ChildCounts(child)),
                Life::Listed | Life::Abandoned => {
                    moves.extend(
                        scenario
                            .ends()
                            .iter()
                            .map(|&end| Move::ChildLeaves(child, end)),
                    );
                    if self.cancelling && !self.spared[child] {
                        moves.push(Move::ChildLeaves(child, End::Cancelled));
                    }
                }
                _ => {}
            }
        }
        for (part, closing) in self.closing.iter().enumerate() {
            match closing {
                Closing::No => {}
                Closing::Runs => {
                    moves.extend(scenario.ends().iter().map(|&end| Move::Finish(part, end)));
                }
                Closing::GivenUp => moves.push(Move::Finish(part, End::Cancelled)),
            }
        }
        match self.urgency {
            Urgency::Calm => moves.push(Move::Stop),
            Urgency::Stopping if scenario.signals => moves.push(Move::Hurry),
            Urgency::Hurried => moves.push(Move::Kill),
            Urgency::Stopping | Urgency::Killed => {}
        }
        moves.extend((self.bounds > 0).then_some(Move::Bound));
        if self.wake.is_some_and(|at| at > self.now) {
            if self.pauses > 0 {
                moves.extend([Move::Pause, Move::WakeEarly]);
            }
            moves.extend((self.oversleeps > 0).then_some(Move::Oversleep));
        }
        moves
    }

    /// What happens sooner or later even if all code of the user hangs: our own few instructions, and time.
    pub(crate) fn certain_moves(&self) -> Vec<Move> {
        let mut moves: Vec<_> = (0..self.told.len()).map(Move::Tell).collect();
        let at = |lives: &[Life], wanted: Life| -> Vec<usize> {
            (0..lives.len())
                .filter(|&number| lives[number] == wanted)
                .collect()
        };
        moves.extend(at(&self.work, Life::Leaving).into_iter().map(Move::Uncount));
        moves.extend(
            at(&self.children, Life::Counted)
                .into_iter()
                .map(Move::ChildLists),
        );
        moves.extend(
            at(&self.children, Life::Leaving)
                .into_iter()
                .map(Move::ChildUncounts),
        );
        if matches!(self.setup, Setup::Launching(_)) {
            moves.push(Move::Launch);
        }
        moves.extend(self.wake.map(|_| Move::Wake));
        moves
    }

    fn setup_moves(&self, scenario: &Scenario, moves: &mut Vec<Move>) {
        let at_await = matches!(self.setup, Setup::Next(_) | Setup::Opening(_));
        if self.setup_cancelled && at_await {
            moves.push(Move::SetupEnds(End::Cancelled));
        }
        if self.setup_cancelled && !scenario.stubborn {
            return;
        }
        match self.setup {
            Setup::Next(part) if part < scenario.parts.len() => moves.push(Move::Register),
            Setup::Next(_) => {
                moves.extend(scenario.ends().iter().map(|&end| Move::SetupEnds(end)));
                moves.extend(scenario.failures.then_some(Move::SetupEnds(End::Misused)));
            }
            Setup::Opening(_) => {
                moves.push(Move::Open);
                moves.extend(scenario.failures.then_some(Move::OpenFails));
            }
            Setup::Launching(_) | Setup::Over => {}
        }
    }

    pub(crate) fn apply(&mut self, scenario: &Scenario, next: Move) {
        match next {
            Move::Register => self.register(scenario),
            Move::Launch => self.launch(),
            Move::Open => self.opened(true),
            Move::OpenFails => self.opened(false),
            Move::SetupEnds(end) => {
                let opening = match self.setup {
                    Setup::Opening(part) => Some(part),
                    _ => None,
                };
                self.setup = Setup::Over;
                if let Some(part) = opening {
                    self.step(Event::Ended(id(part), End::Cancelled));
                }
                self.step(Event::SetupEnded(end));
            }
            Move::Leave(part, end) => {
                let abandoned = self.work[part] == Life::Abandoned;
                self.work[part] = if abandoned { Life::Gone } else { Life::Leaving };
                self.step(Event::Ended(id(part), end));
            }
            Move::Uncount(part) => {
                self.work[part] = Life::Gone;
                let left = self.roster.uncount();
                self.left(left);
            }
            Move::ChildCounts(child) => {
                self.spared[child] = self.cancelling;
                let entered = self.roster.enter();
                self.children[child] = if entered { Life::Counted } else { Life::Gone };
            }
            // A task that finds the roster closed after coming onto it may have been overlooked, and goes.
            Move::ChildLists(child) if self.roster.is_closed() => {
                self.children[child] = Life::Leaving
            }
            Move::ChildLists(child) => self.children[child] = Life::Listed,
            Move::ChildLeaves(child, end) => {
                let abandoned = self.children[child] == Life::Abandoned;
                self.children[child] = if abandoned { Life::Gone } else { Life::Leaving };
                self.cut |= end == End::Cancelled;
                self.failed |= end == End::Failed;
            }
            Move::ChildUncounts(child) => {
                self.children[child] = Life::Gone;
                let left = self.roster.uncount();
                self.left(left);
            }
            Move::Finish(part, end) => {
                self.closing[part] = Closing::No;
                self.step(Event::Ended(id(part), end));
            }
            Move::Tell(number) => {
                let event = self.told.remove(number);
                // Said late by a slow task; a task that came meanwhile will say it again.
                let stale = event == Event::Idle && self.roster.count > 0;
                if !stale {
                    self.step(event);
                }
            }
            Move::Stop => {
                self.urgency = Urgency::Stopping;
                self.step(Event::Stop(Cause::Requested(Arc::from("test"))));
            }
            Move::Hurry => {
                self.urgency = Urgency::Hurried;
                let calm = self.clone();
                self.step(Event::Hurry(StopSignal::Interrupt));
                ahead::compare(scenario, calm, self);
            }
            Move::Kill => {
                self.urgency = Urgency::Killed;
                self.step(Event::Kill);
            }
            Move::Bound => {
                self.bounds -= 1;
                let free = self.clone();
                self.step(Event::Within(scenario.terms.grace / 4));
                ahead::compare(scenario, free, self);
            }
            Move::Pause => self.pause(),
            Move::WakeEarly => {
                self.pause();
                self.wake = None;
                self.step(Event::Tick);
            }
            Move::Wake => self.tick(Duration::ZERO),
            Move::Oversleep => {
                self.oversleeps -= 1;
                self.auditor.overslept = true;
                self.tick(scenario.terms.grace / 3);
            }
        }
    }

    fn pause(&mut self) {
        self.pauses -= 1;
        let left = self.wake.unwrap_or(self.now).saturating_sub(self.now);
        self.now += left / 2;
    }

    fn tick(&mut self, late: Duration) {
        self.now = self.now.max(self.wake.unwrap_or(self.now)) + late;
        self.wake = None;
        self.step(Event::Tick);
    }

    fn register(&mut self, scenario: &Scenario) {
        let Setup::Next(part) = self.setup else {
            return;
        };
        let (role, limit) = scenario.parts[part];
        self.setup = match role {
            Role::Work => Setup::Launching(part),
            Role::Resource => Setup::Opening(part),
            Role::Hook(_) => Setup::Next(part + 1),
        };
        self.step(Event::Registered(id(part), role, limit));
    }

    fn launch(&mut self) {
        let Setup::Launching(part) = self.setup else {
            return;
        };
        self.setup = Setup::Next(part + 1);
        if self.roster.enter() {
            self.work[part] = Life::Listed;
            self.entered.push(id(part));
        }
    }

    fn opened(&mut self, well: bool) {
        let Setup::Opening(part) = self.setup else {
            return;
        };
        self.setup = Setup::Next(part + 1);
        self.step(match well {
            true => Event::Opened(id(part)),
            false => Event::Ended(id(part), End::Failed),
        });
    }

    fn left(&mut self, left: Left) {
        match left {
            Left::Unremarkable => {}
            Left::Idle => self.told.push(Event::Idle),
            Left::Sealed => self.told.push(Event::Sealed {
                cut: self.cut,
                failed: self.failed,
            }),
        }
    }

    /// The machine takes an event, and what it says is done.
    pub(crate) fn step(&mut self, event: Event) {
        self.auditor.hear(&event, self.now);
        let actions = self.machine.step(event, self.now);
        for (number, action) in actions.iter().enumerate() {
            let facts = Facts {
                now: self.now,
                alive: self.roster.count,
                refuses: self.roster.refuses(),
                entered: self.entered.clone(),
            };
            self.auditor.see(action, &actions[number + 1..], &facts);
            self.perform(action);
        }
        self.auditor.after_step(self.now, self.wake);
        if self.has_ended() {
            let mut machine = self.machine.clone();
            let more = [
                Event::Tick,
                Event::Kill,
                Event::Hurry(StopSignal::Terminate),
            ]
            .into_iter()
            .flat_map(|event| machine.step(event, self.now))
            .next();
            self.auditor.insist(Promise::OneEnd, more.is_none(), || {
                format!("{more:?} after the end")
            });
        }
    }

    fn perform(&mut self, action: &Action) {
        match action {
            Action::Begin(_) => self.urgency = self.urgency.max(Urgency::Stopping),
            Action::CancelSetup => self.setup_cancelled = true,
            Action::WatchIdle => {
                let left = self.roster.watch();
                self.left(left);
            }
            Action::CancelPart(part) => self.cancelled[part.0 as usize] = true,
            Action::CancelWork => self.cancelling = true,
            Action::AbandonWork => self.abandon(),
            Action::SealWhenIdle => {
                let left = self.roster.seal_when_idle();
                self.left(left);
            }
            Action::Seal => {
                self.roster.close();
                self.abandon();
                let left = self.roster.seal_when_idle();
                self.left(left);
            }
            Action::Close(part, _) => self.closing[part.0 as usize] = Closing::Runs,
            Action::GiveUp(part) => self.closing[part.0 as usize] = Closing::GivenUp,
            Action::Wake(at) => self.wake = Some(*at),
            Action::Ready
            | Action::Enter(..)
            | Action::RequestStop(_)
            | Action::Settled(..)
            | Action::End(_) => {}
        }
    }

    fn abandon(&mut self) {
        self.cut |= self.children.contains(&Life::Listed);
        for life in self.work.iter_mut().chain(&mut self.children) {
            if *life == Life::Listed {
                *life = Life::Abandoned;
                self.roster.count -= 1;
            }
        }
    }
}
