//! The program passes the drill.

use adieu_drill::Drill;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_passes_the_drill() {
    let drill = Drill::command([env!("CARGO_BIN_EXE_example-serve"), "127.0.0.1:{port}"])
        .http("http://127.0.0.1:{port}/");
    let checks = ["keepalive-race", "fresh-connections", "exit-code"];
    fixture_drilled::passes(drill, &checks).await;
}
