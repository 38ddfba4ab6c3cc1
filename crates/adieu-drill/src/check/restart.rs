//! A signal at which a program replaces its processes, or reads its configuration again.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::process::Signal;
use crate::running::RunningTarget;

/// How long a restart is given before it is looked at.
const RESTART_WAIT: Duration = Duration::from_secs(1);
const PROBE_INTERVAL: Duration = Duration::from_millis(50);

/// What was seen of one restart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Restart {
    /// When the signal was sent.
    pub(super) signal: Instant,
    /// Whether another process serves now than before.
    pub(super) replaced: bool,
}

/// Sends the signal and waits until the restart is over, as far as can be seen: a program that starts new processes for it
/// has so much time to end an old one.
pub(super) async fn restart(run: &RunningTarget, signal: Signal, limit: Duration) -> Restart {
    let before = pids(run).await;
    let signal = run.process.signal(signal);
    sleep(RESTART_WAIT).await;
    let mut now = pids(run).await;
    // New processes beside all the old ones: some of the old ones are still to end, and nothing tells when.
    while !now.is_subset(&before) && before.is_subset(&now) && signal.elapsed() < limit {
        sleep(PROBE_INTERVAL).await;
        now = pids(run).await;
    }
    Restart {
        signal,
        replaced: !now.is_subset(&before),
    }
}

/// The processes of the program, the first one included as long as it lives: in a hand-off that one ends.
async fn pids(run: &RunningTarget) -> BTreeSet<i64> {
    let all = run.process.descendants().await;
    let first = run.process.ended().is_none().then_some(0);
    all.iter()
        .map(|one| i64::from(one.pid))
        .chain(first)
        .collect()
}
