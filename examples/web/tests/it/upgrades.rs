//! Connections that were handed to their handlers.

use std::time::Duration;

use adieu::http::Stopping;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use hyper_util::rt::TokioIo;

use crate::client::{Over, each};
use crate::live::Live;
use crate::own::Own;
use crate::ws::{CLOSE, TEXT, Ws};

fn router() -> Router {
    Router::new()
        .route("/own-words", any(own_words))
        .route("/deaf", any(deaf))
        .route("/chatty", any(chatty))
        .route("/other", any(other))
}

/// Says goodbye itself, and waits for the client's.
async fn own_words(stop: Stopping, upgrade: WebSocketUpgrade) -> Response {
    upgrade.on_upgrade(async move |mut socket: WebSocket| {
        while let Some(Some(Ok(message))) = stop.until(socket.recv()).await {
            let _ = socket.send(message).await;
        }
        let goodbye = CloseFrame {
            code: 1012,
            reason: "back in a minute".into(),
        };
        let _ = socket.send(Message::Close(Some(goodbye))).await;
        while let Some(Ok(_)) = socket.recv().await {}
    })
}

/// Neither reads nor writes.
async fn deaf(upgrade: WebSocketUpgrade) -> Response {
    upgrade.on_upgrade(async |socket: WebSocket| {
        std::future::pending::<()>().await;
        drop(socket);
    })
}

/// Writes all the time, and never reads.
async fn chatty(upgrade: WebSocketUpgrade) -> Response {
    upgrade.on_upgrade(async |mut socket: WebSocket| {
        while socket.send(Message::text("x".repeat(100))).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
}

/// Some other protocol: says hello, and waits forever.
async fn other(mut request: Request) -> Response {
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let io = upgrade.await.expect("it is upgraded");
        std::future::pending::<()>().await;
        drop(io);
    });
    let head = [("upgrade", "other"), ("connection", "upgrade")];
    (StatusCode::SWITCHING_PROTOCOLS, head, Body::empty()).into_response()
}

fn start(over: Over) -> Live {
    Own::new(router()).tls(over.is_tls()).start()
}

const EACH: [Over; 2] = [Over::Http1, Over::Http1Tls];

#[test]
fn a_handler_may_say_goodbye_in_its_own_words() {
    each(EACH, |over| {
        let mut live = start(over);
        let mut ws = Ws::connect(&live, over, "/own-words");
        ws.send(TEXT, b"hello");
        assert_eq!(ws.next(), (TEXT, b"hello".to_vec()));
        live.stop();
        ws.is_told(1012);
        ws.send(CLOSE, &1012_u16.to_be_bytes());
        ws.client.is_closed();
        live.finish()
            .exits(0)
            .within_ms(700)
            .loses_nothing()
            .closes_no_other_connection();
    });
}

#[test]
fn nothing_follows_a_goodbye_that_the_client_does_not_answer() {
    each(EACH, |over| {
        let mut live = start(over);
        let mut ws = Ws::connect(&live, over, "/own-words");
        live.stop();
        ws.is_told(1012);
        ws.client.is_closed();
        live.finish()
            .exits(0)
            .within_ms(1_100)
            .notes_that(&["WebSocket without an answer"]);
    });
}

#[test]
fn a_handler_that_neither_reads_nor_writes_does_not_hold_the_stop_nor_hide_it() {
    each(EACH, |over| {
        let mut live = start(over);
        let mut ws = Ws::connect(&live, over, "/deaf");
        live.stop();
        ws.is_told(1001);
        ws.client.is_closed();
        live.finish().exits(0).within_ms(1_100);
    });
}

/// At the end of the drain the handler has had no time for a goodbye: the close is the last thing on the line.
#[test]
fn a_websocket_cut_at_the_end_of_the_drain_is_told_so() {
    each(EACH, |over| {
        let own = Own::new(router()).tls(over.is_tls());
        let mut live = own.grace(Duration::from_millis(50)).start();
        let mut ws = Ws::connect(&live, over, "/deaf");
        live.stop();
        ws.is_told(1001);
        ws.client.is_closed();
        live.finish();
    });
}

#[test]
fn the_close_stands_between_two_frames_of_a_handler_that_never_pauses() {
    each(EACH, |over| {
        let mut live = start(over);
        let mut ws = Ws::connect(&live, over, "/chatty");
        live.stop();
        loop {
            let (opcode, payload) = ws.next();
            if opcode == CLOSE {
                assert_eq!(payload, 1001_u16.to_be_bytes());
                break;
            }
            assert_eq!((opcode, payload.len()), (TEXT, 100));
        }
        ws.client.is_closed();
        live.finish().exits(0).within_ms(1_100);
    });
}

#[test]
fn another_protocol_has_a_bound() {
    each(EACH, |over| {
        let mut live = start(over);
        let mut client = live.connect(over);
        client.send("GET /other HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: other\r\n\r\n");
        let head = client.until("\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        live.stop();
        client.is_closed();
        live.finish()
            .exits(0)
            .within_ms(1_500)
            .notes_that(&["upgraded, from 127.0.0.1:"]);
    });
}

/// A tunnel that gives back what comes.
async fn tunnel(mut request: Request) -> Response {
    if request.method() != Method::CONNECT {
        return StatusCode::NOT_FOUND.into_response();
    }
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let io = TokioIo::new(upgrade.await.expect("it is a tunnel"));
        let (mut from, mut to) = tokio::io::split(io);
        let _ = tokio::io::copy(&mut from, &mut to).await;
    });
    StatusCode::OK.into_response()
}

#[test]
fn a_tunnel_lives_and_has_the_bound_of_other_protocols() {
    each(EACH, |over| {
        let router = Router::new().fallback(tunnel);
        let mut live = Own::new(router).tls(over.is_tls()).start();
        let mut client = live.connect(over);
        client.send("CONNECT there:80 HTTP/1.1\r\nhost: there:80\r\n\r\n");
        let head = client.until("\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        for word in ["one", "two"] {
            client.send(word);
            assert_eq!(client.exactly(3), word.as_bytes());
        }
        live.stop_and_be_refused();
        client.send("end");
        assert_eq!(client.exactly(3), b"end");
        client.is_closed();
        live.finish()
            .exits(0)
            .within_ms(1_500)
            .loses_nothing()
            .notes_that(&["upgraded, from 127.0.0.1:"]);
    });
}

/// What is refused is a request like any other.
#[test]
fn a_tunnel_that_is_refused_leaves_the_connection() {
    let router = Router::new().fallback(async || StatusCode::FORBIDDEN);
    let mut live = Own::new(router).start();
    let mut client = live.connect(Over::Http1);
    for _ in 0..2 {
        client.send("CONNECT there:80 HTTP/1.1\r\nhost: there:80\r\n\r\n");
        assert_eq!(client.answer().status(), 403);
    }
    live.stop();
    client.is_told_to_try_again();
    live.finish().exits(0).loses_nothing();
}
