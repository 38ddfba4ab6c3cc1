//! Databases of other kinds.

use crate::shop::{Shop, finish};

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
