//! Several services on one Redis.
#![cfg(unix)]

use adieu::BoxError;
use adieu::state::{RedisStore, StoreHandle};

/// Two services on one server, each with a prefix of its own.
#[tokio::test]
async fn a_prefix_keeps_services_apart() -> Result<(), BoxError> {
    let server = match fixture_servers::redis() {
        Ok(server) => server,
        Err(absent) => {
            fixture_skip::missing(absent);
            return Ok(());
        }
    };

    let open = async |prefix: &str| {
        let opening = RedisStore::connect(server.url()).prefix(prefix);
        Ok::<_, BoxError>(StoreHandle::new(opening.await?))
    };
    let (shop, bank) = (open("shop:").await?, open("bank:").await?);
    shop.state("k").create(&1_u64).await?;
    bank.state("k").create(&2_u64).await?;
    for (store, number) in [(&shop, 1), (&bank, 2)] {
        let found = store.state::<u64>("k").load().await?;
        assert_eq!(found.expect("it was saved").value, number);
    }
    // Under these names, for others to find.
    let client = redis::Client::open(server.url())?;
    let mut connection = client.get_multiplexed_async_connection().await?;
    let mut names: Vec<String> = redis::cmd("KEYS")
        .arg("*")
        .query_async(&mut connection)
        .await?;
    names.sort();
    assert_eq!(names, ["bank:k", "shop:k"]);
    Ok(())
}
