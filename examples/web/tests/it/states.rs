//! The table: every state of a connection, in every protocol that has it, then SIGTERM. What the client sees is
//! looked at by the play; how the service ends, and when, is in the row.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::client::Over::{self, Http1, Http1Tls, Http2, Http2Tls};
use crate::h2::{DATA, H2, INITIAL_WINDOW_SIZE, NO_LIMIT, PING, PREFACE};
use crate::live::{Ended, Live};
use crate::web::Web;
use crate::ws::{CLOSE, TEXT, Ws};

struct Row {
    state: &'static str,
    over: &'static [Over],
    play: fn(&mut Live, Over),
    /// The documented bound, in milliseconds.
    bound: u64,
    /// Words of a note in the report; none if no connection had to be closed.
    note: &'static [&'static str],
}

const BOTH1: &[Over] = &[Http1, Http1Tls];
const BOTH2: &[Over] = &[Http2, Http2Tls];

#[rustfmt::skip]
const ROWS: &[Row] = &[
    Row { state: "connected but silent", over: BOTH1, play: silent, bound: 700, note: &["silent"] },
    Row { state: "idle after an answer", over: BOTH1, play: idle, bound: 700, note: &["idle"] },
    Row { state: "half a first head", over: BOTH1, play: half_head, bound: 1_500, note: &["half a request head"] },
    Row { state: "half a second head", over: BOTH1, play: half_second_head, bound: 1_500, note: &["half a request head"] },
    Row { state: "head completed late", over: BOTH1, play: late_head, bound: 700, note: &[] },
    Row { state: "request in the linger", over: BOTH1, play: late_request, bound: 700, note: &[] },
    Row { state: "stalled upload", over: BOTH1, play: stalled_upload, bound: 2_000, note: &["stalled upload", "POST /upload for "] },
    Row { state: "upload that goes on", over: BOTH1, play: upload, bound: 700, note: &[] },
    Row { state: "slow handler", over: BOTH1, play: slow, bound: 1_000, note: &[] },
    Row { state: "chunked stream", over: BOTH1, play: stream, bound: 1_200, note: &[] },
    Row { state: "events, polite handler", over: BOTH1, play: events, bound: 700, note: &[] },
    Row { state: "pipelined requests", over: BOTH1, play: pipelined, bound: 1_000, note: &[] },
    Row { state: "client half-closed", over: &[Http1], play: half_closed, bound: 1_000, note: &[] },
    Row { state: "WebSocket that answers", over: BOTH1, play: ws_answers, bound: 700, note: &[] },
    Row { state: "WebSocket that never answers", over: BOTH1, play: ws_silent, bound: 1_100, note: &["WebSocket without an answer"] },
    Row { state: "WebSocket, message in flight", over: BOTH1, play: ws_message, bound: 700, note: &[] },
    Row { state: "TLS, not a byte yet", over: &[Http1Tls], play: no_handshake, bound: 1_500, note: &["TLS handshake"] },
    Row { state: "TLS, half a hello", over: &[Http1Tls], play: half_handshake, bound: 1_500, note: &["TLS handshake"] },
    Row { state: "half a preface", over: &[Http2], play: half_preface, bound: 1_500, note: &["half a request head"] },
    Row { state: "preface and no settings", over: BOTH2, play: no_settings, bound: 1_500, note: &["HTTP/2 without a stream"] },
    Row { state: "HTTP/2, never used", over: BOTH2, play: h2_silent, bound: 900, note: &[] },
    Row { state: "HTTP/2 idle", over: BOTH2, play: h2_idle, bound: 500, note: &[] },
    Row { state: "HTTP/2, no answer to PING", over: BOTH2, play: h2_no_pong, bound: 1_500, note: &["HTTP/2 without a stream"] },
    Row { state: "HTTP/2, GOAWAY ignored", over: BOTH2, play: h2_ignores_goaway, bound: 1_500, note: &[] },
    Row { state: "HTTP/2 stream in flight", over: BOTH2, play: h2_in_flight, bound: 1_000, note: &[] },
    Row { state: "HTTP/2, stream before the 2nd GOAWAY", over: BOTH2, play: h2_two_steps, bound: 500, note: &[] },
    Row { state: "HTTP/2 chunked stream", over: BOTH2, play: h2_stream, bound: 1_200, note: &[] },
    Row { state: "HTTP/2 events, polite handler", over: BOTH2, play: h2_events, bound: 700, note: &[] },
    Row { state: "HTTP/2 stalled upload", over: BOTH2, play: h2_stalled_upload, bound: 2_000, note: &["stalled upload", "POST /upload for "] },
    Row { state: "HTTP/2 reader that stopped", over: BOTH2, play: h2_stalled_reader, bound: 2_000, note: &["stalled reader", "GET / for "] },
];

/// So many services at a time: they mostly wait.
const AT_ONCE: usize = 8;

#[test]
fn every_state_ends_well_and_on_time() {
    let cases: Vec<(&Row, Over)> = ROWS
        .iter()
        .flat_map(|row| row.over.iter().map(move |over| (row, *over)))
        .collect();
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|threads| {
        for _ in 0..AT_ONCE {
            threads.spawn(|| {
                while let Some((row, over)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    // The message of a panic is printed where it happens; here it is only counted.
                    match catch_unwind(AssertUnwindSafe(|| run(row, *over))) {
                        Ok(took) => println!(
                            "{:<38} {over:?}: {} ms of {}",
                            row.state,
                            took.as_millis(),
                            row.bound
                        ),
                        Err(_) => failed
                            .lock()
                            .expect("no thread panics with it")
                            .push(format!("{} over {over:?}", row.state)),
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect("no thread panics with it");
    assert!(failed.is_empty(), "{failed:#?}");
}

fn run(row: &Row, over: Over) -> Duration {
    let mut live = Web::new().tls(over.is_tls()).start();
    (row.play)(&mut live, over);
    let ended: Ended = live.finish();
    ended.exits(0).within_ms(row.bound).loses_nothing();
    match row.note {
        [] => ended.closes_no_other_connection(),
        words => ended.notes_that(words),
    };
    ended.notes_that(&["new connections refused"]);
    ended.took
}

fn silent(live: &mut Live, over: Over) {
    let mut client = live.connect(over);
    live.stop();
    client.is_told_to_try_again();
}

fn idle(live: &mut Live, over: Over) {
    let mut client = live.connect(over);
    assert_eq!(client.get("/").text(), "hello\n");
    live.stop();
    client.is_told_to_try_again();
}

fn half_head(live: &mut Live, over: Over) {
    let mut client = live.connect(over);
    client.send("GET / HTTP/1.1\r\nho");
    live.stop();
    client.is_told_to_try_again();
}

fn half_second_head(live: &mut Live, over: Over) {
    let mut client = live.connect(over);
    client.get("/");
    client.send("GET / HT");
    live.stop();
    client.is_told_to_try_again();
}

fn late_head(live: &mut Live, over: Over) {
    let mut client = live.connect(over);
    client.send("GET / HTTP/1.1\r\nho");
    live.stop_and_be_refused();
    let answer = client.send("st: localhost\r\n\r\n").answer();
    assert_eq!((answer.status(), answer.closes()), (200, true));
    client.is_closed();
}

fn late_request(live: &mut Live, over: Over) {
    let mut client = live.connect(over);
    client.get("/");
    live.stop_and_be_refused();
    let answer = client.get("/");
    assert_eq!((answer.status(), answer.closes()), (200, true));
    client.is_closed();
}

const UPLOAD: &str =
    "POST /upload HTTP/1.1\r\nhost: localhost\r\ncontent-length: 30\r\n\r\n0123456789";

fn stalled_upload(live: &mut Live, over: Over) {
    let mut client = live.connect(over);
    client.send(UPLOAD);
    live.stop();
    client.is_closed();
}

fn upload(live: &mut Live, over: Over) {
    let mut client = live.connect(over);
    client.send(UPLOAD);
    live.stop_and_be_refused();
    let answer = client.send("0123456789").send("0123456789").answer();
    assert_eq!((answer.text().as_str(), answer.closes()), ("30\n", true));
    client.is_closed();
}

fn slow(live: &mut Live, over: Over) {
    let mut client = live.connect(over);
    client.ask("/slow?ms=1000");
    live.stop();
    let answer = client.answer();
    assert_eq!((answer.status(), answer.closes()), (200, true));
    client.is_closed();
}

const TEN: &str =
    "chunk 0\nchunk 1\nchunk 2\nchunk 3\nchunk 4\nchunk 5\nchunk 6\nchunk 7\nchunk 8\nchunk 9\n";

fn stream(live: &mut Live, over: Over) {
    let mut client = live.connect(over);
    client.ask("/stream");
    live.stop();
    assert_eq!(client.answer().text(), TEN);
    // Its head may have promised to keep the connection.
    client.rest_of_it();
}

fn events(live: &mut Live, over: Over) {
    let mut client = live.connect(over);
    client.ask("/sse").until("tick 0");
    live.stop();
    client.until("event: goodbye\ndata: going away\n\n");
    client.until("\r\n0\r\n\r\n");
    // Its head had promised to keep the connection.
    client.is_told_to_try_again();
}

fn pipelined(live: &mut Live, over: Over) {
    let mut client = live.connect(over);
    let ask = |path| format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    client.send(ask("/slow?ms=300") + &ask("/") + &ask("/slow?ms=100") + &ask("/"));
    live.stop();
    let bodies: Vec<_> = (0..4).map(|_| client.answer().text()).collect();
    assert_eq!(
        bodies,
        ["slept 300 ms\n", "hello\n", "slept 100 ms\n", "hello\n"]
    );
    // Whether the last answer could know that it is the last decides on the last bytes.
    client.rest_of_it();
}

fn half_closed(live: &mut Live, over: Over) {
    let mut client = live.connect(over);
    client.ask("/slow?ms=700").close_its_side();
    live.stop();
    assert_eq!(client.answer().text(), "slept 700 ms\n");
    client.is_closed();
}

fn ws_answers(live: &mut Live, over: Over) {
    let mut ws = Ws::connect(live, over, "/ws");
    live.stop();
    ws.is_told(1001);
    ws.send(CLOSE, &1001_u16.to_be_bytes());
    ws.client.is_closed();
}

fn ws_silent(live: &mut Live, over: Over) {
    let mut ws = Ws::connect(live, over, "/ws");
    live.stop();
    ws.is_told(1001);
    ws.client.is_closed();
}

fn ws_message(live: &mut Live, over: Over) {
    let mut ws = Ws::connect(live, over, "/ws");
    ws.send(TEXT, b"on its way");
    live.stop();
    assert_eq!(ws.next(), (TEXT, b"on its way".to_vec()));
    ws.is_told(1001);
    ws.send(CLOSE, &1001_u16.to_be_bytes());
    ws.client.is_closed();
}

fn no_handshake(live: &mut Live, _: Over) {
    let mut client = live.connect(Http1);
    live.stop();
    client.is_closed();
}

fn half_handshake(live: &mut Live, _: Over) {
    let mut client = live.connect(Http1);
    // The head of a record of 512 bytes, and the first of them.
    client.send([0x16, 0x03, 0x01, 0x02, 0x00, 0x01]);
    live.stop();
    client.is_closed();
}

fn half_preface(live: &mut Live, over: Over) {
    let mut client = live.connect(over);
    client.send(&PREFACE[..10]);
    live.stop();
    client.rest_of_it();
}

fn no_settings(live: &mut Live, over: Over) {
    let mut client = live.connect(over);
    client.send(PREFACE);
    live.stop();
    client.rest_of_it();
}

fn h2_silent(live: &mut Live, over: Over) {
    let mut h2 = H2::connect(live, over);
    live.stop();
    h2.rest_of_it();
    assert_eq!(h2.goaways, [NO_LIMIT, 0]);
}

fn h2_idle(live: &mut Live, over: Over) {
    let mut h2 = H2::connect(live, over);
    h2.ask(1, "/", true);
    assert_eq!(h2.answer(1), "hello\n");
    live.stop();
    h2.rest_of_it();
    assert_eq!(h2.goaways, [NO_LIMIT, 1]);
}

fn h2_no_pong(live: &mut Live, over: Over) {
    let mut h2 = H2::connect(live, over);
    h2.polite = false;
    h2.ask(1, "/", true);
    h2.answer(1);
    live.stop();
    h2.rest_of_it();
    // The line is drawn all the same, for what may have crossed the cut.
    assert_eq!(h2.goaways, [NO_LIMIT, 1]);
}

/// Answers the PING, and then goes on asking and keeps its side open.
fn h2_ignores_goaway(live: &mut Live, over: Over) {
    let mut h2 = H2::connect(live, over);
    h2.ask(1, "/slow?ms=1000", true);
    live.stop();
    h2.expect("the second GOAWAY", |frame| frame.last_stream() == Some(1));
    h2.ask(3, "/", true);
    let seen = h2.rest_of_it();
    assert!(
        seen.iter()
            .any(|frame| frame.stream == 1 && frame.kind == DATA)
    );
    assert!(
        !seen
            .iter()
            .any(|frame| frame.stream == 3 && frame.kind == DATA)
    );
}

fn h2_in_flight(live: &mut Live, over: Over) {
    let mut h2 = H2::connect(live, over);
    h2.ask(1, "/slow?ms=1000", true);
    live.stop();
    assert_eq!(h2.answer(1), "slept 1000 ms\n");
    h2.rest_of_it();
    assert_eq!(h2.goaways, [NO_LIMIT, 1]);
}

/// What crosses the first GOAWAY on its way is served: only the second one draws the line.
fn h2_two_steps(live: &mut Live, over: Over) {
    let mut h2 = H2::connect(live, over);
    h2.polite = false;
    h2.ask(1, "/", true);
    h2.answer(1);
    live.stop();
    let ping = h2.expect("a PING", |frame| frame.kind == PING && frame.flags == 0);
    assert_eq!(h2.goaways, [NO_LIMIT]);
    h2.ask(3, "/", true);
    assert_eq!(h2.answer(3), "hello\n");
    h2.pong(&ping);
    h2.rest_of_it();
    assert_eq!(h2.goaways, [NO_LIMIT, 3]);
}

fn h2_stream(live: &mut Live, over: Over) {
    let mut h2 = H2::connect(live, over);
    h2.ask(1, "/stream", true);
    live.stop();
    assert_eq!(h2.answer(1), TEN);
}

fn h2_events(live: &mut Live, over: Over) {
    let mut h2 = H2::connect(live, over);
    h2.ask(1, "/sse", true);
    h2.expect("an event", |frame| frame.kind == DATA);
    live.stop();
    assert!(
        h2.answer(1)
            .ends_with("event: goodbye\ndata: going away\n\n")
    );
}

fn h2_stalled_upload(live: &mut Live, over: Over) {
    let mut h2 = H2::connect(live, over);
    h2.ask(1, "/upload", false);
    h2.frame(DATA, 0, 1, b"0123456789");
    live.stop();
    h2.rest_of_it();
}

fn h2_stalled_reader(live: &mut Live, over: Over) {
    let mut h2 = H2::with(live, over, &[(INITIAL_WINDOW_SIZE, 0)]);
    h2.ask(1, "/", true);
    h2.expect("the head of the answer", |frame| frame.stream == 1);
    live.stop();
    h2.rest_of_it();
}
