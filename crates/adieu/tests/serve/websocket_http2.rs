//! WebSockets over HTTP/2: a stream of a connection that has others.

use std::future::IntoFuture;
use std::net::SocketAddr;
use std::time::Duration;

use adieu::http::{Limits, Stopping};
use adieu::{Drained, http::Peer};
use axum::body::{Body, to_bytes};
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::http::{Method, Request, Response, StatusCode};
use axum::routing::{any, get};
use axum::{Router, response::IntoResponse};
use futures_util::{SinkExt, StreamExt};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::{self, protocol::frame::coding::CloseCode};

type Client = WebSocketStream<TokioIo<hyper::upgrade::Upgraded>>;

/// Says everything twice; with a stop of the service it says goodbye, or does not care.
async fn echo(mut socket: WebSocket, stop: Option<Stopping>) {
    let stopping = async {
        match &stop {
            Some(stop) => stop.requested().await,
            None => std::future::pending().await,
        }
    };
    let mut stopping = std::pin::pin!(stopping);
    loop {
        let message = tokio::select! {
            message = socket.recv() => message,
            () = &mut stopping => {
                let reason = "going away".into();
                let close = CloseFrame { code: 1001, reason };
                let _ = socket.send(Message::Close(Some(close))).await;
                return;
            }
        };
        let Some(Ok(Message::Text(text))) = message else {
            return;
        };
        if socket.send(Message::Text(text)).await.is_err() {
            return;
        }
    }
}

fn router() -> Router {
    let polite = async |upgrade: WebSocketUpgrade, stop: Stopping, _: Peer| {
        upgrade
            .on_upgrade(|socket| echo(socket, Some(stop)))
            .into_response()
    };
    let stubborn =
        async |upgrade: WebSocketUpgrade| upgrade.on_upgrade(|socket| echo(socket, None));
    Router::new()
        .route("/", get(async || "hello"))
        .route("/polite", any(polite))
        .route("/stubborn", any(stubborn))
}

/// Lets `client` talk to a server with these limits, and stops when it says so.
async fn with_server(
    limits: Limits,
    client: impl AsyncFnOnce(SocketAddr, oneshot::Sender<()>),
) -> Drained {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (over, is_over) = oneshot::channel::<()>();
    let serving = adieu::serve(listener, router())
        .limits(limits)
        .with_graceful_shutdown(async { drop(is_over.await) });
    let (drained, ()) = tokio::join!(serving.into_future(), client(address, over));
    drained.expect("it served")
}

/// A connection that has had an answer, and so knows the server's settings.
async fn connect(address: SocketAddr) -> SendRequest<Body> {
    let stream = TcpStream::connect(address).await.expect("it listens");
    let (mut sender, conn) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .expect("HTTP/2");
    tokio::spawn(conn);
    assert_eq!(hello(&mut sender).await, "hello");
    sender
}

async fn hello(sender: &mut SendRequest<Body>) -> String {
    let request = Request::get("http://localhost/").body(Body::empty());
    let response = sender
        .send_request(request.expect("a request"))
        .await
        .expect("a response");
    let body = to_bytes(Body::new(response.into_body()), 100)
        .await
        .expect("a body");
    String::from_utf8(body.to_vec()).expect("text")
}

async fn open(sender: &mut SendRequest<Body>, path: &str) -> hyper::Result<Response<Incoming>> {
    let request = Request::builder()
        .method(Method::CONNECT)
        .uri(format!("http://localhost{path}"))
        .header("sec-websocket-version", "13")
        .extension(hyper::ext::Protocol::from_static("websocket"));
    sender
        .send_request(request.body(Body::empty()).expect("a request"))
        .await
}

async fn websocket(sender: &mut SendRequest<Body>, path: &str) -> Client {
    let response = open(sender, path).await.expect("a response");
    assert_eq!(response.status(), StatusCode::OK);
    let upgraded = hyper::upgrade::on(response).await.expect("a tunnel");
    WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Client, None).await
}

async fn say(socket: &mut Client, text: &str) {
    socket.send(text.into()).await.expect("it reads");
    let said = socket.next().await.expect("an answer").expect("a message");
    assert_eq!(said, tungstenite::Message::text(text));
}

#[tokio::test]
async fn a_websocket_is_one_stream_among_others_and_its_handler_says_goodbye() {
    let long = Duration::from_secs(10);
    let limits = Limits::default()
        .http2_extended_connect(true)
        .linger(long)
        .patience(long);
    let drained = with_server(limits, async |address, stop| {
        let mut sender = connect(address).await;
        let (mut one, mut other) = (
            websocket(&mut sender, "/polite").await,
            websocket(&mut sender, "/polite").await,
        );
        say(&mut one, "one").await;
        say(&mut other, "other").await;
        assert_eq!(hello(&mut sender).await, "hello");
        drop(stop);
        for mut socket in [one, other] {
            let close = socket.next().await.expect("a goodbye").expect("a message");
            let tungstenite::Message::Close(Some(close)) = close else {
                panic!("{close}");
            };
            assert_eq!(close.code, CloseCode::Away);
        }
    })
    .await;
    assert!(drained.cut.is_empty(), "{drained}");
}

/// A handler that does not care about the stop does not hold it.
#[tokio::test]
async fn a_websocket_whose_handler_stays_is_ended_after_the_linger() {
    let limits = Limits::default()
        .http2_extended_connect(true)
        .linger(Duration::from_millis(10))
        .patience(Duration::from_millis(10));
    let drained = with_server(limits, async |address, stop| {
        let mut sender = connect(address).await;
        let mut socket = websocket(&mut sender, "/stubborn").await;
        say(&mut socket, "hello").await;
        drop(stop);
        // An error or the end: there is no goodbye.
        while let Some(Ok(_)) = socket.next().await {}
    })
    .await;
    assert!(drained.cut.is_empty(), "{drained}");
    assert_eq!(drained.report.exit_code(), 0, "{}", drained.report);
}

#[tokio::test]
async fn without_the_setting_there_is_none() {
    let drained = with_server(Limits::default(), async |address, _stop| {
        let mut sender = connect(address).await;
        open(&mut sender, "/polite")
            .await
            .expect_err("the client knows");
    })
    .await;
    assert!(drained.cut.is_empty(), "{drained}");
}
