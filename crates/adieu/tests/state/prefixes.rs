//! Several services on one Redis.

use adieu::BoxError;
use adieu::state::{RedisStore, StoreHandle};

use crate::conformance::{Cursor, cursor};
use crate::servers::on;

/// Two services on one server, each with a prefix of its own.
#[test]
fn a_prefix_keeps_services_apart() -> Result<(), BoxError> {
    on(fixture_servers::redis(), async |server| {
        let open = async |prefix: &str| {
            let opening = RedisStore::connect(server.url()).prefix(prefix);
            Ok::<_, BoxError>(StoreHandle::new(opening.await?))
        };
        let (shop, bank) = (open("shop:").await?, open("bank:").await?);
        shop.state("k").create(&cursor(1)).await?;
        bank.state("k").create(&cursor(2)).await?;
        for (store, number) in [(&shop, 1), (&bank, 2)] {
            let found = store.state::<Cursor>("k").load().await?;
            assert_eq!(found.expect("it was saved").value, cursor(number));
        }
        // Under these names, for others to find.
        let client = ::redis::Client::open(server.url())?;
        let mut connection = client.get_multiplexed_async_connection().await?;
        let mut names: Vec<String> = ::redis::cmd("KEYS")
            .arg("*")
            .query_async(&mut connection)
            .await?;
        names.sort();
        assert_eq!(names, ["bank:k", "shop:k"]);
        Ok(())
    })
}
