//! The library as users have it: its tests with the feature sets that programs choose, without `testing`.
//!
//! The step `tests` has every feature of every package on at once. A program never does, and a test that passes only
//! because of a feature it does not name shows here.

use crate::checkout::Checkout;
use crate::runner;
use crate::skips::Skips;
use crate::step::{Failure, Outcome};

/// Feature sets of the library.
const SETS: [&str; 5] = [
    "",
    "axum,tls-no-provider",
    "axum,admin,http2",
    "state",
    "postgres,state",
];

/// Programs that are tested as processes of their own, built with just the features in their manifest.
const PROGRAMS: [&str; 2] = ["fixture-actor", "example-echo"];

pub(crate) fn tests(checkout: &Checkout) -> Outcome {
    let skips = Skips::begin(checkout)?;
    let mut said = Vec::new();
    let mut failed = Vec::new();
    for selection in selections() {
        let words: Vec<&str> = selection.iter().map(String::as_str).collect();
        let name = selection.join(" ");
        match runner::selected(checkout, &words, &skips) {
            Ok(words) => said.push(words),
            Err(failure) => {
                println!("{name}: {}", failure.why());
                failed.push(name);
            }
        }
    }
    let outcome = if failed.is_empty() {
        Ok(said.join("; "))
    } else {
        Err(Failure::new(failed.join("; ")))
    };
    skips.conclude(outcome, crate::in_ci())
}

/// The words that select each build.
fn selections() -> Vec<Vec<String>> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let sets = SETS.map(|set| {
        words(&[
            "--package",
            "adieu",
            "--no-default-features",
            "--features",
            set,
        ])
    });
    let programs = PROGRAMS.map(|program| words(&["--package", program]));
    sets.into_iter().chain(programs).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_set_has_what_only_tests_have() {
        assert!(SETS.iter().all(|set| !set.contains("testing")));
        assert_eq!(selections().len(), SETS.len() + PROGRAMS.len());
    }
}
