//! Whether the drill itself had the processor when it needed it.
//!
//! A small task asks to be woken at a steady pace. How late it is woken is how late everything else in this process may
//! have been: a time that was measured while it was very late says nothing about the program under drill.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use crate::report::Starvation;

const WAKE_INTERVAL: Duration = Duration::from_millis(5);
/// Later than this is worth a word in the report.
const REPORTED_DELAY: Duration = Duration::from_millis(100);
/// Later than this, and no judgement that rests on time alone stands.
const STARVATION_DELAY: Duration = Duration::from_millis(400);

/// Watches the pace. Dropped, it stops.
#[derive(Debug)]
pub(crate) struct StarvationMonitor {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Shared {
    /// In microseconds, since the last look.
    window: AtomicU64,
    /// In microseconds, since the start.
    worst: AtomicU64,
    times: AtomicU64,
}

impl StarvationMonitor {
    /// Starts on the present runtime.
    pub(crate) fn start() -> Self {
        let shared = Arc::new(Shared::default());
        let watching = Arc::clone(&shared);
        let task = tokio::spawn(async move {
            loop {
                let before = Instant::now();
                tokio::time::sleep(WAKE_INTERVAL).await;
                watching.note(before.elapsed().saturating_sub(WAKE_INTERVAL));
            }
        });
        Self { shared, task }
    }

    /// Forgets the lateness so far: a new window begins.
    pub(crate) fn begin(&self) {
        self.shared.window.store(0, Relaxed);
    }

    /// The worst lateness of this window, if it was so bad that times mean nothing.
    pub(crate) fn starved(&self) -> Option<Duration> {
        let worst = Duration::from_micros(self.shared.window.load(Relaxed));
        (worst > STARVATION_DELAY).then_some(worst)
    }

    /// For the report.
    pub(crate) fn starvation(&self) -> Option<Starvation> {
        let times = self.shared.times.load(Relaxed);
        (times > 0).then(|| Starvation {
            worst_ms: self.shared.worst.load(Relaxed) as f64 / 1_000.0,
            times,
            note: format!(
                "the machine was busy and the drill itself waited for the processor; a time measured while it waited \
                 for more than {} ms was measured again or is not judged",
                STARVATION_DELAY.as_millis()
            ),
        })
    }
}

impl Shared {
    fn note(&self, late: Duration) {
        let micros = u64::try_from(late.as_micros()).unwrap_or(u64::MAX);
        self.window.fetch_max(micros, Relaxed);
        self.worst.fetch_max(micros, Relaxed);
        if late > REPORTED_DELAY {
            self.times.fetch_add(1, Relaxed);
        }
    }
}

impl Drop for StarvationMonitor {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_blocked_drill_notices() {
        let monitor = StarvationMonitor::start();
        tokio::time::sleep(WAKE_INTERVAL * 2).await;
        // The runtime has one thread, and it is not available.
        std::thread::sleep(STARVATION_DELAY + WAKE_INTERVAL * 4);
        tokio::time::sleep(WAKE_INTERVAL * 2).await;
        assert!(monitor.starved().is_some());
        assert_eq!(monitor.starvation().expect("noticed").times, 1);
        monitor.begin();
        assert!(monitor.starved().is_none());
    }
}
