//! What a roll-out behind a balancer looks like as text, which is also what the page of the guide shows.

use adieu_drill::render::{self, Style};
use adieu_drill::report::{
    BehindAdvice, BehindReport, BehindRun, Check, Group, Level, Outcome, Report, Target,
};

const PAGE: &str = include_str!("../../../../docs/drill-behind.md");

fn check(id: &str, outcome: Outcome, reason: &str, duration_ms: u64) -> Check {
    let found = adieu_drill::find_check(id).expect("a check behind a balancer");
    Check {
        id: id.to_owned(),
        group: Group::Rollout,
        why: found.why().to_owned(),
        outcome,
        reason: reason.to_owned(),
        evidence: Vec::new(),
        threshold: None,
        measured: None,
        hint: None,
        duration_ms,
        repeats: 1,
    }
}

fn run(pre_stop_ms: f64, grace_ms: f64, requests: u64, losses: &[(u64, &str)]) -> BehindRun {
    BehindRun {
        pre_stop_ms,
        grace_ms,
        requests,
        lost: losses.iter().map(|(lost, _)| lost).sum(),
        retried: 0,
        losses: losses.iter().map(|(_, line)| (*line).to_owned()).collect(),
    }
}

pub(crate) fn sample() -> Report {
    let target = Target {
        name: "web".to_owned(),
        command: ["python3", "web.py", "{port}"].map(str::to_owned).to_vec(),
        address: "http://127.0.0.1:{port}/".to_owned(),
    };
    let mut report = Report::new(target, 1, Level::Default);
    report.checks = vec![
        check(
            "behind-lost",
            Outcome::Failed,
            "143 of 505 requests lost while all instances were replaced, 0 retried by the balancer",
            15_700,
        ),
        check(
            "behind-in-time",
            Outcome::Passed,
            "each instance ended by itself, the slowest 8.7 ms after the stop signal",
            0,
        ),
        check(
            "behind-advice",
            Outcome::Passed,
            "0 of 944 requests lost with 4.00 s before the stop signal and a grace period of 9.00 s",
            0,
        ),
    ];
    let losses = [
        (
            69,
            "69 lost: sent to an instance that had closed its listener, 20 ms after to 2.06 s after its stop signal \
             (instance 1); the balancer sent to it until 2.07 s after",
        ),
        (
            73,
            "73 lost: sent to an instance that had closed its listener, 30 ms after to 1.47 s after its stop signal \
             (instance 2); the balancer sent to it until 1.48 s after",
        ),
        (
            1,
            "1 lost: its new connection was reset before a byte of the response, 4.5 ms after to 4.5 ms after its stop \
             signal (instance 2); the balancer sent to it until 1.48 s after",
        ),
    ];
    report.behind = Some(BehindReport {
        profile: "kube-proxy".to_owned(),
        about: "a Kubernetes Service behind kube-proxy".to_owned(),
        numbers: vec![
            "nothing new is sent to an instance 1.00 s to 3.00 s after its stop has begun (1 to 3 s between the deletion \
             of a pod and the last rule of kube-proxy, measured by operators and published in 2026)"
                .to_owned(),
        ],
        runs: vec![
            run(0.0, 30_000.0, 505, &losses),
            run(4_000.0, 9_000.0, 944, &[]),
        ],
        advice: BehindAdvice {
            pre_stop_ms: Some(4_000.0),
            grace_ms: 9_000.0,
            keep_alive_ms: None,
            lines: vec![
                "serve on for 4.00 s before the stop signal (preStop sleep, `adieu run --pre-stop`, lame duck): 143 of 143 \
                 lost requests were sent to an instance that was stopping"
                    .to_owned(),
                "grace period: 9 s (terminationGracePeriodSeconds): 4 s before the signal, and half as long again as the \
                 slowest stop and two seconds"
                    .to_owned(),
            ],
        },
    });
    report.duration_ms = 15_700;
    report.judge();
    report
}

#[test]
fn the_page_of_the_guide_shows_what_is_printed() {
    let text = render::text(&sample(), Style::PLAIN);
    assert!(
        PAGE.contains(text.trim_end()),
        "docs/drill-behind.md must show this:\n{text}"
    );
}

#[test]
fn it_is_whole_in_json_and_told_on_the_page_for_a_browser() {
    let report = sample();
    let again = Report::from_json(&report.to_json()).expect("it reads what it writes");
    assert_eq!(again, report);
    let page = render::html(&report);
    assert!(page.contains("Behind kube-proxy"), "no section");
}
