//! What must hold on whichever database.

use std::time::Duration;

use crate::shop::{Shop, finish};

/// A transaction that is open when the signal comes commits, its client has its answer, and only then do client
/// and pool close, in this order.
pub(crate) fn a_transaction_in_flight_commits_before_the_pool_closes(database: &str) {
    let shop = Shop::open(database, &["--grace", "20s"]);
    assert_eq!(shop.post("/orders", r#"{"item":"tea"}"#).status, 201);
    let slow = shop.begin_post("/orders?ms=1500", r#"{"item":"cake"}"#);
    shop.wait_for("writing order 1");
    shop.wait_for("writing order 2");
    let asked = shop.terminate();
    shop.wait_for("phase drain");
    let answer = finish(slow);
    assert_eq!(answer.status, 201, "{}", answer.body);
    shop.wait_for("drained: 2 orders in all");
    let closed = shop.closed(asked);
    assert_eq!(closed.status.code(), Some(0), "{closed:#?}");
    assert_eq!(
        closed.order(),
        ["farewell", "api", "tally", "client", "pool", "lights"]
    );
    let shop = Shop::open(database, &[]);
    assert_eq!(shop.items(), ["tea", "cake"]);
    let asked = shop.terminate();
    assert_eq!(shop.closed(asked).status.code(), Some(0));
}

/// The pool's close waits for a connection that never comes back; the exit does not.
pub(crate) fn a_connection_held_for_ever_does_not_hold_the_exit(database: &str) {
    let shop = Shop::open(database, &["--grace", "4s"]);
    assert_eq!(shop.post("/hold", "").status, 200);
    let asked = shop.terminate();
    shop.wait_for("closing resource pool");
    // A slow close can be watched.
    assert_eq!(shop.ask("/livez").status, 200);
    let health = shop.ask("/health");
    assert_eq!(health.status, 503);
    assert!(
        health.body.contains("\"state\": \"closing\""),
        "{}",
        health.body
    );
    let closed = shop.closed(asked);
    assert_eq!(closed.status.code(), Some(3), "{closed:#?}");
    assert_eq!(closed.outcome("pool"), "abandoned");
    assert_eq!(closed.outcome("api"), "finished");
    assert_eq!(closed.outcome("lights"), "finished");
    // The hard promise: half a second after the grace period.
    closed.within(Duration::from_millis(4_500));
}
