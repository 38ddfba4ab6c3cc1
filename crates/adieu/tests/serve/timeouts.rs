//! What a handler may take for its response, and the settings and PINGs that HTTP/2 clients get.

use std::future::IntoFuture;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use adieu::http::Limits;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, Response, StatusCode};
use axum::routing::{get, post};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, oneshot};

use crate::client::get as ask;

/// Tells when it is dropped.
struct Dropped(Arc<Notify>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// Takes longer than a client of the tests gives it.
async fn later() -> &'static str {
    tokio::time::sleep(Duration::from_millis(20)).await;
    "later"
}

/// Serves `/hello`, `/later`, and `/never`, whose handler reports to `client` that it was dropped.
async fn with_server<T>(
    limits: Limits,
    client: impl AsyncFnOnce(SocketAddr, Arc<Notify>) -> T,
) -> T {
    let dropped = Arc::<Notify>::default();
    let notify = Arc::clone(&dropped);
    let never = move || {
        let guard = Dropped(Arc::clone(&notify));
        async move {
            let _guard = guard;
            std::future::pending::<&str>().await
        }
    };
    let router = Router::new()
        .route("/hello", get(async || "hello").post(async || "hello"))
        .route("/later", post(later))
        .route("/never", get(never.clone()).post(never));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (over, is_over) = oneshot::channel::<()>();
    let serving = adieu::serve(listener, router)
        .limits(limits)
        .with_graceful_shutdown(async { drop(is_over.await) });
    let talking = async {
        let said = client(address, dropped).await;
        drop(over);
        said
    };
    let (drained, said) = tokio::join!(serving.into_future(), talking);
    let drained = drained.expect("it served");
    assert!(drained.cut.is_empty(), "{drained}");
    said
}

async fn call(address: SocketAddr, request: Request<Body>) -> Response<Incoming> {
    let stream = TcpStream::connect(address).await.expect("it listens");
    let (mut sender, conn) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .expect("HTTP/2");
    tokio::spawn(conn);
    sender.send_request(request).await.expect("a response")
}

/// A call of gRPC whose client gives it so long.
fn grpc(path: &str, timeout: &str) -> Request<Body> {
    Request::post(format!("http://localhost{path}"))
        .header("content-type", "application/grpc")
        .header("grpc-timeout", timeout)
        .body(Body::empty())
        .expect("a request")
}

fn status_of(headers: &HeaderMap) -> Option<&str> {
    headers.get("grpc-status")?.to_str().ok()
}

#[tokio::test]
async fn a_handler_that_takes_too_long_is_dropped_and_its_client_gets_a_503() {
    let limits = Limits::default().handler(Duration::from_millis(20));
    with_server(limits, async |address, dropped| {
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        let (status, body) = ask(&mut stream, "/never").await;
        assert_eq!(status, "HTTP/1.1 503 Service Unavailable");
        assert_eq!(body, "The response took too long\n");
        dropped.notified().await;
        // The connection goes on.
        assert_eq!(ask(&mut stream, "/hello").await.1, "hello");
        let request = Request::get("http://localhost/never").body(Body::empty());
        let response = call(address, request.expect("a request")).await;
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        dropped.notified().await;
    })
    .await;
}

#[tokio::test]
async fn a_grpc_call_ends_at_the_deadline_of_its_client() {
    with_server(Limits::default(), async |address, dropped| {
        let response = call(address, grpc("/never", "20m")).await;
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(
            status_of(response.headers()),
            Some("4"),
            "DEADLINE_EXCEEDED"
        );
        let body = to_bytes(Body::new(response.into_body()), 100).await;
        assert_eq!(body.expect("it ends").len(), 0);
        dropped.notified().await;
        let response = call(address, grpc("/later", "1u")).await;
        assert_eq!(status_of(response.headers()), Some("4"));
        let response = call(address, grpc("/hello", "1H")).await;
        assert_eq!(status_of(response.headers()), None);
        // In a request that is not a call the field means nothing.
        let mut request = grpc("/hello", "0n");
        request
            .headers_mut()
            .insert("content-type", "text/plain".parse().expect("a value"));
        assert_eq!(call(address, request).await.status(), StatusCode::OK);
    })
    .await;
}

#[tokio::test]
async fn the_shorter_of_two_limits_counts_for_a_call() {
    let limits = Limits::default().handler(Duration::from_millis(20));
    with_server(limits, async |address, dropped| {
        let response = call(address, grpc("/never", "1H")).await;
        assert_eq!(status_of(response.headers()), Some("4"));
        dropped.notified().await;
    })
    .await;
    let ignores = Limits::default().grpc_timeout(false);
    with_server(ignores, async |address, _| {
        let response = call(address, grpc("/later", "1u")).await;
        assert_eq!(status_of(response.headers()), None);
    })
    .await;
}

/// A client that reads frames and answers none.
async fn deaf(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    stream.write_all(hello).await.expect("it reads");
    stream
}

/// The kind of the next frame and what is in it.
async fn frame(stream: &mut TcpStream) -> Option<(u8, Vec<u8>)> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).await.ok()?;
    let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
    stream.read_exact(&mut payload).await.ok()?;
    Some((head[3], payload))
}

#[tokio::test]
async fn the_settings_of_http2_are_told_to_the_client() {
    let limits = Limits::default()
        .http2_stream_window(100_000)
        .http2_connection_window(200_000);
    with_server(limits, async |address, _| {
        let mut stream = deaf(address).await;
        let (kind, settings) = frame(&mut stream).await.expect("SETTINGS");
        assert_eq!(kind, 4);
        let setting = |wanted: u16| {
            let found = settings
                .chunks(6)
                .find(|it| it[..2] == wanted.to_be_bytes());
            found.map(|it| u32::from_be_bytes([it[2], it[3], it[4], it[5]]))
        };
        assert_eq!(setting(3), Some(100), "MAX_CONCURRENT_STREAMS");
        assert_eq!(setting(4), Some(100_000), "INITIAL_WINDOW_SIZE");
        assert_eq!(setting(6), Some(16 * 1_024), "MAX_HEADER_LIST_SIZE");
        let more = loop {
            let (kind, payload) = frame(&mut stream).await.expect("it goes on");
            if kind == 8 {
                break payload;
            }
        };
        // Every connection begins with 65,535 bytes.
        assert_eq!(more, (200_000_u32 - 65_535).to_be_bytes(), "WINDOW_UPDATE");
    })
    .await;
}

#[tokio::test]
async fn a_client_that_answers_no_ping_is_closed() {
    let limits = Limits::default()
        .http2_ping_interval(Duration::from_millis(20))
        .http2_ping_timeout(Duration::from_millis(20));
    with_server(limits, async |address, _| {
        let mut stream = deaf(address).await;
        let mut pings = 0;
        while let Some((kind, _)) = frame(&mut stream).await {
            pings += u32::from(kind == 6);
        }
        assert!(pings > 0);
    })
    .await;
}
