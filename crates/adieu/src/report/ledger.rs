//! The report in the making. Locked for moments only, so that it can be read even when all else hangs.

use std::time::{Duration, SystemTime};

use super::notice::Notice;
use super::summary::{Blocked, PartReport, PhaseReport, Report};
use crate::core::Core;
use crate::error::Failure;
use crate::lifecycle::{Cause, Exit, Outcome, PartId, Phase, Role, Time};

/// What is known so far.
pub(crate) struct Ledger {
    started: SystemTime,
    cause: Option<Cause>,
    stopped_at: Option<Time>,
    /// When the grace period is over.
    ends_by: Option<Time>,
    problem: Option<Failure>,
    phases: Vec<PhaseReport>,
    /// By part number: outcome, when, and whether it was blocking.
    outcomes: Vec<Option<(Outcome, Time, bool)>>,
    closing_since: Vec<Option<Time>>,
    blocked: Vec<Blocked>,
    /// Blocks that are not over: who, by its number in `blocked`, and since when.
    blocking: Vec<(usize, Time)>,
    timeline: Vec<(Time, Notice)>,
    omitted: u64,
    exit: Option<Exit>,
}

/// A service may restart a task or block its loop for years; the timeline keeps the first so many.
const MOST_NOTICES: usize = 10_000;

fn set<T>(list: &mut Vec<Option<T>>, part: PartId, value: T) {
    let index = part.0 as usize;
    if list.len() <= index {
        list.resize_with(index + 1, || None);
    }
    list[index] = Some(value);
}

fn in_millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Ledger {
    pub(crate) fn new() -> Self {
        Self {
            started: SystemTime::now(),
            cause: None,
            stopped_at: None,
            ends_by: None,
            problem: None,
            phases: Vec::new(),
            outcomes: Vec::new(),
            closing_since: Vec::new(),
            blocked: Vec::new(),
            blocking: Vec::new(),
            timeline: Vec::new(),
            omitted: 0,
            exit: None,
        }
    }

    pub(crate) fn write(&mut self, now: Time, notice: Notice) {
        if let Notice::Blocked {
            task,
            place,
            lasted,
            ongoing,
        } = &notice
        {
            self.count_block(now, (task, place), *lasted, *ongoing);
        }
        if self.timeline.len() < MOST_NOTICES || self.stopped_at.is_some() {
            self.timeline.push((now, notice));
        } else {
            self.omitted += 1;
        }
    }

    /// A block is told twice, when it is noticed and when it is over; the first counts, the second may be longer.
    fn count_block(&mut self, now: Time, who: (&str, &str), lasted: Duration, ongoing: bool) {
        let (task, place) = who;
        let known = (self.blocked.iter())
            .position(|blocked| blocked.task == task && blocked.place == place);
        let number = match known {
            Some(number) => number,
            None if self.blocked.len() >= 1_000 => return,
            None => {
                self.blocked.push(Blocked {
                    task: task.to_owned(),
                    place: place.to_owned(),
                    times: u64::from(!ongoing),
                    longest_ms: 0,
                });
                self.blocked.len() - 1
            }
        };
        let blocked = &mut self.blocked[number];
        blocked.times += u64::from(ongoing);
        blocked.longest_ms = blocked.longest_ms.max(in_millis(lasted));
        let since = now.saturating_sub(lasted);
        if ongoing {
            self.blocking.push((number, since));
        } else {
            // Of several with one name, the one that began about then.
            let over = (0..self.blocking.len())
                .filter(|&at| self.blocking[at].0 == number)
                .min_by_key(|&at| self.blocking[at].1.abs_diff(since));
            if let Some(over) = over {
                self.blocking.swap_remove(over);
            }
        }
    }

    /// Who has blocked the loop, and for how long as of now: the worst block may be the one that is not over.
    fn blocked(&self, now: Time) -> Vec<Blocked> {
        let mut blocked = self.blocked.clone();
        for &(number, since) in &self.blocking {
            let longest = &mut blocked[number].longest_ms;
            *longest = in_millis(now.saturating_sub(since)).max(*longest);
        }
        blocked
    }

    pub(crate) fn problem(&mut self, failure: Failure) {
        self.problem.get_or_insert(failure);
    }

    pub(crate) fn stopping(&mut self, now: Time, cause: Cause) {
        self.cause = Some(cause);
        self.stopped_at = Some(now);
    }

    /// The grace period ends at this time: later than it began by the whole grace, or earlier.
    pub(crate) fn ends_by(&mut self, end: Time) {
        self.ends_by = self.stopped_at.map(|_| end);
    }

    pub(crate) fn enter(&mut self, phase: Phase, now: Time, limit: Time) {
        self.leave_phase(now);
        let began = now.saturating_sub(self.stopped_at.unwrap_or(now));
        self.phases.push(PhaseReport {
            phase,
            began,
            took: Duration::ZERO,
            budget: limit.saturating_sub(now),
        });
    }

    fn leave_phase(&mut self, now: Time) {
        let since_stop = now.saturating_sub(self.stopped_at.unwrap_or(now));
        if let Some(last) = self.phases.last_mut() {
            last.took = since_stop.saturating_sub(last.began);
        }
    }

    pub(crate) fn closing(&mut self, part: PartId, now: Time) {
        set(&mut self.closing_since, part, now);
    }

    pub(crate) fn settled(&mut self, part: PartId, outcome: Outcome, now: Time, blocking: bool) {
        set(&mut self.outcomes, part, (outcome, now, blocking));
    }

    pub(crate) fn ended(&mut self, now: Time, exit: Exit) {
        self.leave_phase(now);
        self.exit = Some(exit);
    }

    /// The phase of the stop, while there is one.
    #[cfg(feature = "admin")]
    pub(crate) fn phase(&self) -> Option<Phase> {
        let running = self.exit.is_none();
        self.phases
            .last()
            .filter(|_| running)
            .map(|last| last.phase)
    }

    /// The phase of the stop as far as it has come, and the time since the request.
    pub(crate) fn current_phase(&self, now: Time) -> Option<(PhaseReport, Duration)> {
        let since_stop = now.saturating_sub(self.stopped_at?);
        let mut phase = self.phases.last()?.clone();
        phase.took = since_stop.saturating_sub(phase.began);
        Some((phase, since_stop))
    }

    /// How far the part of this number has come: its outcome, and whether its close or hook has begun.
    pub(crate) fn progress(&self, part: usize) -> (Option<Outcome>, bool) {
        let outcome = self.outcomes.get(part).copied().flatten();
        let is_closing = self.closing_since.get(part).is_some_and(Option::is_some);
        (outcome.map(|(outcome, ..)| outcome), is_closing)
    }

    /// How often tasks have blocked the loop.
    #[cfg(feature = "admin")]
    pub(crate) fn blocks(&self) -> u64 {
        self.blocked.iter().map(|blocked| blocked.times).sum()
    }

    /// The report as of now. Parts without an outcome were not reached: this is total also when the end
    /// came from outside.
    pub(crate) fn report(&self, core: &Core, now: Time, exit: Exit) -> Report {
        let stopped_at = self.stopped_at.unwrap_or(now);
        let mut phases = self.phases.clone();
        if let Some(last) = phases.last_mut().filter(|_| self.exit.is_none()) {
            last.took = now.saturating_sub(stopped_at).saturating_sub(last.began);
        }
        let losses = core.losses();
        Report {
            service: core.name.to_string(),
            exit: self.exit.unwrap_or(exit),
            process: None,
            cause: self.cause.clone(),
            problem: self.problem.clone(),
            started: self.started,
            uptime: now,
            took: now.saturating_sub(stopped_at),
            grace: match (self.stopped_at, self.ends_by) {
                (Some(began), Some(end)) => end.saturating_sub(began).min(core.terms.grace),
                _ => core.terms.grace,
            },
            phases,
            parts: self.parts(core, now, stopped_at),
            lost: losses.lines(),
            lost_unnamed: losses.unnamed,
            blocked: self.blocked(now),
            timeline: self.timeline.clone(),
            omitted: self.omitted,
        }
    }

    fn parts(&self, core: &Core, now: Time, stopped_at: Time) -> Vec<PartReport> {
        let parts = core.parts();
        let report = |(index, part): (usize, &crate::core::Part)| {
            let settled = self.outcomes.get(index).copied().flatten();
            // The end came from outside: work was at it, everything else never had its turn.
            let open = if part.role == Role::Work {
                Outcome::Abandoned
            } else {
                Outcome::NotReached
            };
            let (outcome, at, blocking) = settled.unwrap_or((open, now, false));
            let since = self
                .closing_since
                .get(index)
                .copied()
                .flatten()
                .unwrap_or(stopped_at);
            PartReport {
                name: part.name.to_string(),
                kind: part.kind,
                outcome,
                place: part.place.to_string(),
                age: at.saturating_sub(part.born),
                ending: at.saturating_sub(since),
                restarts: part.restarts,
                failure: part.failure.clone(),
                blocking,
                notes: part.notes.clone(),
            }
        };
        let parts = parts.iter().enumerate().map(report);
        #[cfg(feature = "admin")]
        let parts = parts.chain(core.office.reports(now));
        parts.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(ledger: &mut Ledger, at: u64, lasted: u64, ongoing: bool) {
        let notice = Notice::Blocked {
            task: "rude".to_owned(),
            place: "src/rude.rs:1:1".to_owned(),
            lasted: Duration::from_millis(lasted),
            ongoing,
        };
        ledger.write(Duration::from_millis(at), notice);
    }

    /// How often it has blocked, and for how many milliseconds at most.
    fn rude(ledger: &Ledger, at: u64) -> (u64, u64) {
        let blocked = ledger.blocked(Duration::from_millis(at));
        (blocked[0].times, blocked[0].longest_ms)
    }

    #[test]
    fn a_block_that_is_not_over_counts_as_long_as_it_is() {
        let mut ledger = Ledger::new();
        told(&mut ledger, 1_100, 100, true);
        assert_eq!(rude(&ledger, 1_100), (1, 100));
        assert_eq!(rude(&ledger, 5_000), (1, 4_000));
    }

    #[test]
    fn a_block_that_is_over_grows_no_more() {
        let mut ledger = Ledger::new();
        told(&mut ledger, 1_100, 100, true);
        told(&mut ledger, 1_500, 475, false);
        assert_eq!(rude(&ledger, 5_000), (1, 475));
    }

    #[test]
    fn of_two_with_one_name_the_one_that_is_over_is_the_one_that_began_then() {
        let mut ledger = Ledger::new();
        told(&mut ledger, 1_100, 100, true);
        told(&mut ledger, 3_100, 100, true);
        told(&mut ledger, 3_500, 475, false);
        assert_eq!(rude(&ledger, 5_000), (2, 4_000));
    }
}
