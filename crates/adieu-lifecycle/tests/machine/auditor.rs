//! The promises of the machine, and who watches that each step keeps them.
//!
//! The auditor keeps books of its own from what it sees go in and come out; it never looks into the machine.

use std::collections::BTreeMap;
use std::time::Duration;

use adieu_lifecycle::{
    Action, ComponentId, End, Event, Exit, Moment, Outcome, Phase, Role, StopSignal, Terms, Time,
};

/// What must hold in any order of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Promise {
    PhasesMoveForward,
    ClosedOnce,
    ClosedInItsPhase,
    UsersFirst,
    LastOpenedFirst,
    NobodyOverlooked,
    CancelledBeforeAbandoned,
    OneOutcome,
    OutcomeIsTrue,
    OwnLimitHolds,
    OneEnd,
    ExitFits,
    WakeIsAsked,
    InTime,
    TurnForAll,
    HurryIsSooner,
}

/// What the books say of one part.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Record {
    role: Role,
    limit: Option<Duration>,
    /// Registered when the stop had begun, or opened when others were closing already: by a `setup` that
    /// does not listen.
    late: bool,
    opened: bool,
    close_by: Option<Time>,
    given_up: bool,
    told_to_cancel: bool,
    heard: Option<End>,
    outcome: Option<Outcome>,
}

/// What only the world around the machine knows, at the moment of an action.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) now: Time,
    /// Work that is alive and waited for.
    pub(crate) alive: usize,
    /// No work can be started any more.
    pub(crate) refuses: bool,
    /// Parts that ever came to run.
    pub(crate) entered: Vec<ComponentId>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Auditor {
    terms: Terms,
    parts: BTreeMap<ComponentId, Record>,
    phase: Option<(Phase, Time)>,
    begun: Option<Time>,
    drain_began: Time,
    setup_ended: bool,
    cancel_told: bool,
    seal_told: bool,
    sealed: bool,
    hurried: Option<(Time, StopSignal)>,
    /// When the platform ends the process.
    bound: Time,
    killed: bool,
    /// A tick came later than it was asked for: no time can be promised any more, but a turn for all.
    pub(crate) overslept: bool,
    failed: bool,
    misused: bool,
    cut: bool,
    ended: Option<Exit>,
    pub(crate) breaches: BTreeMap<Promise, String>,
}

impl Auditor {
    pub(crate) fn new(terms: Terms) -> Self {
        Self {
            terms,
            parts: BTreeMap::new(),
            phase: None,
            begun: None,
            drain_began: Time::ZERO,
            setup_ended: false,
            cancel_told: false,
            seal_told: false,
            sealed: false,
            hurried: None,
            bound: Time::MAX,
            killed: false,
            overslept: false,
            failed: false,
            misused: false,
            cut: false,
            ended: None,
            breaches: BTreeMap::new(),
        }
    }

    pub(crate) fn exit(&self) -> Option<Exit> {
        self.ended
    }

    pub(crate) fn begun(&self) -> bool {
        self.begun.is_some()
    }

    pub(crate) fn phase(&self) -> Option<Phase> {
        self.phase.map(|(phase, _)| phase)
    }

    pub(crate) fn outcome(&self, id: ComponentId) -> Option<Outcome> {
        self.parts.get(&id)?.outcome
    }

    /// The outcomes so far.
    pub(crate) fn outcomes(&self) -> impl Iterator<Item = Outcome> + '_ {
        self.parts.values().filter_map(|part| part.outcome)
    }

    pub(crate) fn insist(&mut self, promise: Promise, holds: bool, why: impl FnOnce() -> String) {
        if !holds {
            self.breaches.entry(promise).or_insert_with(why);
        }
    }

    /// The last moment that any deadline may name.
    fn end_of_time(&self) -> Time {
        let Some(begun) = self.begun else {
            return Time::MAX;
        };
        let grace = (begun + self.terms.grace).min(self.bound);
        self.hurried
            .map_or(grace, |(at, _)| grace.min(at + self.terms.hurry))
    }

    /// Before the machine takes an event.
    pub(crate) fn hear(&mut self, event: &Event, now: Time) {
        if self.ended.is_some() {
            return;
        }
        match event {
            Event::Registered(id, role, limit) => {
                let record = Record {
                    role: *role,
                    limit: *limit,
                    late: self.begun(),
                    opened: false,
                    close_by: None,
                    given_up: false,
                    told_to_cancel: false,
                    heard: None,
                    outcome: None,
                };
                self.parts.insert(*id, record);
            }
            Event::Opened(id) => {
                let releasing = self.phase() >= Some(Phase::Release);
                self.change(*id, |part| {
                    part.opened = true;
                    part.late |= releasing;
                });
            }
            Event::Ended(id, end) => self.change(*id, |part| {
                part.heard.get_or_insert(*end);
            }),
            Event::SetupEnded(end) => {
                self.setup_ended = true;
                self.failed |= *end == End::Failed;
                self.misused |= *end == End::Misused;
            }
            Event::Hurry(signal) => {
                self.hurried.get_or_insert((now, *signal));
            }
            Event::Kill => self.killed = true,
            Event::Sealed { cut, failed } => {
                self.sealed = true;
                self.cut |= cut;
                self.failed |= failed;
            }
            // The stop may begin at once or never: what counts is counted from when it was said.
            Event::Within(left) if self.begun() => self.bound = self.bound.min(now + *left),
            Event::Within(left) => self.terms.grace = self.terms.grace.min(*left),
            Event::Stop(_) | Event::Idle | Event::Tick => {}
        }
    }

    fn change(&mut self, id: ComponentId, change: impl FnOnce(&mut Record)) {
        if let Some(part) = self.parts.get_mut(&id) {
            change(part);
        }
    }

    /// One action, before it is done. `rest` are those that follow in the same step.
    pub(crate) fn see(&mut self, action: &Action, rest: &[Action], facts: &Facts) {
        self.insist(Promise::OneEnd, self.ended.is_none(), || {
            format!("{action:?} after the end")
        });
        match action {
            Action::Begin(_) => {
                self.insist(Promise::PhasesMoveForward, !self.begun(), || {
                    "begun twice".into()
                });
                self.begun = Some(facts.now);
            }
            Action::Enter(phase, limit) => self.see_phase(*phase, *limit, rest, facts),
            Action::CancelPart(id) => self.see_own_limit(*id, facts.now),
            Action::CancelWork => self.cancel_told = true,
            Action::AbandonWork => {
                // A setup that would not be cancelled is work that was cut, without being a part.
                self.cut |= !self.setup_ended;
                self.setup_ended = true;
            }
            Action::Seal => self.seal_told = true,
            Action::Close(id, by) => self.see_close(*id, *by, facts),
            Action::GiveUp(id) => self.change(*id, |part| part.given_up = true),
            Action::Settled(id, outcome) => self.see_outcome(*id, *outcome, facts),
            Action::Wake(at) => {
                let end = self.end_of_time();
                self.insist(Promise::InTime, *at <= end || self.overslept, || {
                    format!("to be woken at {at:?}, after {end:?}")
                });
            }
            Action::End(exit) => self.see_end(*exit),
            Action::Ready
            | Action::CancelSetup
            | Action::RequestStop(_)
            | Action::WatchIdle
            | Action::SealWhenIdle => {}
        }
    }

    fn see_phase(&mut self, phase: Phase, limit: Time, rest: &[Action], facts: &Facts) {
        let next = self.phase().map_or(0, |before| before as usize + 1);
        self.insist(
            Promise::PhasesMoveForward,
            self.begun() && phase as usize == next,
            || format!("{phase} is not next"),
        );
        self.phase = Some((phase, limit));
        let end = self.end_of_time();
        self.insist(Promise::InTime, limit <= end || self.overslept, || {
            format!("{phase} until {limit:?}, after {end:?}")
        });
        let has_slice = match phase {
            Phase::Announce | Phase::Drain => false,
            Phase::Cancel | Phase::Save => true,
            Phase::Release => self
                .parts
                .values()
                .any(|part| part.role == Role::Resource && part.opened),
        };
        self.insist(Promise::TurnForAll, !has_slice || limit > facts.now, || {
            format!("no time left for {phase}")
        });
        match phase {
            Phase::Drain => self.drain_began = facts.now,
            Phase::Cancel => {
                // Without a cancellation there must be no task to cancel.
                let drained = facts.alive == 0;
                self.insist(
                    Promise::NobodyOverlooked,
                    drained || rest.contains(&Action::CancelWork),
                    || format!("{} alive when the drain was called over", facts.alive),
                );
            }
            Phase::Release => {
                let (sealed, alone) = (self.sealed, facts.refuses && facts.alive == 0);
                self.insist(Promise::UsersFirst, sealed && alone, || {
                    "release with work that is, or may come, alive".into()
                });
            }
            Phase::Announce | Phase::Save => {}
        }
    }

    fn see_own_limit(&mut self, id: ComponentId, now: Time) {
        let due = self.parts.get(&id).is_some_and(|part| {
            let due = part
                .limit
                .is_some_and(|limit| now >= self.drain_began + limit);
            due && part.role == Role::Work && part.outcome.is_none() && !part.told_to_cancel
        });
        let in_drain = self.phase() == Some(Phase::Drain);
        self.insist(Promise::OwnLimitHolds, due && in_drain, || {
            format!("{id:?} cancelled before its time, or again")
        });
        self.change(id, |part| part.told_to_cancel = true);
    }

    fn see_close(&mut self, id: ComponentId, by: Time, facts: &Facts) {
        let Some(part) = self.parts.get(&id).cloned() else {
            return self.insist(Promise::ClosedInItsPhase, false, || {
                format!("{id:?} is unknown")
            });
        };
        let phase = match part.role {
            Role::Hook(Moment::Shutdown) => Some(Phase::Announce),
            Role::Hook(Moment::Cleanup) => Some(Phase::Cancel),
            Role::Resource if part.opened => Some(Phase::Release),
            Role::Hook(Moment::Exit) => Some(Phase::Save),
            Role::Resource | Role::Work => None,
        };
        let current = self.phase();
        self.insist(
            Promise::ClosedInItsPhase,
            phase.is_some() && phase == current,
            || format!("{id:?} in {current:?}"),
        );
        let first = part.close_by.is_none() && part.outcome.is_none();
        self.insist(Promise::ClosedOnce, first, || format!("{id:?} again"));

        let limit = self.phase.map_or(Time::ZERO, |(_, limit)| limit);
        let own = part.limit.map_or(Time::MAX, |limit| facts.now + limit);
        let latest = limit.min(own).min(self.end_of_time());
        self.insist(Promise::InTime, by <= latest || self.overslept, || {
            format!("{id:?} by {by:?}, after {latest:?}")
        });
        // After a second signal there are no announcements, and for a part that came late no time was kept.
        let may_be_skipped =
            part.late || (self.hurried.is_some() && phase == Some(Phase::Announce));
        self.insist(
            Promise::TurnForAll,
            by > facts.now || may_be_skipped,
            || format!("{id:?} has no time"),
        );

        if matches!(phase, Some(Phase::Cancel | Phase::Release)) {
            let user = self.parts.iter().find(|(user, record)| {
                let late = record.late && phase == Some(Phase::Cancel);
                facts.entered.contains(user) && record.outcome.is_none() && !late
            });
            let user = user.map(|(user, _)| *user);
            self.insist(Promise::UsersFirst, user.is_none(), || {
                format!("{user:?} has no outcome before {id:?}")
            });
        }
        let at_it = self
            .parts
            .values()
            .any(|other| other.close_by.is_some() && other.outcome.is_none());
        let later = self.parts.range(id..).skip(1).any(|(_, other)| {
            part.role == Role::Resource
                && other.role == Role::Resource
                && other.opened
                && other.outcome.is_none()
        });
        let earlier = self.parts.range(..id).any(|(_, other)| {
            part.role != Role::Resource && other.role == part.role && other.outcome.is_none()
        });
        self.insist(
            Promise::LastOpenedFirst,
            !at_it && !later && !earlier,
            || format!("{id:?} out of turn"),
        );
        self.change(id, |part| part.close_by = Some(by));
    }

    fn see_outcome(&mut self, id: ComponentId, outcome: Outcome, facts: &Facts) {
        let Some(part) = self.parts.get(&id).cloned() else {
            return self.insist(Promise::OneOutcome, false, || format!("{id:?} is unknown"));
        };
        self.insist(Promise::OneOutcome, part.outcome.is_none(), || {
            format!("{id:?}: {outcome} after {:?}", part.outcome)
        });
        let is_work = part.role == Role::Work;
        let is_true = match outcome {
            Outcome::Finished => part.role != Role::Resource && part.heard == Some(End::Done),
            Outcome::Closed => {
                part.role == Role::Resource
                    && part.close_by.is_some()
                    && part.heard == Some(End::Done)
            }
            Outcome::Cancelled => {
                part.heard == Some(End::Cancelled)
                    && (is_work || (part.role == Role::Resource && !part.opened))
            }
            Outcome::Failed => part.heard == Some(End::Failed),
            Outcome::Abandoned => {
                let is_due = part.close_by.is_some_and(|by| facts.now >= by);
                let is_squeezed = self.hurried.is_some() || self.bound < Time::MAX;
                let given_up = part.given_up && (is_due || is_squeezed);
                let killed = self.killed && part.close_by.is_some();
                // Registered but never let in: nothing to abandon, unless it was on its way in just then.
                let on_its_way = self.phase() == Some(Phase::Cancel) || self.killed;
                let worked = is_work && (facts.entered.contains(&id) || on_its_way);
                part.heard.is_none() && (worked || given_up || killed)
            }
            // Work that ran was reached, and so was a close that began.
            Outcome::NotReached => {
                let ran = facts.entered.contains(&id) || part.close_by.is_some();
                part.heard.is_none() && !ran
            }
        };
        self.insist(Promise::OutcomeIsTrue, is_true, || {
            format!("{id:?} {outcome}: {part:?}")
        });
        if is_work && outcome == Outcome::Abandoned {
            self.insist(
                Promise::CancelledBeforeAbandoned,
                self.cancel_told || self.killed,
                || format!("{id:?} was never cancelled"),
            );
        }
        self.cut |= outcome == Outcome::Abandoned || (is_work && outcome == Outcome::Cancelled);
        self.failed |= outcome == Outcome::Failed;
        self.change(id, |part| part.outcome = Some(outcome));
    }

    fn see_end(&mut self, exit: Exit) {
        let phase = self.phase();
        let is_last = phase == Some(Phase::Save);
        self.insist(Promise::PhasesMoveForward, is_last || self.killed, || {
            format!("the end came in {phase:?}")
        });
        let without: Vec<_> = self
            .parts
            .iter()
            .filter(|(_, part)| part.outcome.is_none())
            .map(|(id, _)| *id)
            .collect();
        self.insist(Promise::OneOutcome, without.is_empty(), || {
            format!("no outcome: {without:?}")
        });
        // The last that applies, in the order of the list.
        let expected = [
            Some(Exit::Clean),
            self.failed.then_some(Exit::Failed),
            self.misused.then_some(Exit::Usage),
            self.cut.then_some(Exit::Cut),
            self.hurried
                .map(|(_, signal)| Exit::Signal(signal.number())),
        ];
        let expected = expected.into_iter().flatten().next_back();
        self.insist(Promise::ExitFits, Some(exit) == expected, || {
            format!("{exit:?}, not {expected:?}")
        });
        self.ended = Some(exit);
    }

    /// After a step and all its actions.
    pub(crate) fn after_step(&mut self, now: Time, wake: Option<Time>) {
        let unsettled = self
            .parts
            .iter()
            .find(|(_, part)| part.heard.is_some() && part.outcome.is_none())
            .map(|(id, _)| *id);
        self.insist(Promise::OneOutcome, unsettled.is_none(), || {
            format!("{unsettled:?} has ended and has no outcome")
        });
        if !self.begun() || self.ended.is_some() {
            return;
        }
        let end = self.end_of_time();
        self.insist(Promise::InTime, now <= end || self.overslept, || {
            format!("not over at {now:?}")
        });
        // A wish that lies behind would be granted forever; none at all is right only while an answer is
        // due that does not depend on a user's code.
        let answer_is_due = self.seal_told && !self.sealed;
        let has_wake = wake.is_some_and(|at| at > now) || (wake.is_none() && answer_is_due);
        self.insist(Promise::WakeIsAsked, has_wake, || {
            format!("{wake:?} at {now:?}")
        });
        self.check_due(now, wake);
    }

    /// For every part with a deadline the machine wakes by then, and acts after it.
    fn check_due(&mut self, now: Time, wake: Option<Time>) {
        let in_drain = self.phase() == Some(Phase::Drain);
        let drain_began = self.drain_began;
        let open = |part: &&Record| part.outcome.is_none();
        let due = |at: Time| now >= at || wake.is_none_or(|wake| wake > at);
        let overdue = self.parts.values().filter(open).any(|part| {
            let untold = part.role == Role::Work && in_drain && !part.told_to_cancel;
            untold && part.limit.is_some_and(|limit| due(drain_began + limit))
        });
        self.insist(Promise::OwnLimitHolds, !overdue, || {
            format!("own limits in the drain: woken at {wake:?}")
        });
        let overrun = (self.parts.values().filter(open)).any(|part| part.close_by.is_some_and(due));
        self.insist(Promise::InTime, !overrun, || {
            format!("a close that is due: woken at {wake:?}")
        });
    }
}
