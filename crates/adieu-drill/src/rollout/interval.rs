//! How far an average over a few roll-outs can be trusted.

use crate::report::Interval;

/// So many times the roll-outs are drawn again.
const RESAMPLES: usize = 2_000;

/// The average, and the middle 95 % of the averages of as many roll-outs drawn from these with replacement. None for a
/// single one.
pub(super) fn bootstrap(values: &[f64], seed: u64) -> Option<Interval> {
    if values.len() < 2 {
        return None;
    }
    let mut rng = fastrand::Rng::with_seed(seed);
    let average = |sum: f64| sum / values.len() as f64;
    let mut means: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            average(
                (0..values.len())
                    .map(|_| values[rng.usize(..values.len())])
                    .sum(),
            )
        })
        .collect();
    means.sort_by(f64::total_cmp);
    Some(Interval {
        mean: average(values.iter().sum()),
        low: means[RESAMPLES / 40],
        high: means[RESAMPLES - 1 - RESAMPLES / 40],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_average_lies_in_its_interval_and_equal_values_have_none_to_speak_of() {
        let found = bootstrap(&[0.0, 4.0, 8.0, 0.0, 3.0], 1).expect("an interval");
        assert!(
            found.low < found.mean && found.mean < found.high,
            "{found:?}"
        );
        assert!((found.mean - 3.0).abs() < 1e-9);
        let same = bootstrap(&[2.0, 2.0], 1).expect("an interval");
        assert_eq!((same.low, same.high), (2.0, 2.0));
        assert_eq!(bootstrap(&[2.0], 1), None);
    }
}
