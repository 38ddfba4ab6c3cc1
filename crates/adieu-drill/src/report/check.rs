//! One check and what came of it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One check and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// Stable: `inflight-finishes`.
    pub id: String,
    /// The promise it belongs to.
    pub group: Group,
    /// Why it matters, one sentence.
    pub why: String,
    /// What came of it.
    pub outcome: Outcome,
    /// One sentence: what was seen, or why it was skipped.
    pub reason: String,
    /// What shows it: requests, addresses, times, lines of output. Never a secret.
    #[serde(default)]
    pub evidence: Vec<String>,
    /// What was demanded, as set for this run: `at most 30 s`.
    #[serde(default)]
    pub threshold: Option<String>,
    /// What was measured against it: `1.2 s`.
    #[serde(default)]
    pub measured: Option<String>,
    /// How to mend it, if it failed.
    #[serde(default)]
    pub hint: Option<String>,
    /// How long the check took.
    pub duration_ms: u64,
    /// How many times it was run.
    pub repeats: u32,
}

/// The promise a check belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    /// What was begun is finished.
    Drain,
    /// Connections that stay open end politely.
    KeepAlive,
    /// Load balancers see the stop in time.
    Readiness,
    /// Signals at every moment, in any number.
    Signals,
    /// The process ends, on time, and leaves nothing.
    Exit,
    /// What was stored is whole.
    Data,
    /// A deployment is changed while clients use it.
    Rollout,
    /// What was enqueued is done, once.
    Jobs,
}

impl Group {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 8] = [
        Self::Drain,
        Self::KeepAlive,
        Self::Readiness,
        Self::Signals,
        Self::Exit,
        Self::Data,
        Self::Rollout,
        Self::Jobs,
    ];

    /// As in the JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Drain => "drain",
            Self::KeepAlive => "keep-alive",
            Self::Readiness => "readiness",
            Self::Signals => "signals",
            Self::Exit => "exit",
            Self::Data => "data",
            Self::Rollout => "rollout",
            Self::Jobs => "jobs",
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What came of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The promise was kept each time.
    Passed,
    /// It was broken at least once.
    Failed,
    /// It could not be tried, and the reason says why.
    Skipped,
}

impl Outcome {
    /// As in the JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
