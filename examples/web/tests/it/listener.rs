//! The listener is closed: no connection is accepted and then dropped.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::client::Over;
use crate::live::PATIENCE;
use crate::web::Web;

/// A slow request keeps the service draining. A client that connects meanwhile is served or refused.
#[test]
fn a_new_connection_is_served_or_refused_and_never_left_alone() {
    let mut live = Web::new().start();
    let mut busy = live.connect(Over::Http1);
    busy.ask("/slow?ms=1500");
    live.stop();
    let (mut accepted, mut refused) = (Vec::new(), 0);
    // Until well into the drain: the first refusal draws the line.
    while refused < 1_000 {
        match TcpStream::connect(live.address) {
            Ok(socket) => {
                assert_eq!(refused, 0, "accepted after a refusal");
                accepted.push(socket);
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
                refused += 1;
            }
        }
    }
    // Those who got in before hear something, and at the latest when the linger is over.
    for mut socket in accepted {
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let mut text = String::new();
        socket.read_to_string(&mut text).expect("an orderly end");
        assert!(text.starts_with("HTTP/1.1 408 "), "{text:?}");
    }
    assert_eq!(busy.answer().status(), 200);
    live.finish()
        .exits(0)
        .within_ms(1_500)
        .loses_nothing()
        .closes_no_other_connection()
        .notes_that(&["new connections refused, accept queue drained, listener closed"]);
}

/// All connections that it has descriptors for have a request in flight.
#[test]
fn without_descriptors_it_neither_spins_nor_stops() {
    let mut live = Web::new().descriptors(64).start();
    let mut first = live.connect(Over::Http1);
    assert_eq!(first.get("/").status(), 200);
    // With a request in flight, so that it is not idle and its place is not given to another.
    first.ask("/sse").until("tick 0");
    // The kernel takes them all; the service has no room for the last ones.
    let ask = |_| {
        let mut client = live.connect(Over::Http1);
        client.ask("/slow?ms=600000");
        client
    };
    let crowd: Vec<_> = (0..100).map(ask).collect();
    let mut last = live.connect(Over::Http1);
    last.ask("/");
    let waits = |seconds| {
        let time = Some(Duration::from_secs(seconds));
        last.socket.set_read_timeout(time).expect("a timeout");
        let heard = last.socket.peek(&mut [0]);
        assert!(heard.is_err(), "served without a descriptor");
    };
    // What it does with the crowd takes its time; then nothing is left to do.
    waits(1);
    let before = live.cpu();
    waits(1);
    let spent = live.cpu() - before;
    assert!(spent < Duration::from_millis(300), "spun for {spent:?}");
    // Those who are in are served meanwhile, and a place that is free is given to the next.
    first.until("tick 1");
    crowd.into_iter().for_each(crate::client::Client::reset);
    last.socket
        .set_read_timeout(Some(PATIENCE))
        .expect("a timeout");
    assert_eq!(last.answer().status(), 200);
    live.stop();
    live.finish()
        .exits(0)
        .within_ms(700)
        .loses_nothing()
        .notes_that(&["short of descriptors "]);
}

/// Otherwise a liveness probe would take it for dead. The accept loop of the service is always ready to take a
/// descriptor that is free, and must get none of the admin port's.
#[test]
fn without_descriptors_it_says_how_it_is() {
    let directory = TempDir::new().expect("a directory for the socket");
    let admin = directory.path().join("admin.sock");
    let web = Web::new().descriptors(64);
    let mut live = web.admin(&format!("unix:{}", admin.display())).start();
    let connect = || {
        let stream = UnixStream::connect(&admin).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream
    };
    let answer = |mut stream: UnixStream, probe: &str| {
        write!(stream, "GET {probe} HTTP/1.1\r\nhost: x\r\n\r\n").expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer
    };
    let is_answered = |stream, probe| {
        let answer = answer(stream, probe);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    };
    // The kernel takes connections before the service says that it is ready.
    let begun = Instant::now();
    while !answer(connect(), "/readyz").starts_with("HTTP/1.1 200 ") {
        assert!(begun.elapsed() < PATIENCE, "it is never ready");
    }
    let ask = |_| {
        let mut client = live.connect(Over::Http1);
        // Not idle, so that its place is not given to another.
        client.ask("/slow?ms=600000");
        client
    };
    let crowd: Vec<_> = (0..100).map(ask).collect();
    let mut last = live.connect(Over::Http1);
    last.ask("/");
    for _ in 0..20 {
        is_answered(connect(), "/livez");
        is_answered(connect(), "/readyz");
    }
    // More than the port has descriptors in reserve: those that ask for nothing make room.
    let silent: Vec<_> = (0..20).map(|_| connect()).collect();
    is_answered(connect(), "/livez");
    drop(silent);
    is_answered(connect(), "/livez");
    let waits = last.socket.set_nonblocking(true);
    waits.expect("a socket");
    let heard = last.socket.peek(&mut [0]).map_err(|error| error.kind());
    assert_eq!(heard, Err(ErrorKind::WouldBlock), "there was room");
    drop(crowd);
    live.stop();
    live.finish().exits(0);
}

/// Each that ends makes room for one in the queue, and then there is none left again, which is not logged again.
#[test]
fn one_shortage_is_told_of_once() {
    let mut live = Web::new().descriptors(64).start();
    let ask = |_| {
        let mut client = live.connect(Over::Http1);
        client.ask("/");
        client
    };
    let crowd: Vec<_> = (0..150).map(ask).collect();
    for mut client in crowd {
        assert_eq!(client.answer().status(), 200);
    }
    live.stop();
    live.finish()
        .exits(0)
        .loses_nothing()
        .notes_that(&["short of descriptors 1 time:"]);
}

/// Connections without a request in flight make room for those in the queue, whose requests would be lost with it.
#[test]
fn the_queue_is_served_also_without_descriptors() {
    let mut live = Web::new().descriptors(64).start();
    let mut crowd: Vec<_> = (0..70).map(|_| live.connect(Over::Http1)).collect();
    let mut queued: Vec<_> = (0..20).map(|_| live.connect(Over::Http1)).collect();
    for client in &mut queued {
        client.ask("/");
    }
    live.stop();
    for client in &mut queued {
        assert_eq!(client.answer().status(), 200);
    }
    for client in &mut crowd {
        client.is_told_to_try_again();
    }
    live.finish()
        .exits(0)
        .within_ms(1_500)
        .loses_nothing()
        .notes_that(&["short of descriptors"]);
}

/// However long those take that are in: their places are given to the next, one after the other.
#[test]
fn the_queue_waits_for_descriptors_as_long_as_the_drain_lasts() {
    let mut live = Web::new().descriptors(64).start();
    let ask = |_| {
        let mut client = live.connect(Over::Http1);
        client.ask("/slow?ms=700");
        client
    };
    let mut crowd: Vec<_> = (0..150).map(ask).collect();
    live.stop();
    for client in &mut crowd {
        assert_eq!(client.answer().status(), 200);
    }
    live.finish()
        .exits(0)
        .loses_nothing()
        .notes_that(&["short of descriptors"]);
}

#[test]
fn connections_left_in_the_accept_queue_are_named() {
    let mut live = Web::new().descriptors(64).grace("2s").start();
    let ask = |_| {
        let mut client = live.connect(Over::Http1);
        client.ask("/slow?ms=600000");
        client
    };
    let _crowd: Vec<_> = (0..100).map(ask).collect();
    live.stop();
    live.finish()
        .exits(3)
        .within_ms(2_000)
        .loses(&["in the queue of the listener", "no descriptor"]);
}

/// A filter of system calls takes the means away: the queue is emptied all the same, and the report says so.
#[test]
fn where_a_listener_cannot_be_hidden_its_queue_is_emptied() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/uncloaked.py");
    let tried = std::process::Command::new("python3")
        .args([script, "/bin/true"])
        .output();
    match tried {
        Ok(tried) if tried.status.success() => {}
        Ok(tried) => {
            let why = String::from_utf8_lossy(&tried.stderr);
            return fixture_skip::not_possible(format!("no filter of system calls: {why}"));
        }
        Err(error) => return fixture_skip::missing(format!("python3: {error}")),
    }
    let mut live = Web::new().wrapped(["python3", script]).start();
    let mut busy = live.connect(Over::Http1);
    busy.ask("/slow?ms=1000");
    // Its queue is full of requests while it stands still, and then the stop comes.
    live.hold();
    let ask = |_| {
        let mut client = live.connect(Over::Http1);
        client.ask("/");
        client
    };
    let queued: Vec<_> = (0..50).map(ask).collect();
    live.stop();
    live.go_on();
    for mut client in queued {
        assert_eq!(client.answer().status(), 200);
        let rest = String::from_utf8_lossy(&client.rest_of_it()).into_owned();
        assert!(
            rest.is_empty() || rest.starts_with("HTTP/1.1 408 "),
            "{rest}"
        );
    }
    assert_eq!(busy.answer().status(), 200);
    live.finish().exits(0).loses_nothing().notes_that(&[
        "accept queue drained, listener closed (this system cannot refuse new connections first)",
    ]);
}
