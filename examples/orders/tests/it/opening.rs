//! Databases of other kinds, and those that are not there.

use crate::shop::{Shop, command, finish};

/// A database in memory is gone with its last connection, so there is one, and it stays.
#[test]
fn a_database_in_memory_has_what_was_written() {
    let shop = Shop::open("sqlite::memory:", &["--grace", "20s"]);
    let orders: Vec<_> = (0..4)
        .map(|_| shop.begin_post("/orders?ms=50", r#"{"item":"tea"}"#))
        .collect();
    // Read while others write.
    let between = shop.begin_get("/orders");
    for order in orders {
        let answer = finish(order);
        assert_eq!(answer.status, 201, "{}", answer.body);
    }
    let between = finish(between);
    assert_eq!(between.status, 200, "{}", between.body);
    assert_eq!(shop.items(), ["tea"; 4]);
    let asked = shop.terminate();
    assert_eq!(shop.closed(asked).status.code(), Some(0));
}

/// A server that refuses is not asked again: a pool would, until its time is up, and then know no other cause.
#[test]
fn a_server_that_is_not_there_is_named_with_the_cause() {
    // No process listens on the first port.
    let end = command("postgres://shop:secret@127.0.0.1:1/orders")
        .output()
        .expect("example-orders runs");
    let said = String::from_utf8_lossy(&end.stderr);
    assert_eq!(end.status.code(), Some(1), "{said}");
    assert!(said.contains("Connection refused"), "{said}");
    assert!(said.contains("postgres://127.0.0.1:1/orders"), "{said}");
    assert!(said.contains("--database"), "{said}");
    assert!(!said.contains("secret"), "{said}");
}
