//! The age of a connection and its number of requests, seen by clients that keep a connection for as long as they can.

use std::future::IntoFuture;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use adieu::http::Limits;
use axum::body::{Body, to_bytes};
use axum::http::{Request, Response, StatusCode};
use axum::{Router, routing::get};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// For a limit that must not be what ends a connection.
const LONG: Duration = Duration::from_secs(3_600);

/// A request to `/held` tells when it has come, and is answered when the test says so.
#[derive(Clone, Default)]
struct Gate {
    came: Arc<Notify>,
    go_on: Arc<Notify>,
}

/// Lets `client` talk to a server with these limits, and stops it, which finds nothing to cut.
async fn with_server(limits: Limits, client: impl AsyncFnOnce(SocketAddr, Gate)) {
    let gate = Gate::default();
    let held = gate.clone();
    let router = Router::new().route("/", get(async || "hello")).route(
        "/held",
        get(async move || {
            held.came.notify_one();
            held.go_on.notified().await;
            "held"
        }),
    );
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let token = CancellationToken::new();
    let serving = adieu::serve(listener, router)
        .limits(limits)
        .with_graceful_shutdown(token.clone().cancelled_owned());
    let serving = tokio::spawn(serving.into_future());
    client(address, gate).await;
    token.cancel();
    let drained = serving.await.expect("no panic").expect("it served");
    assert_eq!(drained.cut.len(), 0, "{drained}");
}

type Ended = JoinHandle<Result<(), hyper::Error>>;

async fn over_http1(address: SocketAddr) -> (http1::SendRequest<Body>, Ended) {
    let stream = TcpStream::connect(address).await.expect("it listens");
    let (sender, conn) = http1::handshake(TokioIo::new(stream))
        .await
        .expect("HTTP/1");
    (sender, tokio::spawn(conn))
}

async fn over_http2(address: SocketAddr) -> (http2::SendRequest<Body>, Ended) {
    let stream = TcpStream::connect(address).await.expect("it listens");
    let (sender, conn) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .expect("HTTP/2");
    (sender, tokio::spawn(conn))
}

fn to(path: &str) -> Request<Body> {
    let uri = format!("http://localhost{path}");
    let request = Request::get(uri).header("host", "localhost");
    request.body(Body::empty()).expect("a request")
}

/// The status, whether the connection is to be closed, and the body.
async fn read(response: Response<Incoming>) -> (StatusCode, bool, String) {
    let status = response.status();
    let closes = response.headers().get("connection");
    let closes = closes.is_some_and(|it| it == "close");
    let body = to_bytes(Body::new(response.into_body()), usize::MAX).await;
    let body = String::from_utf8(body.expect("a whole body").to_vec()).expect("text");
    (status, closes, body)
}

fn hello(closes: bool) -> (StatusCode, bool, String) {
    (StatusCode::OK, closes, "hello".to_owned())
}

fn held(closes: bool) -> (StatusCode, bool, String) {
    (StatusCode::OK, closes, "held".to_owned())
}

#[tokio::test]
async fn the_response_to_the_last_request_says_so() {
    let limits = Limits::default()
        .max_requests_per_connection(3)
        .linger(LONG);
    with_server(limits, async |address, _| {
        let (mut sender, ended) = over_http1(address).await;
        for number in 1..=3 {
            sender.ready().await.expect("it stays");
            let response = sender.send_request(to("/")).await.expect("a response");
            assert_eq!(read(response).await, hello(number == 3));
        }
        ended.await.expect("no panic").expect("a clean end");
        assert!(sender.is_closed());
    })
    .await;
}

#[tokio::test]
async fn after_the_last_request_of_http2_its_streams_finish() {
    let limits = Limits::default()
        .max_requests_per_connection(2)
        .linger(LONG);
    with_server(limits, async |address, gate| {
        let (mut sender, ended) = over_http2(address).await;
        let early = sender.send_request(to("/")).await.expect("a response");
        assert_eq!(read(early).await, hello(false));
        let last = tokio::spawn(sender.send_request(to("/held")));
        gate.came.notified().await;
        gate.go_on.notify_one();
        let last = last.await.expect("no panic").expect("a response");
        assert_eq!(read(last).await, held(false));
        // The client keeps its end: only the GOAWAY ends it.
        ended.await.expect("no panic").expect("a clean end");
        assert!(sender.is_closed());
    })
    .await;
}

#[tokio::test]
async fn an_http1_connection_that_is_too_old_ends_with_its_next_response() {
    let limits = Limits::default()
        .max_connection_age(Duration::ZERO)
        .linger(LONG);
    with_server(limits, async |address, gate| {
        let (mut sender, ended) = over_http1(address).await;
        let response = tokio::spawn(sender.send_request(to("/held")));
        gate.came.notified().await;
        gate.go_on.notify_one();
        let response = response.await.expect("no panic").expect("a response");
        assert_eq!(read(response).await, held(true));
        ended.await.expect("no panic").expect("a clean end");
    })
    .await;
}

#[tokio::test]
async fn an_http2_connection_that_is_too_old_ends_with_its_streams() {
    let limits = Limits::default()
        .max_connection_age(Duration::from_millis(1))
        .linger(LONG);
    with_server(limits, async |address, gate| {
        let (mut sender, ended) = over_http2(address).await;
        let response = tokio::spawn(sender.send_request(to("/held")));
        gate.came.notified().await;
        gate.go_on.notify_one();
        let response = response.await.expect("no panic").expect("a response");
        assert_eq!(read(response).await, held(false));
        ended.await.expect("no panic").expect("a clean end");
        assert!(sender.is_closed());
    })
    .await;
}

/// Nothing but its timer wakes it.
#[tokio::test]
async fn an_idle_connection_is_closed_at_its_age() {
    let limits = Limits::default()
        // Longer than a request takes on a busy machine: it has to come before.
        .max_connection_age(Duration::from_secs(1))
        .keep_alive(LONG)
        .linger(Duration::ZERO);
    with_server(limits, async |address, _| {
        let (mut first, ended) = over_http1(address).await;
        let response = first.send_request(to("/")).await.expect("a response");
        assert_eq!(read(response).await.2, "hello");
        let _ = ended.await.expect("no panic");
        let (mut second, ended) = over_http2(address).await;
        let response = second.send_request(to("/")).await.expect("a response");
        assert_eq!(read(response).await.2, "hello");
        let _ = ended.await.expect("no panic");
        assert!(first.is_closed() && second.is_closed());
    })
    .await;
}

#[tokio::test]
async fn what_is_still_busy_after_the_grace_is_cut_as_at_a_stop() {
    let limits = Limits::default()
        .max_connection_age(Duration::from_millis(1))
        // Longer than a request takes on a busy machine: it has to come before.
        .max_connection_age_grace(Duration::from_secs(1));
    with_server(limits, async |address, _| {
        let (mut sender, _ended) = over_http1(address).await;
        let response = sender.send_request(to("/held")).await.expect("a response");
        assert_eq!(response.headers()["retry-after"], "1");
        let (status, closes, _) = read(response).await;
        assert_eq!((status, closes), (StatusCode::SERVICE_UNAVAILABLE, true));
        let (mut sender, _ended) = over_http2(address).await;
        let response = sender.send_request(to("/held")).await.expect("a response");
        assert_eq!(read(response).await.0, StatusCode::SERVICE_UNAVAILABLE);
    })
    .await;
}

/// It connects again when the server asks for it, and only then.
#[tokio::test]
async fn a_busy_client_loses_no_request() {
    let limits = Limits::default()
        .max_connection_age(Duration::from_millis(5))
        .max_requests_per_connection(20)
        .linger(LONG);
    with_server(limits, async |address, _| {
        let (mut sender, mut ended) = over_http1(address).await;
        let mut closed = 0;
        for _ in 0..200 {
            sender.ready().await.expect("it stays until it says so");
            let response = sender.send_request(to("/")).await.expect("a response");
            let response = read(response).await;
            let closes = response.1;
            assert_eq!(response, hello(closes));
            if closes {
                ended.await.expect("no panic").expect("a clean end");
                (sender, ended) = over_http1(address).await;
                closed += 1;
            }
        }
        assert!(closed >= 10, "{closed}");
    })
    .await;
}
