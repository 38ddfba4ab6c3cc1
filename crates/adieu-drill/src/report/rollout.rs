//! What a roll-out did to its clients.

use serde::{Deserialize, Serialize};

/// What a roll-out did to its clients. All times count from the start of its command, in milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RolloutReport {
    /// The command that changed the deployment.
    pub command: String,
    /// Where the clients were.
    pub url: String,
    /// How fast they asked: `200 requests a second`, `8 clients in a closed loop`.
    pub pace: String,
    /// One for each time the command was run.
    pub runs: Vec<RolloutRun>,
    /// Requests lost in a roll-out, on average, with an interval. Absent for a single one.
    #[serde(default)]
    pub lost: Option<Interval>,
}

/// One roll-out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RolloutRun {
    /// When the command ended.
    pub command_ms: f64,
    /// Since when every request was answered well; absent if that was not so in the time that was given.
    #[serde(default)]
    pub steady_ms: Option<f64>,
    /// Before the command was started.
    pub before: Phase,
    /// From its start until the traffic was steady again.
    pub during: Phase,
    /// After that.
    pub after: Phase,
    /// The longest time in which no request was answered well.
    pub largest_gap: Moment,
    /// What was not answered well, grouped by what became of it and when; the first ones.
    #[serde(default)]
    pub failures: Vec<String>,
}

/// The requests of one phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// How many there were, by what became of them.
    #[serde(flatten)]
    pub totals: Totals,
    /// Half of the answered ones took at most so long, in milliseconds.
    pub p50_ms: f64,
    /// 99 of 100 answered ones took at most so long.
    pub p99_ms: f64,
    /// The slowest answered one.
    pub max_ms: f64,
}

/// How many requests met what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Whole responses that do not blame the server.
    pub answered: u64,
    /// Sent whole on an open connection, and no whole response came.
    pub lost: u64,
    /// No connection: refused, or not made in time, or broken before the request was sent whole.
    pub refused: u64,
    /// Whole responses that blame the server: 5xx.
    pub errors: u64,
    /// Told to send it again: 408.
    pub retry: u64,
}

impl Totals {
    /// All requests.
    #[must_use]
    pub const fn all(&self) -> u64 {
        self.answered + self.lost + self.refused + self.errors + self.retry
    }
}

/// A stretch of time, and what happened before it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// When it began.
    pub at_ms: f64,
    /// How long it lasted.
    pub took_ms: f64,
    /// What happened last before it: `the command printed "stopping web-1"`.
    pub after: String,
}

/// An average over several roll-outs, and where it lies with 95 % confidence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The average.
    pub mean: f64,
    /// The lower end, by the bootstrap.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}
