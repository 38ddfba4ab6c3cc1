//! From the requests of one roll-out to its numbers.

use std::time::Instant;

use adieu_load::{NumberedRequest, Outcome};

use super::failures;
use crate::report::{Bar, Mark, MarkKind, Moment, Phase, RolloutRun, StopTimeline, Totals};
use crate::stop_log::{fate, micros};

/// So many requests of a roll-out are drawn: all that were not answered well, and of the others so many that the page
/// stays quick.
const MOST_BARS: usize = 20_000;
/// A line of the command is quoted so far.
const QUOTED: usize = 80;

/// What happened, in order of time.
#[derive(Debug)]
pub(super) struct Events {
    pub(super) started: Instant,
    pub(super) ended: Instant,
    status: String,
    lines: Vec<(Instant, String)>,
    open_output: bool,
}

impl Events {
    pub(super) fn new(
        started: Instant,
        ended: Instant,
        status: String,
        mut lines: Vec<(Instant, String)>,
    ) -> Self {
        lines.sort_by_key(|(at, _)| *at);
        Self {
            started,
            ended,
            status,
            lines,
            open_output: false,
        }
    }

    /// The command has left a process behind that writes to a pipe which ends with the drill.
    pub(super) const fn note_open_output(&mut self) {
        self.open_output = true;
    }

    /// A warning for the report, if the output is still open.
    fn warning(&self) -> Option<&'static str> {
        self.open_output.then_some(
            "a process that the command left behind still writes to its output, a pipe that is closed now: redirect the \
             output of what it starts, `server >server.log 2>&1 &`",
        )
    }

    /// What happened last before this moment: `0.21 s after the command printed "…"`.
    pub(super) fn before(&self, at: Instant) -> String {
        let mut last = None;
        if at >= self.started {
            last = Some((self.started, "the command was started".to_owned()));
        }
        for (when, line) in self.lines.iter().filter(|(when, _)| *when <= at) {
            last = Some((*when, printed(line)));
        }
        if at >= self.ended && last.as_ref().is_none_or(|(when, _)| *when <= self.ended) {
            last = Some((self.ended, "the command had ended".to_owned()));
        }
        match last {
            Some((when, words)) => format!("{} after {words}", crate::threshold::show(at - when)),
            None => "before the command was started".to_owned(),
        }
    }

    /// What happened first in this stretch of time, or else last before it.
    fn around(&self, from: Instant, to: Instant) -> String {
        let inside = |at: Instant| from < at && at <= to;
        let line = self.lines.iter().find(|(at, _)| inside(*at));
        let mut first = line.map(|(at, line)| (*at, printed(line)));
        for (at, words) in [
            (self.started, "the command was started"),
            (self.ended, "the command ended"),
        ] {
            if inside(at) && first.as_ref().is_none_or(|(first, _)| at < *first) {
                first = Some((at, words.to_owned()));
            }
        }
        match first {
            Some((at, words)) => format!("and {} later {words}", crate::threshold::show(at - from)),
            None => self.before(from),
        }
    }

    pub(super) fn ms(&self, at: Instant) -> f64 {
        micros(at, self.started) as f64 / 1_000.0
    }
}

fn printed(line: &str) -> String {
    let quoted: String = line.chars().take(QUOTED).collect();
    format!("the command printed {quoted:?}")
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum When {
    Before,
    During,
    After,
}

/// Where a request belongs: what was open when the command was started, or when the traffic became steady, met the
/// roll-out.
fn when(request: &NumberedRequest, events: &Events, calm: Option<Instant>) -> When {
    if request.ended < events.started {
        When::Before
    } else if calm.is_some_and(|calm| request.due >= calm) {
        When::After
    } else {
        When::During
    }
}

/// The numbers of one roll-out.
pub(super) fn run(
    requests: &[NumberedRequest],
    events: &Events,
    calm: Option<Instant>,
) -> RolloutRun {
    let of = |phase: When| {
        let these = requests
            .iter()
            .filter(move |request| when(request, events, calm) == phase);
        self::phase(these)
    };
    let mut failures = failures::told(requests, events);
    failures.extend(events.warning().map(str::to_owned));
    RolloutRun {
        command_ms: events.ms(events.ended),
        steady_ms: calm.map(|calm| events.ms(calm)),
        before: of(When::Before),
        during: of(When::During),
        after: of(When::After),
        largest_gap: largest_gap(requests, events),
        failures,
    }
}

fn phase<'a>(requests: impl Iterator<Item = &'a NumberedRequest>) -> Phase {
    let mut totals = Totals::default();
    let mut times = Vec::new();
    for request in requests {
        let weight = u64::from(request.weight);
        *match request.outcome {
            Outcome::Answered => &mut totals.answered,
            Outcome::Failed(_) => &mut totals.errors,
            Outcome::Retry => &mut totals.retry,
            Outcome::Refused | Outcome::Unsent => &mut totals.refused,
            Outcome::Lost(_) => &mut totals.lost,
        } += weight;
        if request.is_good() {
            times.push(request.ended.saturating_duration_since(request.due));
        }
    }
    times.sort_unstable();
    let rank = |share: f64| {
        let at = (times.len() as f64 * share).ceil() as usize;
        let time = times.get(at.saturating_sub(1)).copied();
        time.unwrap_or_default().as_secs_f64() * 1_000.0
    };
    Phase {
        totals,
        p50_ms: rank(0.5),
        p99_ms: rank(0.99),
        max_ms: rank(1.0),
    }
}

/// The longest time without a good answer, once the command was started.
fn largest_gap(requests: &[NumberedRequest], events: &Events) -> Moment {
    let good = requests.iter().filter(|request| request.is_good());
    let mut ends: Vec<Instant> = good.map(|request| request.ended).collect();
    ends.sort_unstable();
    let gaps = ends.windows(2).filter(|pair| pair[1] >= events.started);
    let Some(gap) = gaps.max_by_key(|pair| pair[1] - pair[0]) else {
        return Moment::default();
    };
    Moment {
        at_ms: events.ms(gap[0]),
        took_ms: (gap[1] - gap[0]).as_secs_f64() * 1_000.0,
        after: events.around(gap[0], gap[1]),
    }
}

/// A roll-out as it is drawn.
pub(super) fn drawn(
    requests: &[NumberedRequest],
    events: &Events,
    calm: Option<Instant>,
    number: u32,
    label: &str,
) -> StopTimeline {
    let mark = |at: Instant, kind: MarkKind, label: &str| Mark {
        at_us: micros(at, events.started),
        kind,
        label: label.to_owned(),
    };
    let mut marks = vec![mark(events.started, MarkKind::CommandStarted, "")];
    // A line for each of a hundred lines would bury the drawing.
    let printed = events.lines.iter().take(12);
    marks.extend(printed.map(|(at, line)| mark(*at, MarkKind::CommandPrinted, line)));
    marks.push(mark(events.ended, MarkKind::CommandEnded, &events.status));
    marks.extend(calm.map(|calm| mark(calm, MarkKind::Steady, "")));
    marks.sort_by_key(|mark| mark.at_us);
    let bad = requests.iter().filter(|request| !request.is_good()).count();
    let good = requests.len() - bad;
    let room = MOST_BARS.saturating_sub(bad).max(1);
    let every = good.div_ceil(room).max(1);
    let mut seen = 0;
    let bars: Vec<Bar> = requests
        .iter()
        .filter(|request| {
            seen += usize::from(request.is_good());
            !request.is_good() || seen.is_multiple_of(every)
        })
        .map(|request| Bar {
            start_us: micros(request.due, events.started),
            end_us: micros(request.ended, events.started),
            connection: request.connection.unwrap_or(u32::MAX),
            label: label.to_owned(),
            fate: fate(request.outcome),
        })
        .collect();
    let all: u64 = requests.iter().map(|it| u64::from(it.weight)).sum();
    StopTimeline {
        check: "rollout-lost".to_owned(),
        run: number,
        marks,
        omitted: all - bars.len() as u64,
        requests: bars,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::report::Fate;
    use adieu_load::Loss;

    fn request(begin: Instant, at: u64, took: u64, outcome: Outcome) -> NumberedRequest {
        let due = begin + Duration::from_millis(at);
        NumberedRequest {
            number: at,
            due,
            began: due,
            ended: due + Duration::from_millis(took),
            connection: Some(0),
            earlier: 3,
            outcome,
            evidence: None,
            weight: 1,
        }
    }

    /// The load begins a second before the command, which takes a second.
    fn sample() -> (Vec<NumberedRequest>, Events, Instant) {
        let begin = Instant::now();
        let after = |ms| begin + Duration::from_millis(ms);
        let requests = (0..400)
            .map(|number| {
                let at = number * 10;
                match at {
                    1_500..1_550 => request(begin, at, 2, Outcome::Lost(Loss::Reset)),
                    1_550..1_900 => request(begin, at, 1, Outcome::Refused),
                    _ => request(begin, at, 3, Outcome::Answered),
                }
            })
            .collect();
        let lines = vec![(after(1_400), "stopping web-1".to_owned())];
        let events = Events::new(after(1_000), after(2_000), "exit code 0".to_owned(), lines);
        (requests, events, after(2_000))
    }

    #[test]
    fn requests_are_counted_in_the_phase_they_met() {
        let (requests, events, calm) = sample();
        let run = run(&requests, &events, Some(calm));
        assert_eq!(run.before.totals.all(), 100);
        assert_eq!((run.during.totals.lost, run.during.totals.refused), (5, 35));
        assert_eq!(run.after.totals.answered, 200);
        assert!((run.during.p99_ms - 3.0).abs() < 0.001, "{run:?}");
        assert_eq!(
            Fate::Reset,
            drawn(&requests, &events, None, 1, "").requests[150].fate
        );
    }

    #[test]
    fn the_largest_gap_is_between_two_good_answers_and_says_what_happened_before() {
        let (requests, events, calm) = sample();
        let gap = run(&requests, &events, Some(calm)).largest_gap;
        assert!((gap.took_ms - 410.0).abs() < 0.001, "{gap:?}");
        assert!((gap.at_ms - 493.0).abs() < 0.001, "{gap:?}");
        assert_eq!(
            gap.after,
            "93 ms after the command printed \"stopping web-1\""
        );
    }

    #[test]
    fn of_many_requests_all_bad_ones_are_drawn_and_the_rest_is_counted() {
        let (_, events, _) = sample();
        let begin = events.started;
        let requests: Vec<_> = (0..100_000)
            .map(|at| match at % 1_000 {
                0 => request(begin, at, 1, Outcome::Failed(503)),
                _ => request(begin, at, 1, Outcome::Answered),
            })
            .collect();
        let drawn = drawn(&requests, &events, None, 1, "GET /");
        assert!(
            drawn.requests.len() <= MOST_BARS,
            "{}",
            drawn.requests.len()
        );
        let bad = drawn
            .requests
            .iter()
            .filter(|bar| bar.fate == Fate::ServerError);
        assert_eq!(bad.count(), 100);
        assert_eq!(drawn.requests.len() as u64 + drawn.omitted, 100_000);
    }
}
