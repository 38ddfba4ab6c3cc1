//! Clients that send as slowly as they can, and those that stop in the middle.

use std::io::Write;
use std::time::Duration;

use adieu::http::Limits;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::{get, post};

use crate::client::Over;
use crate::h2::{CONTINUATION, DATA, END_STREAM, H2, HEADERS, PING};
use crate::live::Live;
use crate::own::Own;

const SHORT: Duration = Duration::from_millis(300);

/// Its answer is the request, as it comes.
async fn echo(body: Body) -> Body {
    body
}

/// A slow client of gRPC.
async fn call(body: Body) -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/grpc")], body)
}

fn start(limits: Limits) -> Live {
    let router = Router::new()
        .route("/", get(async || "hello\n"))
        .route("/upload", post(async |body: Bytes| body.len().to_string()))
        .route("/echo", post(echo))
        .route("/call", post(call));
    Own::new(router).limits(limits).start()
}

/// A head that never ends.
fn half_a_head(limits: Limits, mut begin: impl FnMut(&mut H2)) {
    let mut live = start(limits);
    let mut h2 = H2::connect(&live, Over::Http2);
    begin(&mut h2);
    let mut socket = h2
        .client
        .socket
        .try_clone()
        .expect("a socket can be shared");
    // So slowly that it would go on for half a minute.
    let bytes = (0..1_500).take_while(|_| {
        std::thread::sleep(Duration::from_millis(20));
        socket.write_all(&[0]).is_ok()
    });
    let sent = bytes.count();
    assert!(sent < 1_500, "it is still read");
    live.stop();
    live.finish()
        .exits(0)
        .loses_nothing()
        .notes_that(&["before the stop: closed 1 connection(s) with half a request head"]);
}

/// The header of a frame that announces this much.
fn announce(h2: &mut H2, kind: u8, length: u16) {
    let [a, b] = length.to_be_bytes();
    h2.client.send([0, a, b, kind, 0, 0, 0, 0, 1]);
}

fn short_head() -> Limits {
    Limits::default().head(SHORT)
}

#[test]
fn an_http2_head_has_a_limit() {
    half_a_head(short_head(), |h2| announce(h2, HEADERS, 16_000));
}

/// Each of them is whole, and the last is not the end.
#[test]
fn an_http2_head_in_many_frames_has_the_same_limit() {
    half_a_head(short_head(), |h2| {
        h2.frame(HEADERS, 0, 1, &[0x82]);
        h2.frame(CONTINUATION, 0, 1, &[0x86]);
        announce(h2, CONTINUATION, 16_000);
    });
}

/// Nor does a frame of a kind that there is not.
#[test]
fn an_http2_frame_without_an_end_has_the_same_limit() {
    half_a_head(short_head(), |h2| announce(h2, 0x20, 16_000));
}

/// Its frames are whole: it is idle, and has its time.
#[test]
fn an_http2_client_that_pings_is_alive() {
    let mut live = start(short_head());
    let mut h2 = H2::connect(&live, Over::Http2);
    // Other clients go through the whole limit of a head meanwhile.
    for _ in 0..3 {
        let mut slow = live.connect(Over::Http1);
        slow.send("GET / HT");
        h2.frame(PING, 0, 0, &[0; 8]);
        slow.is_told_to_try_again();
    }
    h2.ask(1, "/", true);
    assert_eq!(h2.answer(1), "hello\n");
    live.stop();
    live.finish().exits(0).loses_nothing();
}

/// Bytes of a head are no bytes of an upload.
#[test]
fn a_stalled_upload_is_not_kept_alive_by_half_a_head() {
    let limits = Limits::default().stall(SHORT);
    let mut live = start(limits);
    let mut h2 = H2::connect(&live, Over::Http2);
    h2.ask(1, "/upload", false);
    announce(&mut h2, HEADERS, 16_000);
    let mut socket = h2
        .client
        .socket
        .try_clone()
        .expect("a socket can be shared");
    let bytes = (0..1_500).take_while(|_| {
        std::thread::sleep(Duration::from_millis(20));
        socket.write_all(&[0]).is_ok()
    });
    assert!(bytes.count() < 1_500, "it is still read");
    live.stop();
    live.finish().exits(0).loses_nothing();
}

fn short_stall() -> Limits {
    Limits::default().stall(SHORT).stall_in_stop(SHORT)
}

const UPLOAD: &str =
    "POST /echo HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n";

#[test]
fn an_upload_that_stalls_is_cut_also_after_its_answer_has_begun() {
    let mut live = start(short_stall());
    let mut client = live.connect(Over::Http1);
    client.send(UPLOAD).until("half\r\n");
    client.is_closed();
    let mut h2 = H2::connect(&live, Over::Http2);
    h2.ask(1, "/echo", false);
    h2.frame(DATA, 0, 1, b"half");
    h2.expect("the answer", |frame| frame.kind == DATA);
    h2.rest_of_it();
    live.stop();
    live.finish()
        .exits(0)
        .loses_nothing()
        .notes_that(&["before the stop: closed 2 connection(s) with a stalled upload"]);
}

#[test]
fn such_an_upload_does_not_hold_the_stop() {
    let mut live = start(Limits::default().stall_in_stop(SHORT));
    let mut client = live.connect(Over::Http1);
    client.send(UPLOAD).until("half\r\n");
    live.stop();
    client.is_closed();
    live.finish()
        .exits(0)
        .loses_nothing()
        .notes_that(&["stalled upload", "POST /echo for "]);
}

/// A stream of both sides may be silent for as long as they like.
#[test]
fn a_call_of_grpc_may_pause() {
    let mut live = start(short_stall().head(SHORT));
    let mut h2 = H2::connect(&live, Over::Http2);
    h2.ask(1, "/call", false);
    h2.frame(DATA, 0, 1, b"one ");
    h2.expect("the first word", |frame| frame.kind == DATA);
    // Another client goes through the whole limit, and then a third one.
    for _ in 0..2 {
        let mut stalled = live.connect(Over::Http1);
        stalled.send(UPLOAD).until("half\r\n");
        stalled.is_closed();
    }
    h2.frame(DATA, END_STREAM, 1, b"two");
    assert_eq!(h2.answer(1), "two");
    live.stop();
    live.finish().exits(0).loses_nothing();
}
