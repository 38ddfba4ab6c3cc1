//! What became of the jobs of several workers.

use serde::{Deserialize, Serialize};

/// What became of numbered jobs while workers were stopped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobsReport {
    /// The command that enqueued them.
    pub enqueue: String,
    /// The command that printed what was done.
    pub done: String,
    /// Jobs that were enqueued.
    pub asked: u64,
    /// Workers at a time.
    pub workers: u32,
    /// How long a job may belong to a worker that is gone, in milliseconds, as it was given.
    pub lease_ms: f64,
    /// Jobs that were not done.
    pub lost: u64,
    /// Jobs that were done more than once, without a SIGKILL that explains it.
    pub twice: u64,
    /// Jobs that were done again after a SIGKILL.
    pub again_after_kill: u64,
    /// Whether the ledger says when each job was begun and by which worker. If not, nothing is known of jobs in flight.
    pub followed: bool,
    /// The longest time that a job of a stopped worker waited for the next one, in milliseconds.
    #[serde(default)]
    pub longest_wait_ms: Option<f64>,
    /// How workers ended that were not stopped.
    #[serde(default)]
    pub ended_alone: Vec<String>,
    /// Every stop, in order.
    pub stops: Vec<JobsStop>,
}

/// One stop of a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobsStop {
    /// What the worker found in `ADIEU_DRILL_WORKER`: `w2-3`, the second worker, started for the third time.
    pub worker: String,
    /// `SIGTERM`, `SIGKILL`.
    pub signal: String,
    /// When, after the first worker was started, in milliseconds.
    pub at_ms: f64,
    /// From the signal to its end, in milliseconds.
    pub took_ms: f64,
    /// `exit code 0`.
    pub end: String,
    /// Jobs that were enqueued and not done a moment after the signal.
    pub left: u64,
    /// Jobs that it had begun and not done; absent if nothing is known of it.
    #[serde(default)]
    pub in_flight: Option<u64>,
    /// Those of them that it finished before its end.
    #[serde(default)]
    pub finished: Option<u64>,
}
