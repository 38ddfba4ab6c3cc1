//! The chat as `adieu drill` sees it: no client that is connected notices a deploy.

use std::time::Duration;

use adieu_drill::report::Outcome;
use adieu_drill::{Drill, StopSignal};

#[test]
fn no_connected_client_notices_a_deploy() {
    let program = env!("CARGO_BIN_EXE_example-chat");
    let words = [program, "--listen", "127.0.0.1:{port}", "--rooms", "{dir}"];
    let drill = Drill::command(words)
        .http("http://127.0.0.1:{port}/")
        .ws("/chat?room=drill&name=guest")
        .restart_signal(StopSignal::Usr2)
        .check("deploy-unnoticed")
        .grace(Duration::from_secs(20));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let report = runtime.block_on(drill.run()).expect("it can be drilled");
    let check = report.checks.first().expect("the check");
    // Two restarts, with 32 and 8 clients each.
    let told = format!("{} {:?}", check.reason, check.evidence);
    if check.outcome == Outcome::Skipped && check.reason.starts_with("not judged") {
        return fixture_skip::too_busy(told);
    }
    assert_eq!(check.outcome, Outcome::Passed, "{told}");
    assert!(
        told.contains("64 keep-alive connections, 16 WebSockets"),
        "{told}"
    );
    assert!(!told.contains("no process was replaced"), "{told}");
}
