//! Contestants measured in turn.

use std::time::Duration;

/// How many rounds to take the best of: the word after `--rounds`, or `usual`.
#[must_use]
pub fn rounds(usual: usize) -> usize {
    let mut words = std::env::args().skip_while(|word| word != "--rounds");
    words
        .nth(1)
        .and_then(|word| word.parse().ok())
        .unwrap_or(usual)
        .max(1)
}

/// Contestants, and what each took in every round.
#[must_use = "a duel takes place in `fight`"]
#[derive(Default)]
pub struct Duel<'a> {
    contestants: Vec<Box<dyn FnMut() -> Duration + 'a>>,
}

impl<'a> Duel<'a> {
    /// No contestant yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// One more, measured after those before in each round.
    pub fn with(mut self, run: impl FnMut() -> Duration + 'a) -> Self {
        self.contestants.push(Box::new(run));
        self
    }

    /// All rounds. The best time of each contestant in nanoseconds, in the order they were added.
    #[must_use]
    pub fn fight<const N: usize>(mut self, rounds: usize) -> [f64; N] {
        let mut bests = [f64::INFINITY; N];
        for round in 0..rounds {
            // The one that comes second finds warmer caches and a grown heap: take turns at that too.
            for step in 0..N {
                let turn = (round + step) % N;
                let nanos = (self.contestants[turn])().as_secs_f64() * 1e9;
                bests[turn] = bests[turn].min(nanos);
            }
        }
        bests
    }
}

/// The smallest.
#[must_use]
pub fn best(numbers: &[f64]) -> f64 {
    numbers.iter().copied().fold(f64::INFINITY, f64::min)
}

/// The number that `percent` of a hundred are not above.
#[must_use]
pub fn percentile(numbers: &mut [f64], percent: usize) -> f64 {
    numbers.sort_by(f64::total_cmp);
    let index = (numbers.len() * percent).div_ceil(100).max(1) - 1;
    numbers[index]
}
