//! Jobs a second through a consumer, beside the loop that a person writes with the raw client: fetch a batch, settle
//! each job of it, and fetch the next while the last of this one are settled.
//!
//! Both work on the same real server, started here on the loopback, with as many jobs in flight and as many at a time.
//! The jobs themselves are nothing, so that what remains is the queue. What the raw loop leaves out is what a consumer
//! is for: leases that are renewed, retries, dead letters, a stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use adieu::queue::{NatsQueue, PostgresQueue, Queue, QueueError, RedisQueue};
use adieu_bench::{Duel, Finding, Stopwatch, Unit, rounds};
use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::PullConsumer;
use futures_util::{StreamExt, TryStreamExt, stream};
use redis::aio::MultiplexedConnection;
use redis::streams::{StreamId, StreamReadReply};
use sqlx::postgres::{PgPool, PgPoolOptions, PgRow};
use sqlx::{AssertSqlSafe, Row};
use tokio::runtime::{Builder, Runtime};

/// At a time.
const CONCURRENCY: usize = 64;
/// Fetched ahead of them.
const AHEAD: usize = CONCURRENCY;
/// As many connections as the queue has.
const POOL: u32 = 16;
const BAR: f64 = 0.9;
const NAME: &str = "bench";
const PAYLOAD: &[u8] = b"nothing to do";

type Trouble = Box<dyn std::error::Error + Send + Sync>;

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
    const JOBS: usize = 10_000;
    let server = fixture_servers::nats()?;
    let queue = runtime.block_on(NatsQueue::create(&server.url(), NAME))?;
    let (user, password) = (fixture_servers::USER, fixture_servers::PASSWORD);
    let options = async_nats::ConnectOptions::with_user_and_password(user.into(), password.into());
    let client = runtime.block_on(options.connect(server.url()))?;
    let context = async_nats::jetstream::new(client);
    let consumer: PullConsumer =
        runtime.block_on(context.get_consumer_from_stream("adieu", NAME))?;
    let push = async || queue.push(PAYLOAD).await;
    let ours = || filled(runtime, JOBS, &push, consume(queue.clone(), JOBS));
    let raw = || filled(runtime, JOBS, &push, raw_nats(&consumer, JOBS));
    tell("NATS", JOBS, Duel::new().with(ours).with(raw));
    Ok(())
}

async fn raw_nats(consumer: &PullConsumer, jobs: usize) -> Result<(), Trouble> {
    let fetch = async || {
        let batch = consumer.fetch().max_messages(AHEAD).messages().await?;
        batch.try_collect().await
    };
    by_hand(jobs, fetch, async |job: Message| job.double_ack().await).await
}

fn redis(runtime: &Runtime) -> Result<(), Trouble> {
    const JOBS: usize = 20_000;
    let server = fixture_servers::redis()?;
    let queue = runtime.block_on(RedisQueue::create(&server.url(), NAME))?;
    let client = redis::Client::open(server.url())?;
    let connection = runtime.block_on(client.get_multiplexed_async_connection())?;
    let push = async || queue.push(PAYLOAD).await;
    let ours = || filled(runtime, JOBS, &push, consume(queue.clone(), JOBS));
    let raw = || filled(runtime, JOBS, &push, raw_redis(&connection, JOBS));
    tell("Redis", JOBS, Duel::new().with(ours).with(raw));
    Ok(())
}

async fn raw_redis(connection: &MultiplexedConnection, jobs: usize) -> Result<(), Trouble> {
    let fetch = async || {
        let mut ask = redis::cmd("XREADGROUP");
        ask.arg(&["GROUP", "adieu", "raw", "COUNT"]).arg(AHEAD);
        ask.arg(&["STREAMS", NAME, ">"]);
        let answer: StreamReadReply = ask.query_async(&mut connection.clone()).await?;
        Ok(answer.keys.into_iter().flat_map(|key| key.ids).collect())
    };
    let settle = async |entry: StreamId| {
        let mut settle = redis::pipe();
        settle.cmd("XACK").arg(&[NAME, "adieu"]).arg(&entry.id);
        settle.cmd("XDEL").arg(NAME).arg(&entry.id);
        let mut connection = connection.clone();
        let settled = settle.query_async::<(u8, u8)>(&mut connection).await;
        Ok(settled.map(drop)?)
    };
    by_hand(jobs, fetch, settle).await
}

fn postgres(runtime: &Runtime) -> Result<(), Trouble> {
    const JOBS: usize = 5_000;
    let server = fixture_servers::postgres()?;
    let queue = runtime.block_on(PostgresQueue::create(&server.url(), NAME))?;
    let pool = PgPoolOptions::new().max_connections(POOL);
    let pool = runtime.block_on(pool.connect(&server.url()))?;
    let push = async || queue.push(PAYLOAD).await;
    let ours = || filled(runtime, JOBS, &push, consume(queue.clone(), JOBS));
    let raw = || filled(runtime, JOBS, &push, raw_postgres(&pool, JOBS));
    tell("PostgreSQL", JOBS, Duel::new().with(ours).with(raw));
    Ok(())
}

async fn raw_postgres(pool: &PgPool, jobs: usize) -> Result<(), Trouble> {
    let fetch = format!(
        "WITH mine AS MATERIALIZED (
             SELECT id FROM adieu_jobs WHERE queue = '{NAME}' AND dead_since IS NULL AND due <= now()
             ORDER BY due, id LIMIT {AHEAD} FOR UPDATE SKIP LOCKED
         )
         UPDATE adieu_jobs SET due = now() + make_interval(secs => 30), attempts = attempts + 1, holder = 1
         FROM mine WHERE adieu_jobs.id = mine.id RETURNING adieu_jobs.id, adieu_jobs.payload"
    );
    let fetch = async || {
        let fetch = sqlx::query(AssertSqlSafe(&*fetch));
        Ok(fetch.fetch_all(pool).await?)
    };
    let settle = async |row: PgRow| {
        let settle = sqlx::query("DELETE FROM adieu_jobs WHERE id = $1 AND holder = 1");
        let settled = settle.bind(row.try_get::<i64, _>(0)?).execute(pool);
        Ok(settled.await.map(drop)?)
    };
    by_hand(jobs, fetch, settle).await
}

/// The loop itself: the next batch is asked for as soon as all of this one are begun.
async fn by_hand<J>(
    jobs: usize,
    fetch: impl AsyncFn() -> Result<Vec<J>, Trouble>,
    settle: impl AsyncFn(J) -> Result<(), Trouble>,
) -> Result<(), Trouble> {
    let batches = stream::try_unfold(jobs, async |left| {
        let batch = match left {
            0 => return Ok(None),
            _ => fetch().await?,
        };
        let left = left - batch.len();
        Ok::<_, Trouble>(Some((stream::iter(batch).map(Ok), left)))
    });
    let settling = batches.try_flatten().map_ok(|job| settle(job));
    let settled = settling.try_buffer_unordered(CONCURRENCY);
    settled.try_for_each(async |()| Ok(())).await
}

/// Fills the queue, and measures what empties it.
fn filled(
    runtime: &Runtime,
    jobs: usize,
    push: &impl AsyncFn() -> Result<(), QueueError>,
    work: impl Future<Output = Result<(), Trouble>>,
) -> Duration {
    runtime.block_on(async {
        let pushing = stream::iter(0..jobs).for_each_concurrent(256, async |_| {
            push().await.expect("the server takes it");
        });
        pushing.await;
        let begun = Stopwatch::start();
        work.await.expect("the server answers");
        begun.elapsed()
    })
}

/// A service that lives until all jobs are done and settled.
async fn consume(queue: impl Queue, jobs: usize) -> Result<(), Trouble> {
    let left = Arc::new(AtomicUsize::new(jobs));
    let report = adieu::scope("bench")
        .run(async |app| {
            let handle = app.shutdown_handle();
            app.consume("jobs", queue, move |_job| {
                if left.fetch_sub(1, Ordering::Relaxed) == 1 {
                    handle.stop("done");
                }
                async {}
            })
            .concurrency(CONCURRENCY)
            .prefetch(AHEAD);
            Ok(())
        })
        .await;
    match report.exit_code() {
        0 => Ok(()),
        _ => Err(report.to_string().into()),
    }
}

fn tell(engine: &str, jobs: usize, duel: Duel<'_>) {
    let [ours, raw] = duel.fight(rounds(5));
    let rate = |nanos: f64| jobs as f64 / nanos * 1e9;
    let case = format!("{engine}, {jobs} jobs");
    Finding::value("queue", case, Unit::Rate, rate(ours))
        .over("raw client", rate(raw))
        .at_least(BAR)
        .tell();
}
