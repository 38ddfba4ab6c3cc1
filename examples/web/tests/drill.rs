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

/// What the server does not offer.
const ELSEWHERE: &[&str] = &[
    "term-while-reloading",
    "hup-keeps-serving",
    "state-intact",
    "resume",
    "rolling-restart",
];

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
    .liveness("http://127.0.0.1:{port2}/livez");
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
    for check in &report.checks {
        eprintln!(
            "{:<20} {:<8} {} {:?}",
            check.id, check.outcome, check.reason, check.evidence
        );
        let allowed = check.outcome == Outcome::Passed
            // Where the system does not let us, or was too busy to tell.
            || (check.outcome == Outcome::Skipped && (check.id == "as-pid-1" || check.reason.starts_with("not judged")));
        assert!(
            allowed,
            "{} {}: {} {:#?}",
            check.id, check.outcome, check.reason, check.evidence
        );
    }
}
