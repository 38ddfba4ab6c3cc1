//! Two reports side by side: what got better, what got worse.

use serde::Serialize;

use crate::render::Style;
use crate::render::words;
use crate::report::{Check, Outcome, Report, VERSION};

/// What changed from one report to another.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[must_use = "a comparison says whether something got worse"]
pub struct Comparison {
    /// The version of the JSON, as of a report.
    pub version: u32,
    /// Whether a check that passed before fails now.
    pub worse: bool,
    /// Every check of either, in the order of the later report, then those that are gone.
    pub checks: Vec<Change>,
    /// The slowest stop before, milliseconds.
    pub worst_ms_before: Option<f64>,
    /// The slowest stop after, milliseconds.
    pub worst_ms_after: Option<f64>,
    /// What makes the two hard to compare: another target, level or seed.
    pub differences: Vec<String>,
}

/// What changed for one check.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// The check.
    pub id: String,
    /// What came of it before, if it was there.
    pub before: Option<Outcome>,
    /// What came of it after, if it was there.
    pub after: Option<Outcome>,
    /// Which way it went.
    pub direction: Direction,
    /// The reason given in the later report, or the earlier if it is gone there.
    pub reason: String,
    /// What was measured before.
    pub measured_before: Option<String>,
    /// What was measured after.
    pub measured_after: Option<String>,
}

/// Which way a check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// It passed and fails now.
    Worse,
    /// It failed and passes now.
    Better,
    /// It was tried in one of them only, so that nothing is known of the way.
    Unknown,
    /// It is as it was.
    Same,
}

impl Comparison {
    /// Compares an earlier with a later report.
    pub fn of(before: &Report, after: &Report) -> Self {
        let mut checks: Vec<Change> = after
            .checks
            .iter()
            .map(|check| change(before.check(&check.id), Some(check)))
            .collect();
        let gone = before
            .checks
            .iter()
            .filter(|check| after.check(&check.id).is_none());
        checks.extend(gone.map(|check| change(Some(check), None)));
        let worst = |report: &Report| report.recommendation.as_ref().map(|advice| advice.worst_ms);
        Self {
            version: VERSION,
            worse: checks
                .iter()
                .any(|change| change.direction == Direction::Worse),
            checks,
            worst_ms_before: worst(before),
            worst_ms_after: worst(after),
            differences: differences(before, after),
        }
    }

    /// One JSON object and a line feed.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Nothing in it can fail to serialise.
        let mut json = serde_json::to_string_pretty(self).unwrap_or_default();
        json.push('\n');
        json
    }

    /// For a terminal: what changed, and one line for all that did not.
    #[must_use]
    pub fn to_text(&self, style: Style) -> String {
        crate::render::comparison(self, style)
    }
}

fn change(before: Option<&Check>, after: Option<&Check>) -> Change {
    let (was, is) = (
        before.map(|check| check.outcome),
        after.map(|check| check.outcome),
    );
    let direction = match (was, is) {
        (Some(Outcome::Passed), Some(Outcome::Failed)) => Direction::Worse,
        (Some(Outcome::Failed), Some(Outcome::Passed)) => Direction::Better,
        _ if was == is => Direction::Same,
        _ => Direction::Unknown,
    };
    let (id, reason) = after
        .or(before)
        .map(|check| (check.id.clone(), check.reason.clone()))
        .unwrap_or_default();
    let measured = |check: Option<&Check>| check.and_then(|check| check.measured.clone());
    Change {
        id,
        before: was,
        after: is,
        direction,
        reason,
        measured_before: measured(before),
        measured_after: measured(after),
    }
}

fn differences(before: &Report, after: &Report) -> Vec<String> {
    let mut differences = Vec::new();
    let mut differ = |what: &str, before: String, after: String| {
        if before != after {
            differences.push(format!("{what}: {before} before, {after} after"));
        }
    };
    differ(
        "target",
        before.target.name.clone(),
        after.target.name.clone(),
    );
    differ(
        "level",
        before.level.name().to_owned(),
        after.level.name().to_owned(),
    );
    differ("seed", before.seed.to_string(), after.seed.to_string());
    let starved = |report: &Report| match &report.starvation {
        Some(starved) => format!("short by up to {}", words::millis(starved.worst_ms)),
        None => "enough".to_owned(),
    };
    differ(
        "processor time of the drill",
        starved(before),
        starved(after),
    );
    differences
}
