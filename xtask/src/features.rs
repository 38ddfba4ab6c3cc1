//! Every package with features is built without them, and with each one alone: what only compiles
//! because another feature is on, or is left unused without it, shows here and nowhere else.

use crate::checkout::Checkout;
use crate::command;
use crate::metadata::{self, Package};
use crate::step::{Failure, Outcome};

pub(crate) fn check(checkout: &Checkout) -> Outcome {
    let members = metadata::members(checkout)?;
    let builds: Vec<Vec<&str>> = members.iter().flat_map(builds).collect();
    let mut failed = 0;
    for build in &builds {
        // Clippy rather than check: the only way to have warnings denied for our packages alone.
        // RUSTFLAGS would have all dependencies built again.
        let words = ["clippy", "--quiet"]
            .iter()
            .chain(build)
            .chain(&["--", "-D", "warnings"]);
        if let Err(failure) = command::run(&mut checkout.cargo(words.copied())) {
            println!("{}", failure.why());
            failed += 1;
        }
    }
    match failed {
        0 => Ok(format!("{} builds", builds.len())),
        _ => Err(Failure::new(format!("{failed} of {} builds", builds.len()))),
    }
}

/// The words that select each build of a package.
fn builds(package: &Package) -> Vec<Vec<&str>> {
    if package.features.is_empty() {
        return Vec::new();
    }
    let bare = vec!["--package", package.name.as_str(), "--no-default-features"];
    let single = package.features.keys().map(|feature| {
        let mut words = bare.clone();
        words.extend(["--features", feature.as_str()]);
        words
    });
    let mut all = vec![bare.clone()];
    all.extend(single);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(features: &[&str]) -> Package {
        Package {
            name: "adieu".to_owned(),
            version: "0.1.0".to_owned(),
            license: None,
            source: None,
            features: features
                .iter()
                .map(|name| ((*name).to_owned(), Vec::new()))
                .collect(),
        }
    }

    #[test]
    fn without_features_there_is_nothing_to_choose() {
        assert!(builds(&package(&[])).is_empty());
    }

    #[test]
    fn none_and_then_each_alone() {
        let package = package(&["default", "testing"]);
        let lines: Vec<String> = builds(&package)
            .iter()
            .map(|words| words.join(" "))
            .collect();
        assert_eq!(
            lines,
            [
                "--package adieu --no-default-features",
                "--package adieu --no-default-features --features default",
                "--package adieu --no-default-features --features testing",
            ]
        );
    }
}
