//! The whole report.

use std::fmt;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::behind::BehindReport;
use super::check::{Check, Outcome};
use super::jobs::JobsReport;
use super::rollout::RolloutReport;
use super::timeline::StopTimeline;

/// The version of the JSON.
pub const VERSION: u32 = 1;

/// What *lost* means, said in every report.
pub const DEFINITION: &str = "A request counts as lost only if the client had sent it whole on an open connection and \
                              got no whole answer.";

/// What a drill found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[must_use = "a report says whether the target stops well"]
pub struct Report {
    /// Always [`VERSION`] in a report that this crate wrote.
    pub version: u32,
    /// Who wrote it: `adieu 0.1.0`.
    pub tool: String,
    /// The one word. See [`Report::judge`].
    pub verdict: Verdict,
    /// What was drilled.
    pub target: Target,
    /// With this seed and the same arguments the drill makes the same choices again.
    pub seed: u64,
    /// How much was tried.
    pub level: Level,
    /// When the drill began, RFC 3339.
    pub started: String,
    /// How long it took.
    pub duration_ms: u64,
    /// What *lost* means.
    pub definition: String,
    /// Every check, in the order in which they ran.
    pub checks: Vec<Check>,
    /// The stops that were watched closely enough to draw.
    #[serde(default)]
    pub stops: Vec<StopTimeline>,
    /// The client's own lack of processor time, if it had one.
    #[serde(default)]
    pub starvation: Option<Starvation>,
    /// The grace period to configure, from the slowest stop seen.
    #[serde(default)]
    pub recommendation: Option<Recommendation>,
    /// The target's own adieu report, as it wrote it.
    #[serde(default)]
    pub target_report: Option<Value>,
    /// Which of `stops` the target's own report is about, from 0.
    #[serde(default)]
    pub target_report_stop: Option<usize>,
    /// What a roll-out did to its clients, if one was drilled.
    #[serde(default)]
    pub rollout: Option<RolloutReport>,
    /// What happened behind a balancer, if one was simulated.
    #[serde(default)]
    pub behind: Option<BehindReport>,
    /// What became of numbered jobs, if workers were drilled.
    #[serde(default)]
    pub jobs: Option<JobsReport>,
}

/// The one word about a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// At least one check passed, and none failed.
    Passed,
    /// At least one did.
    Failed,
    /// Every check was skipped, so nothing is known.
    NotJudged,
}

impl Verdict {
    /// As in the JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::NotJudged => "not-judged",
        }
    }

    /// That of several targets: failed if one is, and passed only if each of them is.
    #[must_use]
    pub fn of_all(verdicts: impl IntoIterator<Item = Self>) -> Self {
        let mut all = Self::Passed;
        for verdict in verdicts {
            match verdict {
                Self::Failed => return verdict,
                Self::NotJudged => all = verdict,
                Self::Passed => {}
            }
        }
        all
    }
}

/// What was drilled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// What to call it.
    pub name: String,
    /// The program and its arguments, `{port}` not yet replaced.
    pub command: Vec<String>,
    /// Where it was spoken to: `http://127.0.0.1:{port}/`.
    pub address: String,
}

/// How much is tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Under half a minute.
    Quick,
    /// What a change should pass.
    #[default]
    Default,
    /// Everything.
    Full,
}

impl Level {
    /// As in the JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Default => "default",
            Self::Full => "full",
        }
    }
}

/// The client's own lack of processor time. What it delayed is not blamed on the target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Starvation {
    /// The longest time the client was due and did not run.
    pub worst_ms: f64,
    /// How many times it was late by more than it may be.
    pub times: u64,
    /// What was done about it, to follow a colon.
    pub note: String,
}

/// The grace period to configure, from the slowest stop seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recommendation {
    /// The slowest stop, signal to exit.
    pub worst_ms: f64,
    /// The check that saw it; absent if it was the idle stop before the first one.
    #[serde(default)]
    pub worst_check: Option<String>,
    /// How many stops had no end as long as they were watched. No grace period is long enough for those.
    #[serde(default)]
    pub endless: u64,
    /// For a Kubernetes pod: `terminationGracePeriodSeconds`.
    pub termination_grace_period_seconds: u64,
    /// For a compose file: `stop_grace_period`.
    pub stop_grace_period: String,
    /// For a systemd unit: `TimeoutStopSec`.
    pub timeout_stop_sec: String,
}

impl Recommendation {
    /// Half as long again as the slowest stop and two seconds for the platform's own part, and never under five: a
    /// grace period that fits to the millisecond is one that cuts work on a busy day.
    #[must_use]
    pub fn from_worst(worst: std::time::Duration) -> Self {
        let seconds = ((worst.as_secs_f64() * 1.5 + 2.0).ceil() as u64).max(5);
        Self {
            worst_ms: worst.as_secs_f64() * 1_000.0,
            worst_check: None,
            endless: 0,
            termination_grace_period_seconds: seconds,
            stop_grace_period: format!("{seconds}s"),
            timeout_stop_sec: format!("{seconds}s"),
        }
    }
}

impl Report {
    /// A report with nothing in it yet, begun now.
    pub fn new(target: Target, seed: u64, level: Level) -> Self {
        Self {
            version: VERSION,
            tool: concat!("adieu ", env!("CARGO_PKG_VERSION")).to_owned(),
            verdict: Verdict::NotJudged,
            target,
            seed,
            level,
            started: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
            duration_ms: 0,
            definition: DEFINITION.to_owned(),
            checks: Vec::new(),
            stops: Vec::new(),
            starvation: None,
            recommendation: None,
            target_report: None,
            target_report_stop: None,
            rollout: None,
            behind: None,
            jobs: None,
        }
    }

    /// Sets the verdict from the checks, and says it.
    pub fn judge(&mut self) -> Verdict {
        self.verdict = match (self.count(Outcome::Failed), self.count(Outcome::Passed)) {
            (1.., _) => Verdict::Failed,
            (0, 1..) => Verdict::Passed,
            (0, 0) => Verdict::NotJudged,
        };
        self.verdict
    }

    /// How many checks came out like this.
    #[must_use]
    pub fn count(&self, outcome: Outcome) -> usize {
        self.checks
            .iter()
            .filter(|check| check.outcome == outcome)
            .count()
    }

    /// The check of this id.
    #[must_use]
    pub fn check(&self, id: &str) -> Option<&Check> {
        self.checks.iter().find(|check| check.id == id)
    }

    /// The stop to show when there is room for one: the one that lost most, or else the one that tells most.
    #[must_use]
    pub fn most_telling_stop(&self) -> Option<&StopTimeline> {
        let failed = |stop: &StopTimeline| {
            self.check(&stop.check)
                .is_some_and(|check| check.outcome == Outcome::Failed)
        };
        let lost = |stop: &StopTimeline| stop.requests.iter().filter(|bar| bar.fate.lost()).count();
        let telling = |stop: &StopTimeline| {
            (
                lost(stop),
                failed(stop),
                stop.marks.len(),
                stop.requests.len(),
            )
        };
        // Of equals the first.
        self.stops.iter().rev().max_by_key(|stop| telling(stop))
    }

    /// Without the requests of each stop, which are nearly all of its size. What a stop looked like as a whole stays.
    pub fn slim(mut self) -> Self {
        for stop in &mut self.stops {
            stop.omitted += stop.requests.len() as u64;
            stop.requests.clear();
        }
        self
    }

    /// One JSON object and a line feed.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Nothing in a report can fail to serialise: no map has keys other than strings.
        let mut json = serde_json::to_string_pretty(self).unwrap_or_default();
        json.push('\n');
        json
    }

    /// Reads what [`to_json`](Self::to_json) wrote.
    ///
    /// # Errors
    ///
    /// If it is not a report, or one of a later version.
    pub fn from_json(json: &str) -> Result<Self, Unreadable> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let Versioned { version } = serde_json::from_str(json).map_err(Unreadable::NoReport)?;
        if version != VERSION {
            return Err(Unreadable::Version(version));
        }
        serde_json::from_str(json).map_err(Unreadable::NoReport)
    }

    /// Reads what `adieu drill --json` wrote: a report, or those of several targets in one object.
    ///
    /// # Errors
    ///
    /// As [`from_json`](Self::from_json).
    pub fn all_from_json(json: &str) -> Result<Vec<Self>, Unreadable> {
        #[derive(Deserialize)]
        struct Several {
            reports: Vec<Value>,
        }
        let Ok(Several { reports }) = serde_json::from_str(json) else {
            return Ok(vec![Self::from_json(json)?]);
        };
        let reports = reports.iter();
        reports
            .map(|report| Self::from_json(&report.to_string()))
            .collect()
    }
}

/// Why a text is not a report.
#[derive(Debug)]
pub enum Unreadable {
    /// It is not the JSON of a report.
    NoReport(serde_json::Error),
    /// Another version of adieu wrote it.
    Version(u32),
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoReport(error) => write!(
                f,
                "not a drill report: {error}; `adieu drill --json` writes one"
            ),
            Self::Version(version) => write!(
                f,
                "a drill report of version {version}, this adieu reads version {VERSION}"
            ),
        }
    }
}

impl std::error::Error for Unreadable {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NoReport(error) => Some(error),
            Self::Version(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn reads_what_it_writes() {
        let report = Report::new(Target::default(), 7, Level::Full);
        let again = Report::from_json(&report.to_json()).expect("our own");
        assert_eq!(again, report);
    }

    #[test]
    fn a_later_version_is_named_and_nonsense_is_no_report() {
        let mut report = Report::new(Target::default(), 7, Level::Full);
        report.version = 2;
        let error = Report::from_json(&report.to_json()).expect_err("later");
        assert_eq!(
            error.to_string(),
            "a drill report of version 2, this adieu reads version 1"
        );
        for nonsense in ["", "[]", "{}", "{\"version\": 1}", "<html>"] {
            let error = Report::from_json(nonsense).expect_err("nonsense");
            assert!(matches!(error, Unreadable::NoReport(_)), "{nonsense}");
        }
    }

    #[test]
    fn a_grace_period_leaves_room() {
        let seconds = |ms| {
            Recommendation::from_worst(Duration::from_millis(ms)).termination_grace_period_seconds
        };
        assert_eq!(
            [0, 300, 2_000, 2_001, 20_000].map(seconds),
            [5, 5, 5, 6, 32]
        );
    }
}
