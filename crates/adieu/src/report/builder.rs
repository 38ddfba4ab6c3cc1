//! The report in the making. Locked for moments only, so that it can be read even when all else hangs.

use std::fmt::Write;
use std::time::{Duration, SystemTime};

use adieu_lifecycle::{Cause, ComponentId, Exit, Outcome, Phase, Role, Time};

use super::notice::Notice;
use super::report::{Blocked, ComponentReport, PhaseReport, Report};
use super::snapshot::{ComponentSnapshot, Snapshot};
use crate::error::Failure;

/// What is known so far.
pub(crate) struct ReportBuilder {
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
    room: Room,
    omitted: u64,
    exit: Option<Exit>,
}

/// A service may restart a task for years; the timeline keeps the first so many, and as many more of the stop.
const MOST_NOTICES: usize = 10_000;
/// So much text the timeline keeps of the time before the stop, and so much of the stop.
const MOST_BYTES: usize = 1_000_000;
/// So many different ones are named that block their thread: a client can make up any number of paths.
const MOST_BLOCKED: usize = 100;

/// How much room the timeline has left.
struct Room {
    notices: usize,
    bytes: usize,
}

impl Room {
    const fn new() -> Self {
        Self {
            notices: MOST_NOTICES,
            bytes: MOST_BYTES,
        }
    }

    /// Whether one more fits; if so, its room is taken.
    fn take(&mut self, notice: &Notice) -> bool {
        let bytes = length(notice);
        if self.notices == 0 || self.bytes < bytes {
            return false;
        }
        self.notices -= 1;
        self.bytes -= bytes;
        true
    }
}

/// About how much text a notice has.
fn length(notice: &Notice) -> usize {
    struct Count(usize);
    impl Write for Count {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            self.0 += text.len();
            Ok(())
        }
    }
    let mut count = Count(0);
    // Counting cannot fail.
    let _ = write!(count, "{notice:?}");
    count.0
}

/// Whether the timeline would be wrong without it. There are no more of these than parts and phases.
const fn is_a_milestone(notice: &Notice) -> bool {
    matches!(
        notice,
        Notice::Running
            | Notice::Stopping { .. }
            | Notice::Phase { .. }
            | Notice::Closing { .. }
            | Notice::Settled { .. }
            | Notice::Ended { .. }
    )
}

fn set<T>(list: &mut Vec<Option<T>>, part: ComponentId, value: T) {
    let index = part.0 as usize;
    if list.len() <= index {
        list.resize_with(index + 1, || None);
    }
    list[index] = Some(value);
}

fn in_millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl ReportBuilder {
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
            room: Room::new(),
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
            // The next ones of the same name are counted; their number says all there is to say.
            if !self.count_block(now, (task, place), *lasted, *ongoing) {
                return;
            }
        }
        if is_a_milestone(&notice) || self.room.take(&notice) {
            self.timeline.push((now, notice));
        } else {
            self.omitted += 1;
        }
    }

    /// Counts a block, and says whether it is the first of its name. It is reported twice, when it is noticed and when it
    /// is over; the first counts, the second may be longer.
    fn count_block(
        &mut self,
        now: Time,
        who: (&str, &str),
        lasted: Duration,
        ongoing: bool,
    ) -> bool {
        let (task, place) = who;
        let find = |blocked: &[Blocked], (task, place)| {
            (blocked.iter()).position(|blocked| blocked.task == task && blocked.place == place)
        };
        let known = find(&self.blocked, who);
        let is_full = known.is_none() && self.blocked.len() >= MOST_BLOCKED;
        let (task, place) = if is_full {
            ("others", "")
        } else {
            (task, place)
        };
        let number = match known.or_else(|| find(&self.blocked, (task, place))) {
            Some(number) => number,
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
        self.blocked[number].times == 1
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
        // Whatever came before, the stop has its place.
        self.room = Room::new();
    }

    /// The grace period ends at this time: later than it began by the whole grace, or earlier.
    pub(crate) fn ends_by(&mut self, end: Time) {
        self.ends_by = self.stopped_at.map(|_| end);
    }

    /// What is left of the grace period of a stop.
    #[cfg(feature = "otel")]
    pub(crate) fn until_end(&self, now: Time) -> Option<Duration> {
        Some(self.ends_by?.saturating_sub(now))
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

    pub(crate) fn closing(&mut self, part: ComponentId, now: Time) {
        set(&mut self.closing_since, part, now);
    }

    pub(crate) fn settled(
        &mut self,
        part: ComponentId,
        outcome: Outcome,
        now: Time,
        blocking: bool,
    ) {
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

    /// How often tasks have blocked the loop.
    #[cfg(feature = "admin")]
    pub(crate) fn blocks(&self) -> u64 {
        self.blocked.iter().map(|blocked| blocked.times).sum()
    }

    /// The report as of now. Parts without an outcome were not reached: this is total also when the end
    /// came from outside.
    pub(crate) fn report(&self, service: Snapshot, now: Time, exit: Exit) -> Report {
        let stopped_at = self.stopped_at.unwrap_or(now);
        let mut phases = self.phases.clone();
        if let Some(last) = phases.last_mut().filter(|_| self.exit.is_none()) {
            last.took = now.saturating_sub(stopped_at).saturating_sub(last.began);
        }
        Report {
            service: service.service.to_string(),
            exit: self.exit.unwrap_or(exit),
            process: None,
            cause: self.cause.clone(),
            problem: self.problem.clone(),
            started: self.started,
            uptime: now,
            took: now.saturating_sub(stopped_at),
            grace: match (self.stopped_at, self.ends_by) {
                (Some(began), Some(end)) => end.saturating_sub(began).min(service.grace),
                _ => service.grace,
            },
            phases,
            parts: self.components(service.components, service.others, now, stopped_at),
            lost: service.lost,
            lost_unnamed: service.lost_unnamed,
            blocked: self.blocked(now),
            timeline: self.timeline.clone(),
            omitted: self.omitted,
        }
    }

    fn components(
        &self,
        components: Vec<ComponentSnapshot>,
        others: Vec<ComponentReport>,
        now: Time,
        stopped_at: Time,
    ) -> Vec<ComponentReport> {
        let report = |(index, part): (usize, ComponentSnapshot)| {
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
            ComponentReport {
                name: part.name.to_string(),
                kind: part.kind,
                outcome,
                place: part.location.to_string(),
                age: at.saturating_sub(part.born),
                ending: at.saturating_sub(since),
                restarts: part.restarts,
                failure: part.failure,
                blocking,
                notes: part.notes,
            }
        };
        let components = components.into_iter().enumerate().map(report);
        components.chain(others).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(ledger: &mut ReportBuilder, at: u64, lasted: u64, ongoing: bool) {
        let notice = Notice::Blocked {
            task: "rude".to_owned(),
            place: "src/rude.rs:1:1".to_owned(),
            lasted: Duration::from_millis(lasted),
            ongoing,
        };
        ledger.write(Duration::from_millis(at), notice);
    }

    /// How often it has blocked, and for how many milliseconds at most.
    fn rude(ledger: &ReportBuilder, at: u64) -> (u64, u64) {
        let blocked = ledger.blocked(Duration::from_millis(at));
        (blocked[0].times, blocked[0].longest_ms)
    }

    #[test]
    fn a_block_that_is_not_over_counts_as_long_as_it_is() {
        let mut ledger = ReportBuilder::new();
        told(&mut ledger, 1_100, 100, true);
        assert_eq!(rude(&ledger, 1_100), (1, 100));
        assert_eq!(rude(&ledger, 5_000), (1, 4_000));
    }

    #[test]
    fn a_block_that_is_over_grows_no_more() {
        let mut ledger = ReportBuilder::new();
        told(&mut ledger, 1_100, 100, true);
        told(&mut ledger, 1_500, 475, false);
        assert_eq!(rude(&ledger, 5_000), (1, 475));
    }

    #[test]
    fn of_two_with_one_name_the_one_that_is_over_is_the_one_that_began_then() {
        let mut ledger = ReportBuilder::new();
        told(&mut ledger, 1_100, 100, true);
        told(&mut ledger, 3_100, 100, true);
        told(&mut ledger, 3_500, 475, false);
        assert_eq!(rude(&ledger, 5_000), (2, 4_000));
    }

    fn named(ledger: &mut ReportBuilder, task: &str, ongoing: bool) {
        let notice = Notice::Blocked {
            task: task.to_owned(),
            place: "src/main.rs:1:1".to_owned(),
            lasted: Duration::from_millis(130),
            ongoing,
        };
        ledger.write(Duration::from_secs(1), notice);
    }

    #[test]
    fn the_timeline_has_the_first_block_of_a_name_and_the_report_counts_the_others() {
        let mut ledger = ReportBuilder::new();
        for _ in 0..10_000 {
            named(&mut ledger, "GET /block", true);
            named(&mut ledger, "GET /block", false);
        }
        assert_eq!(ledger.timeline.len(), 2);
        assert_eq!(ledger.omitted, 0);
        let blocked = ledger.blocked(Duration::from_secs(1));
        assert_eq!((blocked.len(), blocked[0].times), (1, 10_000));
        assert!(ledger.blocking.is_empty());
    }

    #[test]
    fn paths_that_a_client_makes_up_are_one_line_after_the_first_hundred() {
        let mut ledger = ReportBuilder::new();
        for number in 0..10_000 {
            named(&mut ledger, &format!("GET /{number}"), true);
            named(&mut ledger, &format!("GET /{number}"), false);
        }
        let blocked = ledger.blocked(Duration::from_secs(1));
        assert_eq!(blocked.len(), MOST_BLOCKED + 1);
        let others = blocked.last().expect("others");
        assert_eq!((&*others.task, others.times), ("others", 9_900));
        assert_eq!(ledger.timeline.len(), 2 * MOST_BLOCKED + 2);
        assert!(ledger.blocking.is_empty());
    }

    fn failed(ledger: &mut ReportBuilder, text: &str) {
        let notice = Notice::RunFailed {
            job: "poll".into(),
            failure: Failure {
                causes: vec![text.to_owned()],
                panicked_at: None,
            },
        };
        ledger.write(Duration::from_secs(1), notice);
    }

    #[test]
    fn the_timeline_is_bounded_in_lines_and_in_bytes_and_keeps_room_for_the_stop() {
        let mut ledger = ReportBuilder::new();
        for _ in 0..10_050 {
            failed(&mut ledger, "no answer");
        }
        assert_eq!((ledger.timeline.len(), ledger.omitted), (10_000, 50));
        let mut ledger = ReportBuilder::new();
        let long = "x".repeat(2_000);
        for _ in 0..10_000 {
            failed(&mut ledger, &long);
        }
        let kept: usize = ledger.timeline.iter().map(|(_, it)| length(it)).sum();
        assert!((900_000..=MOST_BYTES).contains(&kept), "{kept}");
        let before = ledger.timeline.len();
        ledger.stopping(Duration::from_secs(2), Cause::AllTasksEnded);
        failed(&mut ledger, &long);
        assert_eq!(ledger.timeline.len(), before + 1);
    }
}
