//! What the clients of requests hear that are still in flight at the end of the drain.
#![cfg(all(feature = "axum", feature = "http2", unix))]

use std::time::Duration;

use adieu::http::Limits;
use adieu::{App, Report, scope};
use axum::Router;
use axum::body::Body;
use axum::routing::{any, get};
use futures_util::{StreamExt, stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};

/// Sends these bytes to a service with a path that never answers, `/`, and one whose response never ends, `/stream`.
/// The service stops once a handler has the request. Gives back the report, and all that the client has heard.
async fn stopped_in_flight(limits: Limits, request: &[u8]) -> (Report, Vec<u8>) {
    let (entered, mut has_entered) = mpsc::unbounded_channel();
    let (listens, is_listening) = oneshot::channel();
    let service =
        scope("deadline")
            .grace(Duration::from_secs(1))
            .run(async move |app: &mut App| {
                let listener = app.listen("web", "127.0.0.1:0").await?;
                let address = listener.local_addr().expect("an address");
                let listener = listener.on_listening(move |_| {
                    let _ = listens.send(address);
                });
                let streaming = entered.clone();
                let events = get(async move || {
                    let _ = streaming.send(());
                    let first = stream::once(async { Ok::<_, std::io::Error>("first") });
                    Body::from_stream(first.chain(stream::pending()))
                });
                let never = any(async move || {
                    let _ = entered.send(());
                    std::future::pending::<()>().await;
                });
                let router = Router::new().route("/stream", events).fallback(never);
                app.http(listener, router).limits(limits);
                let handle = app.shutdown_handle();
                app.task("stop", async move |_| {
                    has_entered.recv().await;
                    handle.stop("a request is in flight");
                });
                Ok(())
            });
    let client = async {
        let address = is_listening.await.expect("setup goes on");
        let mut client = TcpStream::connect(address).await.expect("it listens");
        client.write_all(request).await.expect("it reads");
        let mut heard = Vec::new();
        // A reset is an end as well.
        let _ = client.read_to_end(&mut heard).await;
        heard
    };
    // Both are over when this is.
    tokio::join!(service, client)
}

fn http1(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes()
}

/// GET / on stream 1, whole, behind the client's preface.
fn http2() -> Vec<u8> {
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    let request = [0, 0, 3, 1, 5, 0, 0, 0, 1, 0x82, 0x86, 0x84];
    [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &settings[..], &request].concat()
}

/// The report names the request whatever its client heard.
fn names_the_request(report: &Report) {
    assert_ne!(report.exit_code(), 0, "{report}");
    assert!(report.to_string().contains("GET /"), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_cut_before_its_response_began_gets_503() {
    let (report, heard) = stopped_in_flight(Limits::default(), &http1("/")).await;
    assert_eq!(
        String::from_utf8_lossy(&heard),
        "HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
    );
    names_the_request(&report);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_http2_cut_before_its_response_began_gets_503() {
    let (report, heard) = stopped_in_flight(Limits::default(), &http2()).await;
    // HEADERS that end stream 1, with `:status: 503` and `retry-after: 1`.
    let expected = b"\x00\x00\x09\x01\x05\x00\x00\x00\x01\x08\x03503\x0f\x26\x011";
    let count = heard.windows(expected.len()).filter(|it| it == expected);
    assert_eq!(count.count(), 1, "{heard:?}");
    names_the_request(&report);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_that_has_begun_is_cut_without_another_one() {
    let (report, heard) = stopped_in_flight(Limits::default(), &http1("/stream")).await;
    let heard = String::from_utf8_lossy(&heard);
    assert!(heard.starts_with("HTTP/1.1 200 OK"), "{heard}");
    assert!(heard.ends_with("first\r\n"), "{heard}");
    names_the_request(&report);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_unavailable_at_deadline_the_connection_closes_without_a_response() {
    let limits = Limits::default().unavailable_at_deadline(false);
    let (report, heard) = stopped_in_flight(limits.clone(), &http1("/")).await;
    assert_eq!(String::from_utf8_lossy(&heard), "");
    names_the_request(&report);
    let (_, heard) = stopped_in_flight(limits, &http2()).await;
    assert!(!heard.windows(3).any(|it| it == b"503"), "{heard:?}");
}
