//! Lines of the log from the midst of work: an accept loop, a request, a job or a save must neither wait for a log nor
//! fail with it.
//!
//! They go the way of the notices, to the sink. A log that is written too slowly has some left out, and says so.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// So many may wait to be written; a log without a reader would take all memory otherwise.
const MOST: usize = 1_000;

/// The lines of a service.
#[derive(Default)]
pub(crate) struct DeferredLogs(Arc<LineCounts>);

#[derive(Default)]
struct LineCounts {
    waiting: AtomicUsize,
    left_out: AtomicUsize,
}

/// A line on its way to the log.
pub(crate) struct DeferredLog {
    write: Box<dyn FnOnce() + Send>,
    counts: Arc<LineCounts>,
}

impl DeferredLogs {
    /// A line for the log, if there is room for one more.
    pub(crate) fn take(&self, write: impl FnOnce() + Send + 'static) -> Option<DeferredLog> {
        // One more than there is room for does no harm: nothing else hangs on the count.
        if self.0.waiting.load(Relaxed) >= MOST {
            self.0.left_out.fetch_add(1, Relaxed);
            return None;
        }
        self.0.waiting.fetch_add(1, Relaxed);
        Some(DeferredLog {
            write: Box::new(write),
            counts: Arc::clone(&self.0),
        })
    }
}

impl DeferredLog {
    /// A panic of a log writer changes nothing here.
    pub(crate) fn write(self) {
        let Self { write, counts } = self;
        let _ = catch_unwind(AssertUnwindSafe(write));
        counts.waiting.fetch_sub(1, Relaxed);
        let left_out = counts.left_out.swap(0, Relaxed);
        if left_out > 0 {
            let _ = catch_unwind(|| {
                tracing::warn!(target: "adieu", left_out, "the log is written too slowly: {left_out} lines were left out");
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_is_not_written_takes_no_more_than_its_share() {
        let deferred_logs = DeferredLogs::default();
        let mut waiting: Vec<DeferredLog> =
            std::iter::from_fn(|| deferred_logs.take(|| {})).collect();
        assert_eq!(waiting.len(), MOST);
        assert_eq!(deferred_logs.0.left_out.load(Relaxed), 1);
        waiting.pop().into_iter().for_each(DeferredLog::write);
        assert_eq!(deferred_logs.0.left_out.load(Relaxed), 0);
        assert!(deferred_logs.take(|| panic!("the log is gone")).is_some());
    }

    #[test]
    fn a_line_that_panics_leaves_its_place_free() {
        let deferred_logs = DeferredLogs::default();
        let gone = deferred_logs.take(|| panic!("the log is gone"));
        gone.into_iter().for_each(DeferredLog::write);
        assert_eq!(deferred_logs.0.waiting.load(Relaxed), 0);
    }
}
