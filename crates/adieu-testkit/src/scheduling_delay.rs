//! How long this machine has kept a thread waiting that wanted to run: what that says of a time that was measured.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// A thread that wakes every few milliseconds and notes how late it was. It ends when this is dropped.
#[derive(Debug)]
#[must_use = "it notes nothing once it is dropped"]
pub struct SchedulingDelay {
    latest: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
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

    /// How late it was at worst.
    #[must_use]
    pub fn latest(&self) -> Duration {
        Duration::from_millis(self.latest.load(Relaxed))
    }
}

impl Drop for SchedulingDelay {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
    }
}

/// Whether more threads want to run on this machine than it has processors for, by its load of the last minute. A time
/// that is measured then says little.
#[must_use]
pub fn is_busy() -> bool {
    let load = std::fs::read_to_string("/proc/loadavg").ok();
    let load = load.and_then(|load| load.split(' ').next()?.parse::<f64>().ok());
    let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let cores = f64::from(u32::try_from(cores).unwrap_or(u32::MAX));
    load.is_some_and(|load| load > cores)
}
