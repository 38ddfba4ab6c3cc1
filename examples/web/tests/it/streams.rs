//! Answers that take long: streams that ignore the stop, readers that are slow, readers that stopped.

use std::convert::Infallible;
use std::time::Duration;

use adieu::http::Limits;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::response::IntoResponse;
use axum::response::sse::{Event, Sse};
use axum::routing::get;
use futures_util::stream::{self, StreamExt};

use crate::client::{Over, each};
use crate::h2::{DATA, H2, INITIAL_WINDOW_SIZE};
use crate::own::Own;

const LARGE: usize = 6_000_000;

fn router() -> Router {
    Router::new()
        .route("/deaf", get(deaf_events))
        .route("/firehose", get(firehose))
        .route("/large", get(async || Bytes::from(vec![b'x'; LARGE])))
        .route("/drip", get(drip))
}

fn tick() -> Result<Event, Infallible> {
    Ok(Event::default().data("tick"))
}

/// One event, and then nothing, stop or no stop.
async fn deaf_events() -> impl IntoResponse {
    Sse::new(stream::iter([tick()]).chain(stream::pending()))
}

/// Events without end and without a pause.
async fn firehose() -> impl IntoResponse {
    Sse::new(stream::repeat_with(tick))
}

/// One chunk, and then nothing forever; not a stream of events.
async fn drip() -> Body {
    Body::from_stream(
        stream::iter([Ok::<_, Infallible>(Bytes::from_static(b"drop"))]).chain(stream::pending()),
    )
}

#[test]
fn events_that_ignore_the_stop_are_ended_between_two_of_them() {
    each([Over::Http1, Over::Http1Tls], |over| {
        let mut live = Own::new(router()).tls(over.is_tls()).start();
        let mut client = live.connect(over);
        client.ask("/deaf").until("tick");
        live.stop();
        client.until("\r\n0\r\n\r\n");
        live.finish()
            .exits(0)
            .within_ms(700)
            .loses_nothing()
            .closes_no_other_connection();
    });
    let mut live = Own::new(router()).start();
    let mut h2 = H2::connect(&live, Over::Http2);
    h2.ask(1, "/deaf", true);
    h2.expect("an event", |frame| frame.kind == DATA);
    live.stop();
    assert_eq!(h2.answer(1), "");
    live.finish().exits(0).within_ms(700).loses_nothing();
}

#[test]
fn events_without_a_pause_end_too() {
    let mut live = Own::new(router()).start();
    let mut client = live.connect(Over::Http1);
    client.ask("/firehose").until("tick");
    live.stop();
    let (_, last) = client.skim();
    assert!(last.contains("\r\n0\r\n\r\n"), "{last:?}");
    live.finish().exits(0).within_ms(1_600).loses_nothing();
}

#[test]
fn a_stream_that_is_never_whole_is_cut_at_the_end_of_the_drain_and_named() {
    let mut live = Own::new(router()).grace(Duration::from_secs(2)).start();
    let mut client = live.connect(Over::Http1);
    client.ask("/drip").until("drop");
    live.stop();
    let rest = client.rest_of_it();
    assert!(
        !rest.ends_with(b"0\r\n\r\n"),
        "half an answer must not look whole"
    );
    live.finish()
        .exits(3)
        .within_ms(2_000)
        .loses(&["GET /drip from 127.0.0.1:"]);
}

#[test]
fn a_reader_that_stopped_is_cut_after_its_bound() {
    each([Over::Http1, Over::Http1Tls], |over| {
        let mut live = Own::new(router()).tls(over.is_tls()).start();
        let mut client = live.connect(over);
        client.ask("/large").until("xxx");
        live.stop();
        live.finish()
            .exits(0)
            .within_ms(2_500)
            .notes_that(&["stalled reader", "GET /large for "]);
    });
}

#[test]
fn a_reader_that_stopped_after_many_small_answers_is_cut_too() {
    let mut live = Own::new(router()).start();
    let mut client = live.connect(Over::Http1);
    let mut asks = String::new();
    for _ in 0..4 {
        asks.push_str("GET /large HTTP/1.1\r\nhost: localhost\r\n\r\n");
    }
    client.send(asks).until("xxx");
    live.stop();
    live.finish()
        .exits(0)
        .within_ms(2_500)
        .notes_that(&["stalled reader"]);
}

/// Far slower than the time without a byte that is allowed would let through if only our own writes counted: the
/// kernel asks for more only when much of its buffer is free.
#[test]
fn a_slow_reader_gets_all_of_it() {
    let limits = Limits::default().stall_in_stop(Duration::from_millis(400));
    each([Over::Http1, Over::Http1Tls], |over| {
        let mut live = Own::new(router())
            .limits(limits.clone())
            .tls(over.is_tls())
            .start();
        let mut client = live.connect(over);
        // So that it tells of every bit of room, and not of megabytes at a time.
        rustix::net::sockopt::set_socket_recv_buffer_size(&client.socket, 65_536)
            .expect("a buffer can be small");
        client.ask("/large");
        let head = client.until("\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        live.stop();
        let count = client.sip(64 * 1_024, Duration::from_millis(40));
        assert!(count >= LARGE, "{count} of {LARGE}");
        live.finish()
            .exits(0)
            .loses_nothing()
            .closes_no_other_connection();
    });
}

/// The handler is done and hyper has all of the answer, but the client's window lets it out in small pieces.
#[test]
fn a_slow_http2_reader_gets_all_of_it() {
    let limits = Limits::default()
        .stall_in_stop(Duration::from_millis(500))
        .patience(Duration::from_millis(100))
        .linger(Duration::from_millis(100));
    let window = 400_000;
    let mut live = Own::new(router()).limits(limits).start();
    let mut h2 = H2::with(&live, Over::Http2, &[(INITIAL_WINDOW_SIZE, window)]);
    h2.window(0, 100_000_000);
    h2.ask(1, "/large", true);
    live.stop();
    let (mut count, mut granted) = (0, 0);
    while count < LARGE {
        let data = h2.expect("more of the answer", |frame| frame.kind == DATA);
        count += data.payload.len();
        granted += u32::try_from(data.payload.len()).expect("a short frame");
        if granted >= window {
            std::thread::sleep(Duration::from_millis(60));
            h2.window(1, std::mem::take(&mut granted));
        }
    }
    h2.rest_of_it();
    live.finish()
        .exits(0)
        .not_before_ms(600)
        .loses_nothing()
        .closes_no_other_connection();
}
