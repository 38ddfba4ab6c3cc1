//! Percentiles of many processes, ours and a peer's in turn.

use std::io;

use crate::duel::percentile;

/// Processes in a series: enough for a p99.
const PROCESSES: usize = 200;

/// What each process took, series by series.
pub struct Series {
    ours: Vec<Vec<f64>>,
    peer: Vec<Vec<f64>>,
}

impl Series {
    /// Measures all series: `one` starts a process of the named role and says what it took.
    ///
    /// # Errors
    /// Those of `one`.
    pub fn measure(
        series: usize,
        peer: &str,
        mut one: impl FnMut(&str) -> io::Result<f64>,
    ) -> io::Result<Self> {
        let mut all = Self {
            ours: Vec::new(),
            peer: Vec::new(),
        };
        for _ in 0..series {
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            for _ in 0..PROCESSES {
                ours.push(one("ours")?);
                theirs.push(one(peer)?);
            }
            all.ours.push(ours);
            all.peer.push(theirs);
        }
        Ok(all)
    }

    /// The percentile of the least disturbed series, ours and the peer's.
    #[must_use]
    pub fn best(&mut self, percent: usize) -> (f64, f64) {
        let least = |all: &mut [Vec<f64>]| {
            all.iter_mut()
                .map(|times| percentile(times, percent))
                .fold(f64::INFINITY, f64::min)
        };
        (least(&mut self.ours), least(&mut self.peer))
    }
}
