//! A bar for large trees, on a terminal only.

use std::io::IsTerminal;
use std::sync::OnceLock;

use indicatif::{ProgressBar, ProgressDrawTarget};

/// Smaller trees are done before a bar could be read.
const WORTH_A_BAR: usize = 2_000;

/// Counts files.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    bar: OnceLock<Option<ProgressBar>>,
}

impl Progress {
    /// One more file is read.
    pub(crate) fn step(&self, done: usize, total: usize) {
        let bar = self.bar.get_or_init(|| {
            (total >= WORTH_A_BAR && std::io::stderr().is_terminal()).then(|| {
                ProgressBar::with_draw_target(
                    Some(total as u64),
                    ProgressDrawTarget::stderr_with_hz(10),
                )
            })
        });
        if let Some(bar) = bar {
            bar.set_position(done as u64);
        }
    }

    /// Takes the bar away, so that it does not stand among the findings.
    pub(crate) fn finish(&self) {
        if let Some(Some(bar)) = self.bar.get() {
            bar.finish_and_clear();
        }
    }
}
