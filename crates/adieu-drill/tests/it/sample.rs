//! Reports made by hand.

use std::time::Duration;

use adieu_drill::report::{
    Bar, Check, Fate, Group, Level, Mark, MarkKind, Outcome, Recommendation, Report, Starvation,
    StopTimeline, Target,
};

pub(crate) fn check(id: &str, group: Group, outcome: Outcome, reason: &str) -> Check {
    Check {
        id: id.to_owned(),
        group,
        why: format!("Why {id} matters."),
        outcome,
        reason: reason.to_owned(),
        evidence: Vec::new(),
        threshold: None,
        measured: None,
        hint: None,
        duration_ms: 1_234,
        repeats: 3,
    }
}

fn empty() -> Report {
    let target = Target {
        name: "web".to_owned(),
        command: ["./web", "--port", "{port}"].map(str::to_owned).to_vec(),
        address: "http://127.0.0.1:{port}/".to_owned(),
    };
    let mut report = Report::new(target, 42, Level::Quick);
    report.tool = "adieu".to_owned();
    report.started = "2026-01-02T03:04:05.678Z".to_owned();
    report.duration_ms = 21_300;
    report
}

/// All is well.
pub(crate) fn passing() -> Report {
    let mut report = empty();
    report.checks = vec![
        check(
            "inflight-finishes",
            Group::Drain,
            Outcome::Passed,
            "64 requests were in flight at the signal, and all were answered whole",
        ),
        check(
            "slow-upload",
            Group::Drain,
            Outcome::Skipped,
            "no upload path; --upload PATH names one",
        ),
        check(
            "exit-code",
            Group::Exit,
            Outcome::Passed,
            "exit code 0 each time",
        ),
    ];
    report.stops = vec![stop(64, 20)];
    report.recommendation = Some(Recommendation::from_worst(Duration::from_millis(1_530)));
    report.judge();
    report
}

/// Some of it is not.
pub(crate) fn failing() -> Report {
    let mut report = passing();
    let mut refuses = check(
        "listener-refuses",
        Group::Drain,
        Outcome::Failed,
        "3 of 120 new connections were accepted after the drain began and never heard of again, which is worse than a \
         refusal because the client waits",
    );
    refuses.measured = Some("3 silent".to_owned());
    refuses.threshold = Some("none silent".to_owned());
    refuses.evidence = vec![
        "run 1: 127.0.0.1:40110 connected 12 ms after the signal, no byte in 5.00 s".to_owned(),
        "run 2: \x1b[31mred\x1b[0m and\na line break".to_owned(),
    ];
    refuses.hint = Some(
        "uvicorn: run it with --timeout-graceful-shutdown.\nadieu: app.http closes the listener first."
            .to_owned(),
    );
    report.checks.insert(1, refuses);
    let stop = &mut report.stops[0];
    for (at, fate) in [
        (3, Fate::Reset),
        (5, Fate::Truncated),
        (8, Fate::Refused),
        (9, Fate::ServerError),
    ] {
        stop.requests[at].fate = fate;
    }
    report.stops.push(self::stop(2, 3));
    report.starvation = Some(Starvation {
        worst_ms: 87.5,
        times: 4,
        note: "times in this report may be longer by as much".to_owned(),
    });
    report.judge();
    report
}

/// A stop with this many connections and this many requests on each, 1.53 s from signal to exit.
pub(crate) fn stop(connections: u32, requests: u32) -> StopTimeline {
    let mark = |at_us, kind, label: &str| Mark {
        at_us,
        kind,
        label: label.to_owned(),
    };
    let bars = (0..connections).flat_map(|connection| {
        (0..requests).map(move |number| {
            let length = 1_800_000 / i64::from(requests);
            let start_us =
                -600_000 + i64::from(number) * length + i64::from(connection * 7919 % 97) * 300;
            Bar {
                start_us,
                end_us: start_us + length * 9 / 10,
                connection,
                label: if connection % 4 == 0 {
                    "GET /slow?ms=100"
                } else {
                    "GET /"
                }
                .to_owned(),
                fate: Fate::Answered,
            }
        })
    });
    StopTimeline {
        check: "inflight-finishes".to_owned(),
        run: 1,
        marks: vec![
            mark(0, MarkKind::Signal, "SIGTERM"),
            mark(2_100, MarkKind::ReadinessOff, "503 from /readyz"),
            mark(61_000, MarkKind::ListenerClosed, ""),
            mark(1_228_000, MarkKind::LastResponse, ""),
            mark(1_530_000, MarkKind::Exit, "code 0"),
        ],
        requests: bars.collect(),
        omitted: 0,
    }
}

/// What an adieu service says of the same stop.
pub(crate) fn own_report() -> serde_json::Value {
    serde_json::json!({
        "version": 1,
        "service": "web",
        "cause": "sigterm",
        "exit_code": 0,
        "took_ms": 1520.0,
        "grace_ms": 10000.0,
        "phases": [
            {"phase": "announce", "began_ms": 0.0, "took_ms": 50.0, "budget_ms": 50.0},
            {"phase": "drain", "began_ms": 50.0, "took_ms": 1200.0, "budget_ms": 7000.0},
            {"phase": "release", "began_ms": 1250.0, "took_ms": 260.0, "budget_ms": 8000.0},
        ],
        "parts": [{"name": "web", "kind": "http", "outcome": "finished", "notes": ["accept queue drained"]}],
        "timeline": [
            {"event": "stopping", "cause": "sigterm", "at_ms": 5000.0},
            {"event": "finished", "kind": "http", "part": "web", "at_ms": 6240.0},
        ],
    })
}
