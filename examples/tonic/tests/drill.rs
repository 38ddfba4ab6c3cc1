//! The program passes the drill.

use adieu_drill::Drill;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_passes_the_drill() {
    let drill = Drill::command([env!("CARGO_BIN_EXE_example-tonic"), "127.0.0.1:{port}"])
        .http("http://127.0.0.1:{port}/");
    fixture_drilled::passes(drill, &["h2-goaway", "exit-code"]).await;
}
