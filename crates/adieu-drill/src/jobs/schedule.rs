//! When which worker is stopped, and which jobs are enqueued before: all of it from the seed.

use std::ops::RangeInclusive;

/// One stop to come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Planned {
    /// Which worker, from 0.
    pub(super) worker: usize,
    pub(super) kill: bool,
    /// When: this share of the time that as many jobs took without a stop.
    pub(super) share: f64,
}

/// Not at the very end, when the last job of a batch may be over.
const LATEST: f64 = 0.8;

/// The stops in order. With `kill` every second one is by SIGKILL.
pub(super) fn stops(seed: u64, count: u32, workers: u32, kill: bool) -> Vec<Planned> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let odd = rng.bool();
    (0..count)
        .map(|number| Planned {
            worker: rng.usize(..workers.max(1) as usize),
            kill: kill && (number % 2 == 1) == odd,
            share: rng.f64() * LATEST,
        })
        .collect()
}

/// All jobs in as many batches as there are stops, and one before them.
pub(super) fn batches(jobs: u64, stops: u32) -> Vec<RangeInclusive<u64>> {
    let count = u64::from(stops) + 1;
    let end = |batch: u64| {
        // In two steps: the product may not fit.
        let (each, rest) = (jobs / count, jobs % count);
        each * batch + rest.min(batch)
    };
    (0..count)
        .map(|batch| end(batch) + 1..=end(batch + 1))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_is_in_one_batch() {
        for (jobs, stops) in [(4, 1), (100, 9), (101, 9), (1_000_000, 1_000), (7, 2)] {
            let batches = batches(jobs, stops);
            assert_eq!(batches.len(), stops as usize + 1);
            let all: Vec<u64> = batches.into_iter().flatten().collect();
            assert_eq!(all, (1..=jobs).collect::<Vec<_>>());
        }
    }

    #[test]
    fn one_seed_is_one_schedule() {
        assert_eq!(stops(7, 20, 3, true), stops(7, 20, 3, true));
        assert_ne!(stops(7, 20, 3, true), stops(8, 20, 3, true));
    }

    #[test]
    fn half_of_the_stops_kill_if_that_is_wanted() {
        for seed in 0..20 {
            let kills = |kill| {
                let stops = stops(seed, 10, 3, kill);
                stops.iter().filter(|it| it.kill).count()
            };
            assert_eq!((kills(false), kills(true)), (0, 5));
        }
    }

    #[test]
    fn every_worker_has_its_turn_and_every_instant() {
        let stops = stops(1, 1_000, 3, false);
        for worker in 0..3 {
            assert!(stops.iter().any(|it| it.worker == worker));
        }
        assert!(stops.iter().all(|it| (0.0..LATEST).contains(&it.share)));
        assert!(stops.iter().any(|it| it.share < 0.1) && stops.iter().any(|it| it.share > 0.7));
    }
}
