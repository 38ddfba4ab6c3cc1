//! Two reports side by side.

use adieu_drill::compare::{Comparison, Direction};
use adieu_drill::render::Style;
use adieu_drill::report::{Group, Level, Outcome};

use crate::sample;

#[test]
fn what_passed_and_fails_now_is_worse() {
    let mut before = sample::passing();
    before.checks.insert(
        1,
        sample::check(
            "listener-refuses",
            Group::Drain,
            Outcome::Passed,
            "refused at once",
        ),
    );
    let comparison = Comparison::of(&before, &sample::failing());
    assert!(comparison.worse);
    insta::assert_snapshot!(comparison.to_text(Style::PLAIN));
}

#[test]
fn what_failed_and_passes_now_is_better() {
    let mut after = sample::passing();
    after.level = Level::Full;
    after.checks.insert(
        1,
        sample::check(
            "listener-refuses",
            Group::Drain,
            Outcome::Passed,
            "refused at once",
        ),
    );
    after.checks[2].outcome = Outcome::Passed;
    after.checks.pop();
    let comparison = Comparison::of(&sample::failing(), &after);
    assert!(!comparison.worse);
    insta::assert_snapshot!(comparison.to_text(Style::PLAIN));
}

#[test]
fn a_failure_that_is_new_or_was_skipped_is_not_worse_and_is_told() {
    let before = sample::passing();
    let mut after = sample::failing();
    after.checks[2].outcome = Outcome::Failed;
    let comparison = Comparison::of(&before, &after);
    assert!(!comparison.worse);
    let unknown: Vec<&str> = comparison
        .checks
        .iter()
        .filter(|change| change.direction == Direction::Unknown)
        .map(|change| change.id.as_str())
        .collect();
    assert_eq!(unknown, ["listener-refuses", "slow-upload"]);
}

#[test]
fn the_same_is_the_same() {
    let comparison = Comparison::of(&sample::failing(), &sample::failing());
    assert!(!comparison.worse && comparison.differences.is_empty());
    assert!(
        comparison
            .checks
            .iter()
            .all(|change| change.direction == Direction::Same)
    );
    let json: serde_json::Value = serde_json::from_str(&comparison.to_json()).expect("JSON");
    assert_eq!(json["checks"][1]["after"], "failed");
}
