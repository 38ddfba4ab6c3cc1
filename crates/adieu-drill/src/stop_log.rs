//! What the stops of a drill looked like, whichever check made them.

use std::process::ExitStatus;
use std::time::{Duration, Instant};

use adieu_load::{Loss, Outcome, Tally};
use serde_json::Value;

use crate::process::{Ended, describe};
use crate::report::{Bar, Fate, Mark, MarkKind, StopTimeline};

/// More requests of one stop than this are not drawn.
const MOST_BARS: usize = 10_000;
/// What ended longer before the signal is not drawn either.
const DRAWN_BEFORE_SIGNAL: Duration = Duration::from_millis(500);

/// What the stops of a drill looked like.
#[derive(Debug, Default)]
pub(crate) struct StopLog {
    pub(crate) stops: Vec<StopTimeline>,
    pub(crate) exits: Vec<Exit>,
    /// The checks that have failed so far.
    pub(crate) failed: Vec<String>,
    /// The check that told of a program which does not end when idle, if one had to.
    pub(crate) told_endless: Option<&'static str>,
    pub(crate) target_report: Option<Value>,
    /// Which of the stops that is about.
    pub(crate) target_report_stop: Option<usize>,
}

/// One end of the program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exit {
    /// Who asked for it; empty for the look before the first check.
    pub(crate) check: &'static str,
    pub(crate) with: LoadKind,
    /// How long after the signal and how; nothing if it had to be killed.
    pub(crate) end: Option<(Duration, ExitStatus)>,
}

/// What the program had at hand when it was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LoadKind {
    /// Nothing.
    Idle,
    /// Many clients, none of which wants to hold it.
    Load,
    /// Work that it takes from elsewhere.
    Work,
    /// What a check holds against its end: a slow request, a silent connection.
    Hold,
}

impl LoadKind {
    /// `it was stopped …`.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Idle => "while idle",
            Self::Load => "under load",
            Self::Work => "with work in flight",
            Self::Hold => "with a client that holds it",
        }
    }
}

impl StopLog {
    pub(crate) fn exit(
        &mut self,
        check: &'static str,
        with: LoadKind,
        end: Option<(Duration, ExitStatus)>,
    ) {
        self.exits.push(Exit { check, with, end });
    }

    /// Whether this check has been run and has failed.
    pub(crate) fn has_failed(&self, id: &str) -> bool {
        self.failed.iter().any(|failed| failed == id)
    }

    /// The slowest end of all that were one, and which check saw it.
    pub(crate) fn worst(&self) -> Option<(Duration, &'static str)> {
        let ends = self.exits.iter();
        let ends = ends.filter_map(|exit| Some((exit.end?.0, exit.check)));
        // Of equals the first.
        ends.rev().max_by_key(|(took, _)| *took)
    }

    /// How many had to be killed.
    pub(crate) fn endless(&self) -> u64 {
        self.exits.iter().filter(|exit| exit.end.is_none()).count() as u64
    }

    /// Keeps a stop to be drawn, and says which it is then. Of one check the first is kept, and those with a loss.
    pub(crate) fn draw(&mut self, stop: StopTimeline) -> Option<usize> {
        let known = self.stops.iter().any(|other| other.check == stop.check);
        if !known || (stop.requests.iter().any(|bar| bar.fate.lost()) && self.stops.len() < 12) {
            self.stops.push(stop);
            return Some(self.stops.len() - 1);
        }
        None
    }
}

/// Microseconds from `origin` to `at`, which may be before it.
pub(crate) fn micros(at: Instant, origin: Instant) -> i64 {
    let (time, sign) = match at.checked_duration_since(origin) {
        Some(after) => (after, 1),
        None => (origin - at, -1),
    };
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX) * sign
}

/// The marks every stop has.
pub(crate) fn marks(signal: Instant, name: &str, ended: Option<Ended>) -> Vec<Mark> {
    let mut marks = vec![Mark {
        at_us: 0,
        kind: MarkKind::Signal,
        label: name.to_owned(),
    }];
    if let Some(ended) = ended {
        marks.push(Mark {
            at_us: micros(ended.at, signal),
            kind: MarkKind::Exit,
            label: describe(ended.status),
        });
    }
    marks
}

/// Adds what the requests themselves tell, and puts all in order.
pub(crate) fn complete(mut stop: StopTimeline) -> StopTimeline {
    let mut add = |at: Option<i64>, kind: MarkKind| {
        if let Some(at_us) = at.filter(|_| !stop.marks.iter().any(|mark| mark.kind == kind)) {
            stop.marks.push(Mark {
                at_us,
                kind,
                label: String::new(),
            });
        }
    };
    let after = |bar: &&Bar| bar.end_us >= 0;
    let refused = stop
        .requests
        .iter()
        .filter(after)
        .filter(|bar| bar.fate == Fate::Refused);
    add(
        refused.map(|bar| bar.end_us).min(),
        MarkKind::ListenerClosed,
    );
    let answered =
        |bar: &&Bar| matches!(bar.fate, Fate::Answered | Fate::ServerError | Fate::Retry);
    let answers = stop.requests.iter().filter(after).filter(answered);
    add(answers.map(|bar| bar.end_us).max(), MarkKind::LastResponse);
    // The listener of a process that is gone is closed, however late that was tried.
    if let Some(exit) = stop.at(MarkKind::Exit) {
        let closed = |mark: &&mut Mark| mark.kind == MarkKind::ListenerClosed;
        for mark in stop.marks.iter_mut().filter(closed) {
            mark.at_us = mark.at_us.min(exit);
        }
    }
    stop.marks
        .sort_by_key(|mark| (mark.at_us, mark.kind == MarkKind::Exit));
    stop
}

/// The requests of a load around the signal.
pub(crate) fn bars(tally: &Tally, signal: Instant, label: &str) -> (Vec<Bar>, u64) {
    let from = signal.checked_sub(DRAWN_BEFORE_SIGNAL).unwrap_or(signal);
    let mut near: Vec<_> = tally.spans.iter().filter(|bar| bar.ended >= from).collect();
    near.sort_by_key(|bar| bar.began);
    let total = tally.spans.len() as u64 + tally.omitted;
    // The latest matter most: they are the ones that met the stop.
    let skipped = near.len().saturating_sub(MOST_BARS);
    let bars: Vec<Bar> = near
        .into_iter()
        .skip(skipped)
        .map(|bar| Bar {
            start_us: micros(bar.began, signal),
            end_us: micros(bar.ended, signal),
            connection: bar.connection,
            label: label.to_owned(),
            fate: fate(bar.outcome),
        })
        .collect();
    let omitted = total - bars.len() as u64;
    (bars, omitted)
}

/// As the report has it.
pub(crate) const fn fate(outcome: Outcome) -> Fate {
    match outcome {
        Outcome::Answered => Fate::Answered,
        Outcome::Failed(_) => Fate::ServerError,
        Outcome::Retry => Fate::Retry,
        Outcome::Refused => Fate::Refused,
        Outcome::Unsent => Fate::Unsent,
        Outcome::Lost(Loss::Reset) => Fate::Reset,
        Outcome::Lost(Loss::Closed) => Fate::Closed,
        Outcome::Lost(Loss::Truncated) => Fate::Truncated,
        Outcome::Lost(Loss::TimedOut) => Fate::TimedOut,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_closed_by_the_exit_at_the_latest() {
        let mark = |at_us, kind| Mark {
            at_us,
            kind,
            label: String::new(),
        };
        let stop = complete(StopTimeline {
            marks: vec![mark(0, MarkKind::Signal), mark(50, MarkKind::Exit)],
            requests: vec![Bar {
                start_us: 60,
                end_us: 70,
                connection: 0,
                label: String::new(),
                fate: Fate::Refused,
            }],
            ..StopTimeline::default()
        });
        let seen: Vec<_> = stop.marks.iter().map(|it| (it.at_us, it.kind)).collect();
        let closed = (50, MarkKind::ListenerClosed);
        assert_eq!(seen[1..], [closed, (50, MarkKind::Exit)]);
    }
}
