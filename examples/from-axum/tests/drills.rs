//! Each program passes the drill, in what it is about.

use adieu_drill::Drill;

fn on_port(program: &str) -> Drill {
    Drill::command([program, "127.0.0.1:{port}"]).http("http://127.0.0.1:{port}/")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn graceful_shutdown_answers_slow_requests() {
    let drill = on_port(env!("CARGO_BIN_EXE_graceful-shutdown")).slow("/slow");
    fixture_drilled::passes(drill, &["inflight-finishes", "exit-code"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sse_ends_between_events() {
    let drill = on_port(env!("CARGO_BIN_EXE_sse")).sse("/sse");
    fixture_drilled::passes(drill, &["sse-ends", "exit-code"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn websockets_are_told_1001() {
    let drill = on_port(env!("CARGO_BIN_EXE_websockets")).ws("/ws");
    fixture_drilled::passes(drill, &["websocket-1001", "exit-code"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connect_info_loses_nothing() {
    let drill = on_port(env!("CARGO_BIN_EXE_connect-info"));
    fixture_drilled::passes(drill, &["keepalive-race", "exit-code"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_rustls_loses_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let [certificate, key] = ["cert.pem", "key.pem"].map(|name| directory.path().join(name));
    std::fs::write(&certificate, made.cert.pem()).expect("a file");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("a file");
    let program = env!("CARGO_BIN_EXE_tls-rustls").to_owned();
    let files = [certificate, key].map(|path| path.display().to_string());
    let words = [program, "127.0.0.1:{port}".to_owned()]
        .into_iter()
        .chain(files);
    let drill = Drill::command(words).http("https://127.0.0.1:{port}/");
    fixture_drilled::passes(drill, &["keepalive-race", "exit-code"]).await;
}
