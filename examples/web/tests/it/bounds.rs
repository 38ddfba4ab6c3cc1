//! No client holds the drain, however short it is, and every client that is cut has a line in the report.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use adieu::http::{Limits, Stopping};
use adieu_testkit::SchedulingDelay;
use axum::Router;
use axum::body::Bytes;
use axum::routing::{get, post};
use rustix::process::Signal;

use crate::client::{Client, Over, each};
use crate::h2::{DATA, H2, INITIAL_WINDOW_SIZE, PING};
use crate::own::Own;
use crate::web::Web;

fn router(entered: Sender<()>) -> Router {
    Router::new()
        .route("/", get(async || "hello\n"))
        .route("/upload", post(async |body: Bytes| body.len().to_string()))
        .route(
            "/hang",
            get(async move || {
                let _ = entered.send(());
                std::future::pending::<()>().await;
            }),
        )
}

fn peer(client: &Client) -> String {
    let address = client.socket.local_addr().expect("an address");
    format!("from {address}")
}

/// Every one of these limits is longer than the whole grace.
#[test]
fn the_limits_of_a_stop_fit_into_the_drain() {
    let long = Duration::from_secs(60);
    let limits = Limits::default()
        .linger(long)
        .patience(long)
        .stall_in_stop(long);
    let (entered, _) = mpsc::channel();
    let own = Own::new(router(entered)).limits(limits);
    let mut live = own.grace(Duration::from_secs(8)).start();
    let [mut silent, mut idle, mut half_head, mut stalled] =
        [(); 4].map(|()| live.connect(Over::Http1));
    assert_eq!(idle.get("/").status(), 200);
    half_head.send("GET / HTTP/1.1\r\nho");
    stalled.send("POST /upload HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\nhalf");
    let mut deaf = H2::connect(&live, Over::Http2);
    deaf.polite = false;
    live.stop();
    for client in [&mut silent, &mut idle, &mut half_head] {
        client.is_told_to_try_again();
    }
    stalled.is_closed();
    deaf.rest_of_it();
    let ended = live.finish();
    ended.exits(0).loses_nothing();
    ended
        .notes_that(&["connection(s) silent", &peer(&silent)])
        .notes_that(&["connection(s) idle", &peer(&idle)])
        .notes_that(&["half a request head", &peer(&half_head)])
        .notes_that(&["stalled upload", &peer(&stalled), "POST /upload for "])
        .notes_that(&["HTTP/2 without a stream", &peer(&deaf.client)]);
}

#[test]
fn a_request_whose_client_has_reset_does_not_hold_the_stop() {
    let (entered, enters) = mpsc::channel();
    let mut live = Own::new(router(entered)).start();
    let [mut before, mut after] = [(); 2].map(|()| live.connect(Over::Http1));
    for client in [&mut before, &mut after] {
        client.ask("/hang");
        enters.recv().expect("it is in flight");
    }
    before.reset();
    live.stop_and_be_refused();
    after.reset();
    live.finish().exits(0).within_ms(1_000).loses_nothing();
}

/// Most clients that close are gone, and few say so in any other way.
#[test]
fn a_request_whose_client_has_closed_has_a_bound() {
    let (entered, enters) = mpsc::channel();
    let mut live = Own::new(router(entered)).start();
    let mut client = live.connect(Over::Http1);
    client.ask("/hang");
    enters.recv().expect("it is in flight");
    let peer = peer(&client);
    drop(client);
    live.stop();
    let ended = live.finish();
    ended
        .exits(0)
        .not_before_ms(2_000)
        .within_ms(2_000)
        .loses_nothing()
        .notes_that(&["closed its side", &peer, "GET /hang for "]);
}

/// A second signal leaves no time to be polite, and the report says to whom.
#[test]
fn a_connection_that_is_cut_is_named() {
    let mut live = Web::new().start_with(Signal::INT);
    let mut idle: Vec<Client> = (0..3).map(|_| live.connect(Over::Http1)).collect();
    for client in &mut idle {
        assert_eq!(client.get("/").status(), 200);
    }
    let mut half_head = live.connect(Over::Http1);
    half_head.send("GET / HTTP/1.1\r\nho");
    let mut busy = live.connect(Over::Http1);
    busy.ask("/slow?ms=600000");
    // What came before has been seen when what came after it is answered.
    assert_eq!(idle[0].get("/").status(), 200);
    live.stop_and_be_refused();
    live.stop();
    half_head.rest_of_it();
    let ended = live.finish();
    ended
        .exits(130)
        .loses(&["GET /slow from "])
        .loses(&["connection idle"])
        .loses(&["connection with half a request head", &peer(&half_head)]);
}

/// It is alive, and its upload has stalled all the same.
#[test]
fn a_client_that_only_pings_does_not_hold_the_stop() {
    let mut live = Web::new().start();
    let mut h2 = H2::connect(&live, Over::Http2);
    h2.ask(1, "/upload", false);
    h2.frame(DATA, 0, 1, b"0123456789");
    live.stop();
    // One after the other, each when the last is answered, for as long as there is a connection.
    let ping = [0, 0, 8, PING, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    let mut socket = h2
        .client
        .socket
        .try_clone()
        .expect("a socket can be shared");
    while socket.write_all(&ping).is_ok() && h2.next().is_some() {}
    live.finish()
        .exits(0)
        .within_ms(2_500)
        .loses_nothing()
        .notes_that(&["stalled upload", "POST /upload for "]);
}

/// A request names itself; the connection that it came on is not lost besides.
#[test]
fn a_stream_that_is_cut_is_named_once() {
    let mut live = Web::new().grace("1s").start();
    let mut clients = [(); 6].map(|()| H2::connect(&live, Over::Http2));
    for h2 in &mut clients {
        h2.ask(1, "/slow?ms=600000", true);
        h2.ask(3, "/slow?ms=600000", true);
    }
    live.stop();
    let ended = live.finish();
    ended.exits(3);
    let lost = ended.report["lost"].as_array().into_iter().flatten();
    let names: Vec<_> = lost.filter_map(|loss| loss["name"].as_str()).collect();
    assert!(!names.is_empty(), "{ended:?}");
    for name in names {
        assert!(name.starts_with("GET /slow from "), "{name}: {ended:?}");
    }
}

/// An answer at the last moment, before the time is over that its client would have to close its side.
async fn late(stop: Stopping) -> &'static str {
    stop.requested().await;
    if let Some(end) = stop.deadline() {
        tokio::time::sleep_until(end - Duration::from_millis(150)).await;
    }
    "in time\n"
}

/// For times so short that a machine may sleep through them, which says nothing of the server. A round that fails while
/// the machine ran is a failure; one in which it slept is not judged, and is made again.
fn unless_the_machine_sleeps(round: impl Fn()) {
    const SLEPT: Duration = Duration::from_millis(40);
    for _ in 0..5 {
        let pulse = SchedulingDelay::start();
        match catch_unwind(AssertUnwindSafe(&round)) {
            Ok(()) => return,
            Err(_) if pulse.latest() >= SLEPT => {
                println!("not judged: the machine slept for {:?}", pulse.latest());
            }
            Err(failure) => resume_unwind(failure),
        }
    }
    fixture_skip::too_busy("the machine slept through five rounds");
}

/// It has its answer, and has only not hung up yet: nothing is cut.
#[test]
fn an_answer_at_the_last_moment_is_no_loss() {
    each([Over::Http1, Over::Http1Tls], |over| {
        unless_the_machine_sleeps(|| {
            let own = Own::new(Router::new().route("/late", get(late))).tls(over.is_tls());
            let mut live = own.grace(Duration::from_secs(2)).start();
            let mut client = live.connect(over);
            client.ask("/late");
            live.stop();
            assert_eq!(client.answer().text(), "in time\n");
            live.finish().exits(0).loses_nothing();
        });
    });
}

/// The protocol has a word with the client in between, and that is not a byte of the answer.
#[test]
fn a_reader_that_stopped_has_its_bound_in_a_short_drain_too() {
    each([Over::Http2, Over::Http2Tls], |over| {
        unless_the_machine_sleeps(|| {
            let mut live = Web::new().tls(over.is_tls()).grace("400ms").start();
            let mut h2 = H2::connect(&live, over);
            h2.ask(1, "/large", true);
            h2.expect("the head of the answer", |frame| frame.stream == 1);
            live.stop();
            live.finish()
                .exits(0)
                .loses_nothing()
                .notes_that(&["stalled reader", "GET /large for "]);
        });
    });
}

/// Its last bytes are the kernel's already, and the server has nothing more to do; the client is not through.
#[test]
fn an_http2_answer_on_a_slow_line_is_whole() {
    const SIZE: usize = 3 << 20;
    let body = Bytes::from(vec![b'x'; SIZE]);
    let router = Router::new().route("/", get(async move || body.clone()));
    let mut live = Own::new(router).start();
    let mut h2 = H2::with(&live, Over::Http2, &[(INITIAL_WINDOW_SIZE, 1 << 30)]);
    h2.window(0, 1 << 30);
    h2.ask(1, "/", true);
    h2.expect("the head of the answer", |frame| frame.stream == 1);
    live.stop();
    let mut count = 0;
    while let Some(frame) = h2.next() {
        if frame.kind == DATA {
            count += frame.payload.len();
            h2.window(0, 16_384);
            // A slow line.
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    assert_eq!(count, SIZE);
    live.finish()
        .exits(0)
        .loses_nothing()
        .closes_no_other_connection();
}
