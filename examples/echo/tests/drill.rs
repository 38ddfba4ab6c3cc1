//! `adieu drill` holds the server against its checks. With `ADIEU_PROVE` set against all that apply, twenty times each.

use std::env;
use std::time::Duration;

use adieu_drill::Drill;
use adieu_drill::report::{Level, Outcome};

/// What says most in little time.
const FEW: &[&str] = &[
    "listener-refuses",
    "silent-connection",
    "keepalive-race",
    "fresh-connections",
    "exit",
];

/// What of that must be in the report; `exit` is a group of several.
const JUDGED: &[&str] = &[
    "listener-refuses",
    "silent-connection",
    "keepalive-race",
    "fresh-connections",
    "exit-code",
    "no-orphans",
];

/// Those of them that are judged by what is seen, whenever it is seen.
const ALWAYS: &[&str] = &["exit-code", "no-orphans"];

/// What this system may not let the drill do, and what is for servers of another kind.
const ELSEWHERE: &[&str] = &["as-pid-1", "hung-handler"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_passes_the_drill() {
    let command = [
        env!("CARGO_BIN_EXE_example-echo"),
        "--listen",
        "127.0.0.1:{port}",
        "--grace",
        "5s",
    ];
    let mut drill = Drill::command(command)
        .tcp("127.0.0.1:{port}")
        .grace(Duration::from_secs(20));
    if env::var_os("ADIEU_PROVE").is_some() {
        drill = drill.level(Level::Full).repeat(20);
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
        let is_judged = check.outcome == Outcome::Passed;
        let is_too_busy = check.reason.starts_with("not judged");
        let may_skip = check.outcome == Outcome::Skipped
            && (is_too_busy
                || ELSEWHERE.contains(&&*check.id)
                || env::var_os("ADIEU_PROVE").is_some());
        assert!(
            is_judged || may_skip,
            "{} {}: {} {:#?}",
            check.id,
            check.outcome,
            check.reason,
            check.evidence
        );
        if is_too_busy {
            unjudged.push(&*check.id);
        }
    }
    // A check that is not made is not passed.
    for id in JUDGED {
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
