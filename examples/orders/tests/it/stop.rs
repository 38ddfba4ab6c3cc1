//! On SQLite, in a directory of the test's own.

use std::io::{Read, Write};
use std::net::TcpListener;

use tempfile::TempDir;

use crate::database;
use crate::shop::{Shop, finish};

fn sqlite() -> (TempDir, String) {
    let directory = TempDir::new().expect("a directory for the database");
    let url = format!("sqlite://{}", directory.path().join("orders.db").display());
    (directory, url)
}

#[test]
fn a_transaction_in_flight_commits_before_the_pool_closes() {
    let (_directory, url) = sqlite();
    database::a_transaction_in_flight_commits_before_the_pool_closes(&url);
}

#[test]
fn a_connection_held_for_ever_does_not_hold_the_exit() {
    let (_directory, url) = sqlite();
    database::a_connection_held_for_ever_does_not_hold_the_exit(&url);
}

/// The shared client is open as long as requests need it: an order taken just before the stop is still told.
#[test]
fn the_client_outlives_the_requests() {
    let (_directory, url) = sqlite();
    let warehouse = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let notify = format!("http://{}/", warehouse.local_addr().expect("an address"));
    let shop = Shop::open(&url, &["--grace", "20s", "--notify", &notify]);
    let slow = shop.begin_post("/orders?ms=800", r#"{"item":"tea"}"#);
    shop.wait_for("writing order 1");
    let asked = shop.terminate();
    shop.wait_for("phase drain");
    let (mut told, _) = warehouse.accept().expect("a message comes");
    let mut text = Vec::new();
    while !text.ends_with(b"}") {
        let mut some = [0; 512];
        let count = told.read(&mut some).expect("it writes");
        assert_ne!(count, 0, "{}", String::from_utf8_lossy(&text));
        text.extend_from_slice(&some[..count]);
    }
    let text = String::from_utf8_lossy(&text);
    assert!(text.contains(r#""item":"tea""#), "{text}");
    told.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        .expect("it reads");
    assert_eq!(finish(slow).status, 201);
    let closed = shop.closed(asked);
    assert_eq!(closed.status.code(), Some(0), "{closed:#?}");
}

/// Connections that handlers never give back use up the pool: the check says so, liveness does not.
#[test]
fn an_exhausted_pool_is_not_ready_and_still_live() {
    let (_directory, url) = sqlite();
    let shop = Shop::open(&url, &["--grace", "4s"]);
    for _ in 0..8 {
        assert_eq!(shop.post("/hold", "").status, 200);
    }
    let begun = std::time::Instant::now();
    // A good answer from before may still count for a second.
    while shop.ask("/readyz").status == 200 {
        assert!(begun.elapsed().as_secs() < 20, "it stays ready");
    }
    let health = shop.ask("/health").body;
    assert!(health.contains("no answer within 1.00 s"), "{health}");
    assert_eq!(shop.ask("/livez").status, 200);
    let asked = shop.terminate();
    assert_eq!(shop.closed(asked).status.code(), Some(3));
}

/// SQLite has one writer at a time: the others wait for their turn, however long the queue, and none is turned away.
#[test]
fn orders_that_come_together_are_all_taken() {
    let (_directory, url) = sqlite();
    let shop = Shop::open(&url, &["--grace", "20s"]);
    let orders: Vec<_> = (0..8)
        .map(|_| shop.begin_post("/orders?ms=800", r#"{"item":"tea"}"#))
        .collect();
    for order in orders {
        let answer = finish(order);
        assert_eq!(answer.status, 201, "{}", answer.body);
    }
    assert_eq!(shop.items(), ["tea"; 8]);
    let asked = shop.terminate();
    assert_eq!(shop.closed(asked).status.code(), Some(0));
}
