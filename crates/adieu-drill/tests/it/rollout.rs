//! What a roll-out looks like as text, which is also what the page of the guide shows.

use adieu_drill::render::{self, Style};
use adieu_drill::report::{
    Check, Group, Level, Mark, MarkKind, Moment, Outcome, Phase, Report, RolloutReport, RolloutRun,
    StopTimeline, Target, Totals,
};

const PAGE: &str = include_str!("../../../../docs/drill-rollout.md");

fn check(id: &str, outcome: Outcome, reason: &str, evidence: &[&str]) -> Check {
    let found = adieu_drill::find_check(id).expect("a check of a roll-out");
    Check {
        id: id.to_owned(),
        group: Group::Rollout,
        why: found.why().to_owned(),
        outcome,
        reason: reason.to_owned(),
        evidence: evidence.iter().map(|&line| line.to_owned()).collect(),
        threshold: None,
        measured: None,
        hint: None,
        duration_ms: if id == "rollout-lost" { 5_490 } else { 0 },
        repeats: 1,
    }
}

fn phase(totals: Totals, p50_ms: f64, p99_ms: f64, max_ms: f64) -> Phase {
    Phase {
        totals,
        p50_ms,
        p99_ms,
        max_ms,
    }
}

fn answered(answered: u64) -> Totals {
    Totals {
        answered,
        ..Totals::default()
    }
}

pub(crate) fn sample() -> Report {
    let target = Target {
        name: "127.0.0.1:8080".to_owned(),
        command: vec!["./replace.sh".to_owned()],
        address: "http://127.0.0.1:8080/".to_owned(),
    };
    let mut report = Report::new(target, 1, Level::Default);
    report.checks = vec![
        check(
            "rollout-lost",
            Outcome::Failed,
            "1 of 99 requests lost in the roll-out",
            &[
                "1 request reset before a byte of the answer, at 0.30 s, 1.8 ms after the command printed \"stopping web-1\", on \
               new connections; the last was open for 0.6 ms; x-request-id ends with 0000000462",
            ],
        ),
        check(
            "rollout-refused",
            Outcome::Failed,
            "27 of 99 requests refused in the roll-out",
            &[
                "27 requests refused, from 0.31 s to 0.44 s, 6.2 ms after the command printed \"stopping web-1\"; x-request-id ends \
               with 0000000463",
            ],
        ),
        check(
            "rollout-errors",
            Outcome::Passed,
            "0 of 99 requests answered with 5xx in the roll-out",
            &[],
        ),
        check(
            "rollout-gap",
            Outcome::Passed,
            "for at most 148 ms no request was answered well, from 0.30 s on, and 2.1 ms later the command printed \"stopping web-1\"",
            &[],
        ),
        check(
            "rollout-p99",
            Outcome::Passed,
            "99 of 100 requests were answered within 17 ms during the roll-out, 10 ms before it and 10 ms after it",
            &[],
        ),
        check(
            "rollout-settles",
            Outcome::Passed,
            "every request was answered well from the end of the command on",
            &[],
        ),
    ];
    let during = Totals {
        answered: 71,
        lost: 1,
        refused: 27,
        ..Totals::default()
    };
    report.rollout = Some(RolloutReport {
        command: "./replace.sh".to_owned(),
        url: "http://127.0.0.1:8080/".to_owned(),
        pace: "200 requests a second, half of them on keep-alive connections".to_owned(),
        runs: vec![RolloutRun {
            command_ms: 475.0,
            steady_ms: Some(475.0),
            before: phase(answered(399), 2.1, 10.0, 13.0),
            during: phase(during, 2.0, 17.0, 17.0),
            after: phase(answered(600), 2.0, 10.0, 14.0),
            largest_gap: Moment::default(),
            failures: Vec::new(),
        }],
        lost: None,
    });
    let mark = |at_us, kind, label: &str| Mark {
        at_us,
        kind,
        label: label.to_owned(),
    };
    report.stops.push(StopTimeline {
        check: "rollout-lost".to_owned(),
        run: 1,
        marks: vec![
            mark(0, MarkKind::CommandStarted, ""),
            mark(299_000, MarkKind::CommandPrinted, "stopping web-1"),
            mark(306_000, MarkKind::CommandPrinted, "starting web-2"),
            mark(475_000, MarkKind::CommandEnded, "exit code 0"),
            mark(475_000, MarkKind::Steady, ""),
        ],
        requests: Vec::new(),
        omitted: 0,
    });
    report.duration_ms = 5_490;
    report.judge();
    report
}

#[test]
fn the_page_of_the_guide_shows_what_is_printed() {
    let text = render::text(&sample(), Style::PLAIN);
    insta::assert_snapshot!(text);
    assert!(
        PAGE.contains(text.trim_end()),
        "docs/drill-rollout.md shows something else"
    );
}

#[test]
fn a_roll_out_is_whole_in_json_and_has_its_numbers_on_the_page_for_a_browser() {
    let report = sample();
    let again = Report::from_json(&report.to_json()).expect("it reads what it writes");
    assert_eq!(again, report);
    let page = render::html(&report);
    for words in [
        "Before, during and after the roll-out",
        "From the command",
        "27",
    ] {
        assert!(page.contains(words), "{words}");
    }
}
