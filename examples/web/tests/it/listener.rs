//! The listener goes away: nobody is accepted and then left alone.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use tempfile::TempDir;

use crate::client::Over;
use crate::live::PATIENCE;
use crate::web::Web;

/// A slow request keeps the service draining. Whoever connects meanwhile is served or refused.
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
        socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        let mut text = String::new();
        socket.read_to_string(&mut text).expect("an orderly end");
        assert!(text.starts_with("HTTP/1.1 408 "), "{text:?}");
    }
    assert_eq!(busy.answer().status(), 200);
    live.finish()
        .exits(0)
        .within_ms(1_500)
        .loses_nothing()
        .closes_nobody_else()
        .notes_that(&["listener cloaked, queue emptied, closed"]);
}

#[test]
fn without_descriptors_it_neither_spins_nor_stops() {
    let mut live = Web::new().descriptors(64).start();
    let mut first = live.connect(Over::Http1);
    assert_eq!(first.get("/").status(), 200);
    // The kernel takes them all; the service has no room for the last ones.
    let mut crowd: Vec<_> = (0..100).map(|_| live.connect(Over::Http1)).collect();
    let mut last = live.connect(Over::Http1);
    last.ask("/");
    last.socket
        .set_read_timeout(Some(Duration::from_secs(1)))
        .expect("a time-out");
    let before = live.cpu();
    let waited = last.socket.peek(&mut [0]);
    assert!(waited.is_err(), "served without a descriptor");
    let spent = live.cpu() - before;
    assert!(spent < Duration::from_millis(300), "spun for {spent:?}");
    // Those who are in are served meanwhile, and a place that is free is given to the next.
    assert_eq!(first.get("/").status(), 200);
    crowd.clear();
    last.socket
        .set_read_timeout(Some(PATIENCE))
        .expect("a time-out");
    assert_eq!(last.answer().status(), 200);
    live.stop();
    live.finish()
        .exits(0)
        .within_ms(700)
        .loses_nothing()
        .notes_that(&["short of descriptors "]);
}

/// Else whoever looks after it would take it for dead.
#[test]
fn without_descriptors_it_says_how_it_is() {
    let directory = TempDir::new().expect("a directory for the socket");
    let admin = directory.path().join("admin.sock");
    let web = Web::new().descriptors(64);
    let mut live = web.admin(&format!("unix:{}", admin.display())).start();
    let crowd: Vec<_> = (0..100).map(|_| live.connect(Over::Http1)).collect();
    let mut last = live.connect(Over::Http1);
    last.ask("/");
    for probe in ["/livez", "/readyz", "/livez"] {
        let mut stream = UnixStream::connect(&admin).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        write!(stream, "GET {probe} HTTP/1.1\r\nhost: x\r\n\r\n").expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    let waits = last.socket.set_nonblocking(true);
    waits.expect("a socket");
    let heard = last.socket.peek(&mut [0]).map_err(|error| error.kind());
    assert_eq!(heard, Err(ErrorKind::WouldBlock), "there was room");
    drop(crowd);
    live.stop();
    live.finish().exits(0);
}

/// Each that ends makes room for one in the queue, and then there is none left again: that is no news.
#[test]
fn one_shortage_is_told_of_once() {
    let mut live = Web::new().descriptors(64).start();
    let mut crowd: Vec<_> = (0..150).map(|_| live.connect(Over::Http1)).collect();
    for client in &mut crowd {
        client.ask("/");
    }
    for mut client in crowd {
        assert_eq!(client.answer().status(), 200);
    }
    live.stop();
    live.finish()
        .exits(0)
        .loses_nothing()
        .notes_that(&["short of descriptors 1 time:"]);
}

/// Whoever has nothing under way makes room for those in the queue, whose requests would be lost with it.
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
        let answer = client.answer();
        assert_eq!((answer.status(), answer.closes()), (200, true));
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
    let mut crowd: Vec<_> = (0..150).map(|_| live.connect(Over::Http1)).collect();
    for client in &mut crowd {
        client.ask("/slow?ms=700");
    }
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
fn whoever_is_left_in_the_queue_is_named() {
    let mut live = Web::new().descriptors(64).grace("2s").start();
    let mut crowd: Vec<_> = (0..100).map(|_| live.connect(Over::Http1)).collect();
    for client in &mut crowd {
        client.ask("/slow?ms=600000");
    }
    live.stop();
    live.finish()
        .exits(3)
        .within_ms(2_000)
        .loses(&["in the queue of the listener", "no descriptor"]);
}
