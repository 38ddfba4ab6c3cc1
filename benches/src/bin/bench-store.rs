//! A save in the stores on a server, beside the raw client that makes the same call.
//!
//! What is above the raw client is the document made of the value, the version, and the deadline of the call.

use std::time::{Duration, Instant};

use adieu::{NatsStore, PostgresStore, RedisStore, Store, StoreHandle};
use adieu_bench::{Duel, Finding, Unit, rounds};
use async_nats::jetstream::kv;
use serde::{Deserialize, Serialize};
use sqlx::postgres::PgPoolOptions;
use tokio::runtime::{Builder, Runtime};

/// Saves in one round.
const TIMES: u32 = 500;
const BAR: f64 = 1.1;

type Trouble = Box<dyn std::error::Error + Send + Sync>;

#[derive(Serialize, Deserialize)]
struct Cursor {
    processed_count: u64,
    last_id: u64,
}

fn cursor(last_id: u64) -> Cursor {
    Cursor {
        processed_count: last_id,
        last_id,
    }
}

fn text() -> String {
    serde_json::to_string(&cursor(7)).expect("plain JSON")
}

fn main() -> Result<(), Trouble> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    // The client of NATS starts tasks where it is made.
    let _inside = runtime.enter();
    nats(&runtime)?;
    redis(&runtime)?;
    postgres(&runtime)
}

fn nats(runtime: &Runtime) -> Result<(), Trouble> {
    let server = fixture_servers::nats()?;
    let connect = NatsStore::connect(server.url()).create_bucket(1);
    let store = runtime.block_on(async { connect.await })?;
    let (user, password) = (fixture_servers::USER, fixture_servers::PASSWORD);
    let options = async_nats::ConnectOptions::with_user_and_password(user.into(), password.into());
    let client = runtime.block_on(options.connect(server.url()))?;
    let context = async_nats::jetstream::new(client);
    let bucket: kv::Store = runtime.block_on(context.get_key_value("adieu_state"))?;
    compare(runtime, "NATS", store, async || {
        bucket.put("raw", text().into()).await?;
        Ok(())
    });
    Ok(())
}

fn redis(runtime: &Runtime) -> Result<(), Trouble> {
    let server = fixture_servers::redis()?;
    let store = runtime.block_on(async { RedisStore::connect(server.url()).await })?;
    let client = redis::Client::open(server.url())?;
    let connection = runtime.block_on(client.get_multiplexed_async_connection())?;
    let script = redis::Script::new(
        "local version = redis.call('HINCRBY', KEYS[1], 'version', 1)
         redis.call('HSET', KEYS[1], 'format', 1, 'stamp', ARGV[1], 'value', ARGV[2])
         return version",
    );
    compare(runtime, "Redis", store, async || {
        let mut call = script.key("raw");
        call.arg(7).arg(text());
        call.invoke_async::<u64>(&mut connection.clone()).await?;
        Ok(())
    });
    Ok(())
}

fn postgres(runtime: &Runtime) -> Result<(), Trouble> {
    let server = fixture_servers::postgres()?;
    let connect = PostgresStore::connect(server.url()).create_table();
    let store = runtime.block_on(async { connect.await })?;
    let pool = PgPoolOptions::new().max_connections(4);
    let pool = runtime.block_on(pool.connect(&server.url()))?;
    compare(runtime, "PostgreSQL", store, async || {
        let save = sqlx::query(
            "INSERT INTO adieu_state AS t (key, version, format, stamp, value) VALUES ('raw', 1, 1, 7, $1::json)
             ON CONFLICT (key) DO UPDATE SET version = t.version + 1, stamp = 7, value = $1::json, saved = now()
             RETURNING version",
        );
        save.bind(text()).fetch_one(&pool).await?;
        Ok(())
    });
    Ok(())
}

/// Saves again and again, through the store and by hand.
fn compare(
    runtime: &Runtime,
    engine: &str,
    store: impl Store,
    by_hand: impl AsyncFn() -> Result<(), Trouble>,
) {
    let store = StoreHandle::new(store);
    let state = store.state::<Cursor>("ours");
    let [ours, raw] = Duel::new()
        .with(|| {
            each(runtime, async |number| {
                state.save(&cursor(number)).await?;
                Ok(())
            })
        })
        .with(|| each(runtime, async |_| by_hand().await))
        .fight(rounds(10));
    Finding::value("store", format!("save in {engine}"), Unit::Us, ours / 1e3)
        .over("raw client", raw / 1e3)
        .at_most(BAR)
        .tell();
}

/// How long one of many takes.
fn each(runtime: &Runtime, save: impl AsyncFn(u64) -> Result<(), Trouble>) -> Duration {
    runtime.block_on(async {
        let begun = Instant::now();
        for number in 0..TIMES {
            save(number.into()).await.expect("the server takes it");
        }
        begun.elapsed() / TIMES
    })
}
