//! Lines of the log from the midst of work: an accept loop or a request must neither wait for a log nor fall with it.
//!
//! They go the way of the notices, to the herald. A log that is written too slowly has some left out, and says so.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::core::{Core, Message};

/// So many may wait to be written; a log that nobody reads would take all memory otherwise.
const MOST: usize = 1_000;

/// The lines of a service.
#[derive(Default)]
pub(crate) struct Asides(Arc<Counts>);

#[derive(Default)]
struct Counts {
    waiting: AtomicUsize,
    left_out: AtomicUsize,
}

/// A line on its way to the log.
pub(crate) struct Aside {
    write: Box<dyn FnOnce() + Send>,
    counts: Arc<Counts>,
}

impl Asides {
    /// A line for the herald, if there is room for one more.
    fn take(&self, write: impl FnOnce() + Send + 'static) -> Option<Aside> {
        // One more than there is room for does no harm: nothing else hangs on the count.
        if self.0.waiting.load(Relaxed) >= MOST {
            self.0.left_out.fetch_add(1, Relaxed);
            return None;
        }
        self.0.waiting.fetch_add(1, Relaxed);
        Some(Aside {
            write: Box::new(write),
            counts: Arc::clone(&self.0),
        })
    }
}

impl Core {
    /// Writes a line to the log, beside the work that has something to say.
    pub(crate) fn aside(&self, write: impl FnOnce() + Send + 'static) {
        if let Some(line) = self.asides.take(write) {
            self.inbox.push(Message::Aside(line));
        }
    }
}

impl Aside {
    /// Whoever panics here has no say in anything.
    pub(crate) fn say(self) {
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
    fn a_log_that_nobody_writes_takes_no_more_than_its_share() {
        let asides = Asides::default();
        let mut waiting: Vec<Aside> = std::iter::from_fn(|| asides.take(|| {})).collect();
        assert_eq!(waiting.len(), MOST);
        assert_eq!(asides.0.left_out.load(Relaxed), 1);
        waiting.pop().into_iter().for_each(Aside::say);
        assert_eq!(asides.0.left_out.load(Relaxed), 0);
        assert!(asides.take(|| panic!("the log is gone")).is_some());
    }

    #[test]
    fn a_line_that_panics_leaves_its_place_free() {
        let asides = Asides::default();
        let gone = asides.take(|| panic!("the log is gone"));
        gone.into_iter().for_each(Aside::say);
        assert_eq!(asides.0.waiting.load(Relaxed), 0);
    }
}
