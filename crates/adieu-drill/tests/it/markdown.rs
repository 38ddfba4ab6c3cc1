//! Markdown and badges, as a build server shows them.

use adieu_drill::render::{badge, markdown};
use adieu_drill::report::{Level, Report, Target};
use serde_json::{Value, json};

use crate::{behind, jobs, rollout, sample};

#[test]
fn a_comment_has_the_verdict_the_checks_and_how_to_fix_what_failed() {
    insta::assert_snapshot!(markdown(&[sample::failing()]));
}

#[test]
fn each_kind_of_drill_has_its_numbers() {
    let text = markdown(&[rollout::sample(), behind::sample(), jobs::sample()]);
    for words in [
        "| during |",
        "\nBehind kube-proxy: ",
        "| 2 | w1-1 | SIGKILL | 2.05 s |",
        "200 jobs enqueued, 2 workers at a time, 4 stops",
    ] {
        assert!(text.contains(words), "no `{words}` in {text}");
    }
    assert_eq!(text.matches("### adieu drill: ").count(), 3);
}

#[test]
fn a_badge_counts_what_was_judged() {
    let of = |reports: &[Report]| -> Value { serde_json::from_str(&badge(reports)).expect("JSON") };
    let shown = |message: &str, color: &str| json!({ "schemaVersion": 1, "label": "shutdown", "message": message, "color": color });
    assert_eq!(of(&[sample::passing()]), shown("2/2", "brightgreen"));
    assert_eq!(of(&[jobs::sample()]), shown("3/5", "red"));
    assert_eq!(
        of(&[sample::passing(), jobs::sample()]),
        shown("5/7", "red")
    );
    let nothing = Report::new(Target::default(), 1, Level::Quick);
    assert_eq!(of(&[nothing]), shown("not judged", "lightgrey"));
    assert_eq!(of(&[]), shown("not judged", "lightgrey"));
}
