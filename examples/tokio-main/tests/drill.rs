//! The program passes the drill.

use adieu_drill::Drill;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_passes_the_drill() {
    let program = env!("CARGO_BIN_EXE_example-tokio-main");
    let drill = Drill::command([program, "127.0.0.1:{port}", "127.0.0.1:{port2}"])
        .http("http://127.0.0.1:{port}/")
        .readiness("http://127.0.0.1:{port2}/readyz");
    let checks = ["keepalive-race", "ready-before-close", "exit-code"];
    fixture_drilled::passes(drill, &checks).await;
}
