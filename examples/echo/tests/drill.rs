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
    let mut passed = 0;
    for check in &report.checks {
        eprintln!(
            "{:<20} {:<8} {} {:?}",
            check.id, check.outcome, check.reason, check.evidence
        );
        assert_ne!(
            check.outcome,
            Outcome::Failed,
            "{}: {} {:#?}",
            check.id,
            check.reason,
            check.evidence
        );
        passed += usize::from(check.outcome == Outcome::Passed);
    }
    // A busy machine may keep the drill from judging a few.
    assert!(passed >= 6, "{passed} checks passed");
}
