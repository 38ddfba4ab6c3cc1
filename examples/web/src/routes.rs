//! The routes, each a kind of response that a shutdown must not cut.

use std::convert::Infallible;
use std::time::Duration;

use adieu::http::Stopping;
use adieu::reload::Reloadable;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{DefaultBodyLimit, Query};
use axum::http::header::CONTENT_LENGTH;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use futures_util::stream::{self, Stream};
use serde::Deserialize;

pub(crate) fn router(motd: Reloadable<String>) -> Router {
    Router::new()
        .route("/", get(async || "hello\n"))
        .route("/motd", get(async move || (*motd.get()).clone()))
        .route("/slow", get(slow))
        .route("/stream", get(chunks))
        .route("/large", get(large))
        .route("/sse", get(events))
        .route("/ws", any(websocket))
        .route("/upload", post(upload).put(upload))
        .route("/block", get(block))
        .route("/panic", get(fail))
        .layer(DefaultBodyLimit::max(1 << 30))
}

#[derive(Deserialize)]
struct Millis {
    #[serde(default)]
    ms: u64,
}

async fn slow(Query(Millis { ms }): Query<Millis>) -> String {
    tokio::time::sleep(Duration::from_millis(ms)).await;
    format!("slept {ms} ms\n")
}

/// Ten chunks, 100 ms apart: if the stop comes in between, they still all arrive.
async fn chunks() -> Body {
    Body::from_stream(stream::unfold(0, async |number| {
        if number == 10 {
            return None;
        }
        if number > 0 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let chunk = Bytes::from(format!("chunk {number}\n"));
        Some((Ok::<_, Infallible>(chunk), number + 1))
    }))
}

/// Eight megabytes: more than fits into the buffers on the way, so that a slow reader keeps it in flight for long.
async fn large() -> impl IntoResponse {
    const LINE: &[u8; 64] = b"an answer that is larger than the buffers between two processes\n";
    const PIECE: usize = 1 << 16;
    const PIECES: usize = 128;
    let piece = Bytes::from(LINE.repeat(PIECE / LINE.len()));
    let pieces = stream::iter((0..PIECES).map(move |_| Ok::<_, Infallible>(piece.clone())));
    let length = (PIECE * PIECES).to_string();
    ([(CONTENT_LENGTH, length)], Body::from_stream(pieces))
}

/// Events without end, except the stop: then the last one says goodbye.
async fn events(stop: Stopping) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let events = stream::unfold(Some((stop, 0_u64)), async |state| {
        let (stop, number) = state?;
        if number == 0 || stop.sleep(Duration::from_millis(200)).await {
            let event = Event::default().data(format!("tick {number}"));
            Some((Ok(event), Some((stop, number + 1))))
        } else {
            Some((
                Ok(Event::default().event("goodbye").data("going away")),
                None,
            ))
        }
    });
    Sse::new(events)
}

async fn websocket(upgrade: WebSocketUpgrade) -> Response {
    upgrade.on_upgrade(echo).into_response()
}

/// Echoes messages. The close at the stop is the server's: this handler only sees the client's answer to it.
async fn echo(mut socket: WebSocket) {
    while let Some(Ok(message)) = socket.recv().await {
        let echoed = match message {
            Message::Text(_) | Message::Binary(_) => socket.send(message).await,
            _ => Ok(()),
        };
        if echoed.is_err() {
            return;
        }
    }
}

async fn upload(body: Bytes) -> String {
    format!("{}\n", body.len())
}

/// What a handler must not do. The watchdog names it.
async fn block(Query(Millis { ms }): Query<Millis>) -> String {
    // adieu: ignore(ADR101) the mistake that this route is there to show
    std::thread::sleep(Duration::from_millis(ms));
    format!("blocked {ms} ms\n")
}

async fn fail() -> String {
    panic!("asked to panic");
}
