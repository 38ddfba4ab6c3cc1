//! The routes of the demo service: each is a kind of response that a shutdown must not cut.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use adieu::http::Stopping;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Query;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use futures_util::stream::{self, Stream};

pub(super) fn router() -> Router {
    Router::new()
        .route("/orders", get(orders))
        .route("/slow", get(slow))
        .route("/stream", get(chunks))
        .route("/large", get(large))
        .route("/sse", get(events))
        .route("/ws", any(websocket))
        .route("/upload", post(upload))
}

/// Questions take a while, and not all the same: at any moment many are in flight. Half of them are quick.
async fn orders() -> &'static str {
    static ASKED: AtomicU64 = AtomicU64::new(0);
    // Only its spread matters, so no order with anything else is needed.
    let turn = ASKED.fetch_add(1, Ordering::Relaxed);
    let ms = [2, 140, 5, 60, 1, 220, 10, 90][(turn % 8) as usize];
    tokio::time::sleep(Duration::from_millis(ms)).await;
    "3 orders\n"
}

async fn slow(Query(query): Query<HashMap<String, u64>>) -> String {
    // No client may hold a request for longer than a minute.
    let ms = query.get("ms").copied().unwrap_or(100).min(60_000);
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

/// More than the buffers of a connection hold.
async fn large() -> Bytes {
    Bytes::from(vec![b'x'; 16 << 20])
}

/// Events without end, except the stop: then the last one says goodbye.
async fn events(stop: Stopping) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let events = stream::unfold(Some((stop, 0_u64)), async |state| {
        let (stop, number) = state?;
        if number == 0 || stop.sleep(Duration::from_millis(200)).await {
            let event = Event::default().data(format!("tick {number}"));
            return Some((Ok(event), Some((stop, number + 1))));
        }
        let goodbye = Event::default().event("goodbye").data("going away");
        Some((Ok(goodbye), None))
    });
    Sse::new(events)
}

async fn websocket(upgrade: WebSocketUpgrade) -> Response {
    upgrade.on_upgrade(echo).into_response()
}

/// Echoes messages. The close at the stop is the server's: this handler only sees the client's answer to it.
async fn echo(mut socket: WebSocket) {
    while let Some(Ok(message)) = socket.recv().await {
        let data = matches!(message, Message::Text(_) | Message::Binary(_));
        if data && socket.send(message).await.is_err() {
            return;
        }
    }
}

async fn upload(body: Bytes) -> String {
    format!("{}\n", body.len())
}
