//! The limits of a server that runs: no client can hold what it does not use.

use std::convert::Infallible;
use std::time::Duration;

use adieu::http::{Limits, Stopping};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};
use futures_util::stream::{self, StreamExt};

use crate::client::{Client, Over};
use crate::h2::{DATA, END_STREAM, H2, NO_LIMIT};
use crate::live::Live;
use crate::own::Own;

const SHORT: Duration = Duration::from_millis(300);

fn router() -> Router {
    Router::new()
        .route("/", get(async || "hello\n"))
        .route("/upload", post(async |body: Bytes| body.len().to_string()))
        .route("/panic", get(panics))
        .route("/panic-later", get(panics_later))
        .route("/wait", get(wait))
        .layer(DefaultBodyLimit::disable())
}

async fn panics() -> String {
    panic!("asked to panic");
}

/// Half an answer, and then a panic.
async fn panics_later() -> Body {
    let first = stream::iter([Ok::<_, Infallible>(Bytes::from_static(b"half"))]);
    Body::from_stream(first.chain(stream::poll_fn(|_| panic!("asked to panic later"))))
}

/// Answers when the stop comes, or when the test would have given up.
async fn wait(stop: Stopping) -> String {
    let slept = stop.sleep(Duration::from_secs(20)).await;
    format!("slept {slept}, stopping {}", stop.is_requested())
}

fn with(change: impl FnOnce(&mut Limits)) -> Live {
    let mut limits = Limits::default();
    change(&mut limits);
    Own::new(router()).limits(limits).start()
}

fn ends_clean(mut live: Live) {
    live.stop();
    live.finish().exits(0).within_ms(700).loses_nothing();
}

#[test]
fn half_a_head_is_answered_with_408_while_others_are_served() {
    let live = with(|limits| limits.head = Duration::from_secs(1));
    let mut slow: Vec<Client> = (0..200)
        .map(|_| {
            let mut client = live.connect(Over::Http1);
            client.send("GET / HTTP/1.1\r\nx-slow: ");
            client
        })
        .collect();
    let mut real = live.connect(Over::Http1);
    for (number, client) in slow.iter_mut().enumerate() {
        assert_eq!(real.get("/").status(), 200);
        if number % 2 == 0 {
            // Some are gone by now, if the machine is slow; a byte does not buy time.
            let _ = std::io::Write::write(&mut client.socket, b"x");
        }
    }
    for client in &mut slow {
        client.is_told_to_try_again();
    }
    assert_eq!(real.get("/").status(), 200);
    ends_clean(live);
}

#[test]
fn an_idle_connection_is_not_kept_for_ever() {
    let live = with(|limits| limits.keep_alive = SHORT);
    let (mut silent, mut idle) = (live.connect(Over::Http1), live.connect(Over::Http1));
    assert_eq!(idle.get("/").status(), 200);
    silent.is_told_to_try_again();
    idle.is_told_to_try_again();
    ends_clean(live);
}

/// Its head had longer than its silence has: what was set for the one does not hold for the other.
#[test]
fn a_connection_is_not_kept_for_as_long_as_its_head_may_take() {
    let live = with(|limits| {
        limits.keep_alive = SHORT;
        limits.head = Duration::from_secs(3_600);
    });
    let mut slow = live.connect(Over::Http1);
    slow.send("GET / HTTP/1.1\r\nhost: loc");
    // Another client goes through its whole time meanwhile.
    live.connect(Over::Http1).is_told_to_try_again();
    slow.send("alhost\r\n\r\n");
    assert_eq!(slow.answer().status(), 200);
    slow.is_told_to_try_again();
    ends_clean(live);
}

#[test]
fn an_idle_http2_connection_is_told_and_closed() {
    let live = with(|limits| {
        limits.keep_alive = SHORT;
        limits.patience = SHORT;
    });
    for polite in [true, false] {
        let mut h2 = H2::connect(&live, Over::Http2);
        h2.ask(1, "/", true);
        h2.answer(1);
        h2.polite = polite;
        h2.rest_of_it();
        assert_eq!(h2.goaways, [NO_LIMIT, 1]);
    }
    ends_clean(live);
}

#[test]
fn an_upload_that_stalls_is_cut() {
    let live = with(|limits| limits.stall = SHORT);
    let mut client = live.connect(Over::Http1);
    client.send("POST /upload HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\nabc");
    client.is_closed();
    ends_clean(live);
}

#[test]
fn a_handler_that_takes_its_time_is_no_stall() {
    let mut live = with(|limits| {
        limits.stall = SHORT;
        limits.stall_in_stop = SHORT;
        limits.keep_alive = SHORT;
        limits.head = SHORT;
    });
    let mut client = live.connect(Over::Http1);
    let mut h2 = H2::connect(&live, Over::Http2);
    client.ask("/wait");
    h2.ask(1, "/wait", true);
    // Another client goes through all of that meanwhile.
    live.connect(Over::Http1).is_told_to_try_again();
    live.stop();
    assert_eq!(client.answer().text(), "slept false, stopping true");
    assert_eq!(h2.answer(1), "slept false, stopping true");
    live.finish().exits(0).within_ms(1_500).loses_nothing();
}

#[test]
fn a_handshake_has_a_limit() {
    let limits = Limits::default().handshake(SHORT);
    let live = Own::new(router()).limits(limits).tls(true).start();
    live.connect(Over::Http1).is_closed();
    ends_clean(live);
}

#[test]
fn a_head_too_large_is_answered_with_431() {
    let live = with(|limits| limits.head_size = 8_192);
    let mut client = live.connect(Over::Http1);
    client.send(format!(
        "GET / HTTP/1.1\r\nhost: localhost\r\nx-large: {}",
        "x".repeat(8_192)
    ));
    assert_eq!(client.answer().status(), 431);
    ends_clean(live);
}

/// Every connection has a request in flight: none is closed for it.
#[test]
fn one_client_too_many_waits_for_a_place() {
    let mut live = with(|limits| limits.connections = 2);
    let (mut first, mut second) = (live.connect(Over::Http1), live.connect(Over::Http1));
    for client in [&mut first, &mut second] {
        assert_eq!(client.get("/").status(), 200);
        client.ask("/wait");
    }
    let mut third = live.connect(Over::Http1);
    third.ask("/");
    // Another service goes through a whole time of its own, and the third client has no answer.
    let other = with(|limits| limits.head = SHORT);
    other.connect(Over::Http1).is_told_to_try_again();
    ends_clean(other);
    third.socket.set_nonblocking(true).expect("a flag");
    assert!(third.socket.peek(&mut [0]).is_err());
    third.socket.set_nonblocking(false).expect("a flag");
    second.reset();
    assert_eq!(third.answer().status(), 200);
    live.stop();
    assert_eq!(first.answer().text(), "slept false, stopping true");
    live.finish()
        .exits(0)
        .loses_nothing()
        .notes_that(&["all connections allowed were taken 1 time"]);
}

/// The connection that has been idle for the longest is closed, and its client may connect again.
#[test]
fn the_longest_idle_makes_room_for_the_next() {
    let live = with(|limits| limits.connections = 2);
    let (mut first, mut second) = (live.connect(Over::Http1), live.connect(Over::Http1));
    assert_eq!(second.get("/").status(), 200);
    // Its clock ticks every few milliseconds, and the second is to be the one that was idle for longer.
    first.send("GET / HTTP/1.1\r\nhost: localhost\r\n");
    std::thread::sleep(Duration::from_millis(50));
    first.send("\r\n");
    assert_eq!(first.answer().status(), 200);
    let mut third = live.connect(Over::Http1);
    assert_eq!(third.get("/").status(), 200);
    second.is_told_to_try_again();
    assert_eq!(first.get("/").status(), 200);
    ends_clean(live);
}

/// No connection is idle when it comes: the next one to be makes room.
#[test]
fn a_connection_that_becomes_idle_makes_room() {
    let live = with(|limits| limits.connections = 1);
    // One that is gone again at once takes no place.
    drop(live.connect(Over::Http1));
    let mut busy = live.connect(Over::Http1);
    busy.send("POST /upload HTTP/1.1\r\nhost: localhost\r\ncontent-length: 4\r\n\r\nha");
    let mut next = live.connect(Over::Http1);
    next.ask("/");
    busy.send("lf");
    assert_eq!(busy.answer().text(), "4");
    assert_eq!(next.answer().status(), 200);
    let mut busy = H2::connect(&live, Over::Http2);
    busy.ask(1, "/upload", false);
    let mut next = live.connect(Over::Http1);
    next.ask("/");
    busy.frame(DATA, END_STREAM, 1, b"half");
    assert_eq!(busy.answer(1), "4");
    assert_eq!(next.answer().status(), 200);
    // What crossed the end was not handled, and may be sent again.
    busy.rest_of_it();
    assert_eq!(busy.goaways, [1]);
    ends_clean(live);
}

#[test]
fn a_panic_costs_one_response_and_no_other_client_anything() {
    let live = with(|_| {});
    let mut client = live.connect(Over::Http1);
    assert_eq!(client.get("/panic").status(), 500);
    assert_eq!(client.get("/").status(), 200);
    let rest = {
        let mut later = live.connect(Over::Http1);
        later.ask("/panic-later").rest_of_it()
    };
    assert!(!rest.ends_with(b"0\r\n\r\n"), "half must not look whole");
    assert_eq!(client.get("/").status(), 200);
    ends_clean(live);
}

/// The longest duration there is, for a limit that is not wanted.
#[test]
fn a_limit_may_be_without_end() {
    let own = Own::new(router()).tls(true).limits(
        Limits::default()
            .handshake(Duration::MAX)
            .head(Duration::MAX)
            .stall(Duration::MAX)
            .keep_alive(Duration::MAX)
            .linger(Duration::MAX)
            .patience(Duration::MAX)
            .stall_in_stop(Duration::MAX),
    );
    let mut live = own.grace(Duration::from_secs(2)).start();
    let mut client = live.connect(Over::Http1Tls);
    client.send("GET / HTTP/1.1\r\n");
    client.send("host: localhost\r\n\r\n");
    assert_eq!(client.answer().text(), "hello\n");
    client.send("POST /upload HTTP/1.1\r\nhost: localhost\r\ncontent-length: 4\r\n\r\nha");
    client.send("lf");
    assert_eq!(client.answer().text(), "4");
    let mut h2 = H2::connect(&live, Over::Http2Tls);
    h2.ask(1, "/", true);
    assert_eq!(h2.answer(1), "hello\n");
    live.stop();
    client.is_told_to_try_again();
    h2.rest_of_it();
    live.finish().exits(0).loses_nothing();
}
