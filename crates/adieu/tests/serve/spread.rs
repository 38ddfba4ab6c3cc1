//! Clients that are asked to go elsewhere one after the other, beside those of a server that asks all at once.

use std::net::SocketAddr;
use std::time::Duration;

use adieu::http::Limits;
use adieu::{App, ShutdownHandle, scope};
use axum::response::sse::{Event, Sse};
use axum::{Router, routing::get};
use futures_util::stream::{self, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

/// An event stream that never ends by itself, and a page.
fn router() -> Router {
    let events = get(async || {
        let first = stream::iter([Ok::<_, std::convert::Infallible>(
            Event::default().data("first"),
        )]);
        Sse::new(first.chain(stream::pending()))
    });
    Router::new()
        .route("/", get(async || "hello"))
        .route("/events", events)
}

/// Serves at two addresses with these limits, lets `client` talk to both, and waits for the end.
async fn with_servers(
    limits: [Limits; 2],
    client: impl AsyncFnOnce([SocketAddr; 2], ShutdownHandle),
) {
    let (serving, is_serving) = oneshot::channel();
    let run = scope("spread")
        .grace(Duration::from_secs(30))
        .lame_duck(Duration::from_secs(1))
        .run(async |app: &mut App| {
            let mut addresses = Vec::new();
            let (mut names, mut listening) = (["one", "other"].into_iter(), Vec::new());
            for limits in limits {
                let name = names.next().unwrap_or_default();
                let listener = app.listen(name, "127.0.0.1:0").await?;
                addresses.push(listener.local_addr().expect("an address"));
                let (listens, is_listening) = oneshot::channel();
                let listener = listener.on_listening(move |_| {
                    let _ = listens.send(());
                });
                listening.push(is_listening);
                app.http(listener, router()).limits(limits);
            }
            let _ = serving.send((addresses, listening, app.shutdown_handle()));
            Ok(())
        });
    let talk = async {
        let (addresses, listening, handle) = is_serving.await.expect("setup runs");
        for listening in listening {
            listening.await.expect("it listens");
        }
        client([addresses[0], addresses[1]], handle).await;
    };
    let (report, ()) = tokio::join!(run, talk);
    assert_eq!(report.exit_code(), 0, "{report}");
}

async fn connect(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).await.expect("it listens")
}

/// Reads up to this text.
async fn read_to(stream: &mut TcpStream, end: &str) -> String {
    let mut said = Vec::new();
    while !said.ends_with(end.as_bytes()) {
        said.push(stream.read_u8().await.expect("it goes on"));
    }
    String::from_utf8(said).expect("text")
}

/// Whether the answer to a request tells the client to go elsewhere.
async fn is_told(stream: &mut TcpStream) -> bool {
    let request = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";
    stream.write_all(request).await.expect("it reads");
    let head = read_to(stream, "hello").await;
    head.contains("connection: close")
}

async fn events(address: SocketAddr) -> TcpStream {
    let mut stream = connect(address).await;
    let request = b"GET /events HTTP/1.1\r\nhost: x\r\n\r\n";
    stream.write_all(request).await.expect("it reads");
    read_to(&mut stream, "data: first\n\n\r\n").await;
    stream
}

/// The turn of a client in an hour is beyond any lame-duck period; but for the first of them, one in some thousands.
const LONG: Duration = Duration::from_secs(24 * 60 * 60);

#[tokio::test]
async fn a_client_is_told_at_its_turn_and_at_the_latest_with_the_lame_duck_period() {
    // The last request is answered however long the machine takes for it.
    let waiting = Limits::default()
        .spread(LONG)
        .linger(Duration::from_secs(10));
    let limits = [Limits::default(), waiting];
    with_servers(limits, async |[at_once, spread], handle| {
        let (mut told, mut waits) = (connect(at_once).await, connect(spread).await);
        assert!(!is_told(&mut told).await);
        assert!(!is_told(&mut waits).await);
        handle.stop("it is time");
        while !is_told(&mut told).await {}
        // The stop is announced, and it is not its turn. A machine that has slept over the lame-duck period does not fail the test: then
        // the listener is closed.
        while !is_told(&mut waits).await {}
        let refused = TcpStream::connect(spread).await;
        assert!(refused.is_err(), "it was asked before its turn");
    })
    .await;
}

#[tokio::test]
async fn event_streams_end_at_their_turn_and_not_before_the_linger_without() {
    let short = Limits::default()
        .spread(Duration::from_millis(1))
        .linger(Duration::ZERO);
    let limits = [short, Limits::default()];
    with_servers(limits, async |[spread, at_the_end], handle| {
        let (mut goes, mut stays) = (events(spread).await, events(at_the_end).await);
        handle.stop("it is time");
        let end = "0\r\n\r\n";
        tokio::select! {
            biased;
            _ = read_to(&mut goes, end) => {}
            _ = read_to(&mut stays, end) => panic!("it ends with the lame-duck period"),
        }
        read_to(&mut stays, end).await;
    })
    .await;
}
