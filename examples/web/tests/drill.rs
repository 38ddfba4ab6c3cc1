//! `adieu drill` holds the server against its checks. With `ADIEU_PROVE` set against all that apply, twenty times each.

use std::env;
use std::time::Duration;

use adieu_drill::Drill;
use adieu_drill::report::{Level, Outcome};

/// What says most in little time.
const FEW: &[&str] = &[
    "inflight-finishes",
    "slow-reader",
    "pipelined",
    "connection-close",
    "keepalive-race",
    "fresh-connections",
    "h2-goaway",
    "websocket-1001",
    "sse-ends",
    "ready-before-close",
    "exit-code",
    "no-orphans",
];

/// Those of them that are judged by what is seen, whenever it is seen.
const ALWAYS: &[&str] = &["connection-close", "exit-code", "no-orphans"];

/// What the server does not have: state that outlives it.
const ELSEWHERE: &[&str] = &["state-intact", "resume"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_passes_the_drill() {
    let mut drill = Drill::command([
        env!("CARGO_BIN_EXE_example-web"),
        "--listen",
        "127.0.0.1:{port}",
        "--admin",
        "127.0.0.1:{port2}",
        "--grace",
        "5s",
        "--lame-duck",
        "300ms",
    ])
    .http("http://127.0.0.1:{port}/")
    .readiness("http://127.0.0.1:{port2}/readyz")
    .liveness("http://127.0.0.1:{port2}/livez")
    .reload()
    .held_socket();
    if env::var_os("ADIEU_PROVE").is_some() {
        drill = drill
            .level(Level::Full)
            .repeat(20)
            .grace(Duration::from_secs(20));
        for id in ELSEWHERE {
            drill = drill.skip(*id);
        }
    } else {
        drill = drill.level(Level::Quick);
        for id in FEW {
            drill = drill.check(*id);
        }
    }
    let report = drill.run().await.expect("it can be drilled");
    let mut unjudged = Vec::new();
    for check in &report.checks {
        eprintln!(
            "{:<20} {:<8} {} {:?}",
            check.id, check.outcome, check.reason, check.evidence
        );
        let is_too_busy = check.reason.starts_with("not judged");
        match check.outcome {
            Outcome::Passed => {}
            // The system does not let us; or it was too busy to tell.
            Outcome::Skipped if check.id == "as-pid-1" || is_too_busy => unjudged.push(&*check.id),
            _ => panic!(
                "{} {}: {} {:#?}",
                check.id, check.outcome, check.reason, check.evidence
            ),
        }
    }
    // A check that is not made is not passed.
    for id in FEW {
        let is_there = report.checks.iter().any(|check| check.id == *id);
        assert!(is_there, "{id} is not in the report");
    }
    // No time decides about these, so that no machine is too busy for them.
    for id in ALWAYS {
        assert!(!unjudged.contains(id), "{id} was not judged");
    }
    if !unjudged.is_empty() {
        fixture_skip::too_busy(format!("not judged: {}", unjudged.join(", ")));
    }
}
