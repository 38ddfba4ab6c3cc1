//! What a roll-out behind a balancer did.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What happened behind a balancer while all instances were replaced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BehindReport {
    /// The name of the profile, or its file.
    pub profile: String,
    /// What it is a profile of.
    pub about: String,
    /// Its numbers, each with its source.
    pub numbers: Vec<String>,
    /// As it was set, and as it was advised if that was tried.
    pub runs: Vec<BehindRun>,
    /// What would have lost nothing.
    pub advice: BehindAdvice,
}

/// All instances replaced once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BehindRun {
    /// The time before the stop signal, in milliseconds.
    pub pre_stop_ms: f64,
    /// The grace period, that time included.
    pub grace_ms: f64,
    /// All requests.
    pub requests: u64,
    /// Those that the client got no good response to.
    pub lost: u64,
    /// Those for which the balancer made more than one attempt.
    pub retried: u64,
    /// How many were lost of which cause, and when.
    pub losses: Vec<String>,
}

/// What would have lost nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BehindAdvice {
    /// The time before the stop signal; absent where none helps.
    #[serde(default)]
    pub pre_stop_ms: Option<f64>,
    /// The grace period, that time included.
    pub grace_ms: f64,
    /// The server is to keep idle connections for longer than this; absent if the balancer keeps none.
    #[serde(default)]
    pub keep_alive_ms: Option<f64>,
    /// The advice in words.
    pub lines: Vec<String>,
}

impl BehindAdvice {
    /// The time before the stop signal.
    #[must_use]
    pub fn pre_stop(&self) -> Duration {
        Duration::from_secs_f64(self.pre_stop_ms.unwrap_or_default().max(0.0) / 1_000.0)
    }

    /// The grace period.
    #[must_use]
    pub fn grace(&self) -> Duration {
        Duration::from_secs_f64(self.grace_ms.max(0.0) / 1_000.0)
    }
}
