//! How long this machine has kept a thread waiting that wanted to run: what that says of a time that was measured.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// A thread that wakes every few milliseconds and notes how late it was, and what the kernel says of all threads. It ends
/// when this is dropped.
#[derive(Debug)]
#[must_use = "it notes nothing once it is dropped"]
pub struct SchedulingDelay {
    latest: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    before: Option<Duration>,
}

const BEAT: Duration = Duration::from_millis(5);

impl SchedulingDelay {
    /// Begins to look.
    pub fn start() -> Self {
        let (latest, is_over) = (
            Arc::new(AtomicU64::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let delay = Self {
            latest: Arc::clone(&latest),
            is_over: Arc::clone(&is_over),
            before: waited_for_a_processor(),
        };
        thread::spawn(move || {
            while !is_over.load(Relaxed) {
                let began = Instant::now();
                thread::sleep(BEAT);
                let late = began.elapsed().saturating_sub(BEAT);
                let late = u64::try_from(late.as_millis()).unwrap_or(u64::MAX);
                latest.fetch_max(late, Relaxed);
            }
        });
        delay
    }

    /// How long a thread may have waited since the start: how late this one was at worst, or, where the kernel counts it,
    /// for how long in all any thread had to wait. A thread that computes waits for longer than one that only wakes.
    #[must_use]
    pub fn latest(&self) -> Duration {
        let latest = Duration::from_millis(self.latest.load(Relaxed));
        let waited = waited_for_a_processor().zip(self.before);
        waited.map_or(latest, |(now, before)| {
            latest.max(now.saturating_sub(before))
        })
    }
}

/// For how long, since the machine started, at least one thread was kept waiting.
fn waited_for_a_processor() -> Option<Duration> {
    let pressure = std::fs::read_to_string("/proc/pressure/cpu").ok()?;
    let (_, total) = pressure.lines().next()?.split_once("total=")?;
    total.parse().map(Duration::from_micros).ok()
}

impl Drop for SchedulingDelay {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
    }
}
