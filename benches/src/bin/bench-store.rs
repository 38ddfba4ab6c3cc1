//! A save in the stores on a server, beside the raw client that makes the same call: the same statement or script with
//! the same parameters, over a connection of the same kind.
//!
//! What is above the raw client is the stamp of the save, the tries, and the deadline of the call.

use std::time::Duration;

use adieu::state::{NatsStore, PostgresStore, RedisStore, Store, StoreHandle};
use adieu_bench::{Duel, Finding, Stopwatch, Unit, rounds};
use async_nats::jetstream::kv;
use serde::{Deserialize, Serialize};
use sqlx::Row;
use sqlx::postgres::PgPoolOptions;
use tokio::runtime::{Builder, Runtime};

/// Saves in one round: few, so that what else the machine does meets both alike.
const TIMES: u32 = 100;
const BAR: f64 = 1.1;
/// As long as those of the store.
const STAMP: i64 = i64::MAX;

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

fn text(number: u64) -> String {
    serde_json::to_string(&cursor(number)).expect("plain JSON")
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
    compare(runtime, "NATS", store, async |number| {
        let document = format!(r#"{{"format":1,"stamp":{STAMP},"value":{}}}"#, text(number));
        bucket.put("raw", document.into()).await?;
        Ok(())
    });
    Ok(())
}

fn redis(runtime: &Runtime) -> Result<(), Trouble> {
    let server = fixture_servers::redis()?;
    let store = runtime.block_on(async { RedisStore::connect(server.url()).await })?;
    let client = redis::Client::open(server.url())?;
    let connection = runtime.block_on(client.get_connection_manager())?;
    let script = redis::Script::new(
        "local found = redis.call('HGET', KEYS[1], 'version')
         if ARGV[1] ~= 'any' and ARGV[1] ~= found then return {0, found or ''} end
         local version = redis.call('HINCRBY', KEYS[1], 'version', 1)
         redis.call('HSET', KEYS[1], 'format', ARGV[2], 'stamp', ARGV[3], 'value', ARGV[4])
         return {1, tostring(version)}",
    );
    compare(runtime, "Redis", store, async |number| {
        let mut call = script.key("adieu:state:raw");
        call.arg("any").arg(1).arg(STAMP).arg(text(number));
        let mut connection = connection.clone();
        call.invoke_async::<(u8, String)>(&mut connection).await?;
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
    compare(runtime, "PostgreSQL", store, async |number| {
        let save = sqlx::query(
            "INSERT INTO adieu_state AS t (key, version, format, stamp, value) VALUES ($1, 1, $2, $3, $4::json)
             ON CONFLICT (key) DO UPDATE
             SET version = t.version + 1, format = $2, stamp = $3, value = $4::json, saved = now()
             RETURNING t.version",
        );
        let save = save.bind("raw").bind(1_i64).bind(STAMP).bind(text(number));
        save.fetch_one(&pool).await?.try_get::<i64, _>(0)?;
        Ok(())
    });
    Ok(())
}

/// Saves again and again, through the store and by hand.
fn compare(
    runtime: &Runtime,
    engine: &str,
    store: impl Store,
    by_hand: impl AsyncFn(u64) -> Result<(), Trouble>,
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
        .with(|| each(runtime, &by_hand))
        .fight(rounds(50));
    Finding::value("store", format!("save in {engine}"), Unit::Us, ours / 1e3)
        .over("raw client", raw / 1e3)
        .at_most(BAR)
        .tell();
}

/// How long one of many takes.
fn each(runtime: &Runtime, save: impl AsyncFn(u64) -> Result<(), Trouble>) -> Duration {
    runtime.block_on(async {
        let begun = Stopwatch::start();
        for number in 0..TIMES {
            save(number.into()).await.expect("the server takes it");
        }
        begun.elapsed() / TIMES
    })
}
