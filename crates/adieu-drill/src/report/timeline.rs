//! One stop as it was seen from outside.

use serde::{Deserialize, Serialize};

/// One stop as it was seen from outside. All times count from the signal, in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StopTimeline {
    /// The id of the check that made the stop.
    pub check: String,
    /// Which of the check's runs it was, from 1.
    pub run: u32,
    /// What happened to the target, in order of time.
    pub marks: Vec<Mark>,
    /// What happened to the requests around it.
    #[serde(default)]
    pub requests: Vec<Bar>,
    /// Requests that were left out of `requests` because there were too many to keep.
    #[serde(default)]
    pub omitted: u64,
}

/// Something that happened to the target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Microseconds after the signal.
    pub at_us: i64,
    /// What it was.
    pub kind: MarkKind,
    /// More about it: `SIGTERM`, `exit code 0`.
    #[serde(default)]
    pub label: String,
}

/// What can happen to a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MarkKind {
    /// The stop signal was sent.
    Signal,
    /// Its readiness probe said no for the first time.
    ReadinessOff,
    /// A new connection was refused for the first time.
    ListenerClosed,
    /// The last answer came.
    LastResponse,
    /// The process was gone.
    Exit,
    /// A balancer sent nothing new to it any more.
    OutOfRoutes,
    /// The command of a roll-out was started.
    CommandStarted,
    /// It printed a line.
    CommandPrinted,
    /// It ended.
    CommandEnded,
    /// From here on every request was answered well.
    Steady,
}

impl MarkKind {
    /// As a person says it.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Signal => "signal",
            Self::ReadinessOff => "readiness off",
            Self::ListenerClosed => "listener closed",
            Self::LastResponse => "last response",
            Self::Exit => "exit",
            Self::OutOfRoutes => "out of routes",
            Self::CommandStarted => "command started",
            Self::CommandPrinted => "it printed",
            Self::CommandEnded => "command ended",
            Self::Steady => "steady again",
        }
    }
}

/// One request, from its first byte to the end of its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bar {
    /// When the client began to send it.
    pub start_us: i64,
    /// When its fate was known.
    pub end_us: i64,
    /// Which connection carried it; the numbers begin with 0 in each stop.
    pub connection: u32,
    /// `GET /slow`.
    #[serde(default)]
    pub label: String,
    /// What became of it.
    pub fate: Fate,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// A whole answer came back.
    Answered,
    /// A whole answer came back, and it was a 5xx that blames the server.
    ServerError,
    /// The server said that it will not handle it, so that the client may send it elsewhere.
    Retry,
    /// No process listened on the address.
    Refused,
    /// The connection broke before the request was sent whole.
    Unsent,
    /// Lost: the connection was reset before a byte of the answer.
    Reset,
    /// Lost: the connection was closed before a byte of the answer.
    Closed,
    /// Lost: the answer began and did not end.
    Truncated,
    /// Lost: nothing came in time.
    TimedOut,
}

impl Fate {
    /// All of them, the harmless first.
    pub const ALL: [Self; 9] = [
        Self::Answered,
        Self::Retry,
        Self::Refused,
        Self::Unsent,
        Self::ServerError,
        Self::Reset,
        Self::Closed,
        Self::Truncated,
        Self::TimedOut,
    ];

    /// Whether the request was sent whole on an open connection and got no whole answer.
    #[must_use]
    pub const fn lost(self) -> bool {
        matches!(
            self,
            Self::Reset | Self::Closed | Self::Truncated | Self::TimedOut
        )
    }

    /// As a person says it.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::ServerError => "5xx",
            Self::Retry => "told to retry",
            Self::Refused => "refused",
            Self::Unsent => "not sent whole",
            Self::Reset => "reset before a byte",
            Self::Closed => "closed before a byte",
            Self::Truncated => "truncated",
            Self::TimedOut => "timed out",
        }
    }
}

impl StopTimeline {
    /// What it is called: the check that made the stop and its number, or the number of the roll-out.
    #[must_use]
    pub fn title(&self) -> String {
        match self.is_rollout() {
            true => format!("roll-out {}", self.run),
            false => format!("{}, stop {}", self.check, self.run),
        }
    }

    /// Whether it is a roll-out: of a command, or of instances behind a balancer.
    #[must_use]
    pub fn is_rollout(&self) -> bool {
        matches!(self.check.as_str(), "rollout-lost" | "behind-lost")
    }

    /// When this happened first.
    #[must_use]
    pub fn at(&self, kind: MarkKind) -> Option<i64> {
        let times = self.marks.iter().filter(|mark| mark.kind == kind);
        times.map(|mark| mark.at_us).min()
    }

    /// The first and the last moment that is known of, never the same.
    #[must_use]
    pub fn span(&self) -> (i64, i64) {
        let marks = self.marks.iter().map(|mark| (mark.at_us, mark.at_us));
        let requests = self.requests.iter().map(|bar| (bar.start_us, bar.end_us));
        let (first, last) = marks
            .chain(requests)
            .fold((0, 0), |(first, last), (start, end)| {
                (first.min(start), last.max(end))
            });
        (first, last.max(first + 1))
    }

    /// How many requests were in flight at most in each of `slots` equal parts of the time between `from` and `to`.
    #[must_use]
    pub fn in_flight(&self, from: i64, to: i64, slots: usize) -> Vec<u32> {
        let mut most = vec![0; slots];
        if slots == 0 || to <= from {
            return most;
        }
        let mut changes: Vec<(i64, i32)> = Vec::with_capacity(self.requests.len() * 2);
        // Who was refused never had a request on its way.
        let sent = |bar: &&Bar| bar.fate != Fate::Refused;
        for bar in self.requests.iter().filter(sent) {
            changes.push((bar.start_us, 1));
            changes.push((bar.end_us.max(bar.start_us), -1));
        }
        // At one instant the ended leave first: a client that sends the next request at once has one in flight.
        changes.sort_unstable();
        let width = i128::from(to) - i128::from(from);
        let slot_of =
            |at: i64| ((i128::from(at) - i128::from(from)) * slots as i128 / width) as i64;
        let mut count = 0_i32;
        // The slot up to which the current count has been noted.
        let mut noted = 0_i64;
        for (at, change) in changes {
            let slot = slot_of(at).clamp(-1, slots as i64 - 1);
            while noted <= slot {
                let here = &mut most[noted as usize];
                *here = (*here).max(count.max(0) as u32);
                noted += 1;
            }
            count += change;
            if (0..slots as i64).contains(&slot) && at < to {
                let here = &mut most[slot as usize];
                *here = (*here).max(count.max(0) as u32);
            }
        }
        most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(start_us: i64, end_us: i64) -> Bar {
        Bar {
            start_us,
            end_us,
            connection: 0,
            label: String::new(),
            fate: Fate::Answered,
        }
    }

    fn stop(requests: Vec<Bar>) -> StopTimeline {
        StopTimeline {
            requests,
            ..StopTimeline::default()
        }
    }

    #[test]
    fn one_request_is_in_flight_from_its_start_to_its_end() {
        let stop = stop(vec![bar(20, 60)]);
        assert_eq!(stop.in_flight(0, 100, 10), [0, 0, 1, 1, 1, 1, 1, 0, 0, 0]);
    }

    #[test]
    fn one_after_the_other_is_one_at_a_time() {
        let stop = stop(vec![bar(0, 50), bar(50, 100)]);
        assert_eq!(stop.in_flight(0, 100, 4), [1, 1, 1, 1]);
    }

    #[test]
    fn what_began_before_counts_and_what_is_outside_does_not() {
        let stop = stop(vec![bar(-50, 30), bar(-90, -60), bar(300, 400)]);
        assert_eq!(stop.in_flight(0, 100, 5), [1, 1, 0, 0, 0]);
        assert_eq!(stop.in_flight(0, 0, 5), [0; 5]);
        assert!(stop.in_flight(0, 9, 0).is_empty());
    }

    #[test]
    fn who_was_refused_was_not_in_flight() {
        let mut stop = stop(vec![bar(0, 100), bar(0, 100)]);
        stop.requests[0].fate = Fate::Refused;
        assert_eq!(stop.in_flight(0, 100, 2), [1, 1]);
    }

    #[test]
    fn a_peak_shorter_than_a_slot_is_seen() {
        let stop = stop((0..7).map(|at| bar(41 + at, 49)).collect());
        assert_eq!(stop.in_flight(0, 100, 2), [7, 0]);
    }
}
