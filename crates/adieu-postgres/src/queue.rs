//! Jobs in a table of PostgreSQL.
//!
//! One column says when a job can be had: `due`. A fetch moves it to the end of the lease, a retry to the time of the
//! next attempt, giving back to now. So a job whose worker is gone comes back by itself, one index serves all of it,
//! and the earliest `due` says how long an idle consumer may sleep. Whatever makes a job due earlier than that, an
//! insert included, sends a notification.
//!
//! The time is always the server's.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use adieu_core::{Delivery, Queue, QueueError, ShutdownSignal};
use sqlx::postgres::{PgListener, PgPoolOptions};
use sqlx::{Connection, PgConnection, PgPool, Row};
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::address::{PostgresAddress, about_tls};

const DEFAULT_LEASE: Duration = Duration::from_secs(30);
/// A statement that takes longer has failed.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(10);
const CHANNEL: &str = "adieu_jobs";

/// What exists is left as it is, and is not locked: to make an index waits for all who write, and holds up all who come
/// after, even if it is there already; to replace a trigger asks for more than that, while others wait for us.
const TABLE: &str = "
    SELECT pg_advisory_xact_lock(7022117451962401);
    CREATE TABLE IF NOT EXISTS adieu_jobs (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        queue text NOT NULL,
        payload bytea NOT NULL,
        attempts integer NOT NULL DEFAULT 0,
        due timestamptz NOT NULL DEFAULT now(),
        holder bigint NOT NULL DEFAULT 0,
        dead_since timestamptz,
        reason text
    );
    CREATE OR REPLACE FUNCTION adieu_jobs_added() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN PERFORM pg_notify(''adieu_jobs'', NEW.queue); RETURN NULL; END';
    DO $$ BEGIN
        IF NOT EXISTS (
            SELECT FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
            WHERE indrelid = 'adieu_jobs'::regclass AND relname = 'adieu_jobs_due'
        ) THEN
            CREATE INDEX adieu_jobs_due ON adieu_jobs (queue, due, id) WHERE dead_since IS NULL;
        END IF;
        IF NOT EXISTS (
            SELECT FROM pg_trigger WHERE tgrelid = 'adieu_jobs'::regclass AND tgname = 'adieu_jobs_added'
        ) THEN
            CREATE TRIGGER adieu_jobs_added AFTER INSERT ON adieu_jobs
                FOR EACH ROW EXECUTE FUNCTION adieu_jobs_added();
        END IF;
    END $$;
";

const FETCH: &str = "
    WITH mine AS MATERIALIZED (
        SELECT id FROM adieu_jobs WHERE queue = $1 AND dead_since IS NULL AND due <= now()
        ORDER BY due, id LIMIT $2 FOR UPDATE SKIP LOCKED
    )
    UPDATE adieu_jobs SET due = now() + make_interval(secs => $3), attempts = attempts + 1, holder = $4
    FROM mine WHERE adieu_jobs.id = mine.id
    RETURNING adieu_jobs.id, adieu_jobs.payload, adieu_jobs.attempts";

const NEXT: &str = "
    SELECT EXTRACT(EPOCH FROM min(due) - now())::float8 AS wait
    FROM adieu_jobs WHERE queue = $1 AND dead_since IS NULL";

// A holder is one fetch, not one process: a process may have a job again, and what it still says of the first time, or says
// again because the answer was lost, must not be taken for the second.
const ACK: &str = "DELETE FROM adieu_jobs WHERE id = $1 AND holder = $2";

const EXTEND: &str = "
    UPDATE adieu_jobs SET due = now() + make_interval(secs => $3)
    FROM unnest($1::bigint[], $2::bigint[]) AS mine (id, holder)
    WHERE adieu_jobs.id = mine.id AND adieu_jobs.holder = mine.holder";

const GIVE_BACK: &str = "
    WITH given AS (
        UPDATE adieu_jobs SET due = now(), attempts = attempts - 1, holder = 0
        FROM unnest($1::bigint[], $2::bigint[]) AS mine (id, holder)
        WHERE adieu_jobs.id = mine.id AND adieu_jobs.holder = mine.holder
        RETURNING queue
    )
    SELECT pg_notify('adieu_jobs', queue) FROM given GROUP BY queue";

const RETRY: &str = "
    WITH put_off AS (
        UPDATE adieu_jobs SET due = now() + make_interval(secs => $3), attempts = attempts - $4, holder = 0
        WHERE id = $1 AND holder = $2
        RETURNING queue
    )
    SELECT pg_notify('adieu_jobs', queue) FROM put_off";

const BURY: &str = "
    UPDATE adieu_jobs SET dead_since = now(), reason = $3, holder = 0
    WHERE id = $1 AND holder = $2";

/// A queue in a table of PostgreSQL, fetched with `FOR UPDATE SKIP LOCKED`, waited for with `LISTEN`.
///
/// All queues of a database are in the table `adieu_jobs`, made by [`PostgresQueue::create`]. To add a job in the
/// transaction of what it belongs to, write it there:
///
/// ```sql
/// INSERT INTO adieu_jobs (queue, payload) VALUES ('orders', '{"order": 17}');
/// ```
///
/// A dead letter stays in the table, with `dead_since` and `reason` set; to have it tried again, set `dead_since` to
/// null, `attempts` to 0 and `due` to `now()`.
pub struct PostgresQueue {
    name: String,
    server: String,
    pool: PgPool,
    lease: Duration,
    /// One for each consumer: see `Clone`.
    listener: Mutex<Option<PgListener>>,
}

/// Names a delivery of a [`PostgresQueue`].
#[derive(Clone, Copy, Debug)]
pub struct PostgresReceipt {
    id: i64,
    holder: i64,
}

impl PostgresQueue {
    /// Connects, and makes the table if there is none. For development, tests and migrations; a service that may not
    /// make tables opens what is there.
    ///
    /// # Errors
    /// As [`PostgresQueue::open`]; and the user may not make tables.
    pub async fn create(url: &str, name: impl Into<String>) -> Result<Self, QueueError> {
        let queue = Self::connect(url, name.into()).await?;
        let mut transaction = queue.done(queue.pool.begin()).await?;
        queue
            .done(sqlx::raw_sql(TABLE).execute(&mut *transaction))
            .await?;
        queue.done(transaction.commit()).await?;
        Ok(queue)
    }

    /// Connects to a queue whose table exists.
    ///
    /// Dropped half-way, nothing has happened.
    ///
    /// # Errors
    /// The server cannot be reached or refuses, or there is no table.
    pub async fn open(url: &str, name: impl Into<String>) -> Result<Self, QueueError> {
        let queue = Self::connect(url, name.into()).await?;
        let look = sqlx::query("SELECT to_regclass('adieu_jobs') IS NOT NULL AS found");
        let found = queue.done(look.fetch_one(&queue.pool)).await?;
        if !found.get::<bool, _>("found") {
            let server = &queue.server;
            return Err(QueueError::refused(format!(
                "{server} has no table `adieu_jobs`: run `PostgresQueue::create` once, as a user who may make tables"
            )));
        }
        Ok(queue)
    }

    async fn connect(url: &str, name: String) -> Result<Self, QueueError> {
        let PostgresAddress {
            options,
            what: server,
        } = PostgresAddress::read(url).await?;
        // First without the pool, which would try again and again and then only say that it timed out.
        let first = timeout(STATEMENT_TIMEOUT, PgConnection::connect_with(&options)).await;
        let first = first.unwrap_or_else(|late| Err(sqlx::Error::Io(late.into())));
        match first {
            Ok(connection) => drop(connection.close().await),
            Err(error) => {
                let what = about_tls(&server, &error)
                    .unwrap_or_else(|| format!("cannot open a queue on {server}"));
                return Err(QueueError::failed(what, error));
            }
        }
        let pool = PgPoolOptions::new()
            .max_connections(16)
            .acquire_timeout(STATEMENT_TIMEOUT)
            .connect_lazy_with(options);
        Ok(Self::build(name, server, pool))
    }

    /// On a pool of the program's own, which it closes itself. Each consumer keeps one connection of it to listen.
    #[must_use]
    pub fn on(pool: PgPool, name: impl Into<String>) -> Self {
        Self::build(name.into(), "PostgreSQL".to_owned(), pool)
    }

    fn build(name: String, server: String, pool: PgPool) -> Self {
        Self {
            name,
            server,
            pool,
            lease: DEFAULT_LEASE,
            listener: Mutex::new(None),
        }
    }

    /// How long a job belongs to a worker that has stopped renewing it; 30 s if left out.
    #[must_use]
    pub const fn lease_of(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Adds a job. It is durable when this returns. Dropped half-way, the job was added or not.
    ///
    /// # Errors
    /// The server is away.
    pub async fn push(&self, payload: &[u8]) -> Result<(), QueueError> {
        let insert = sqlx::query("INSERT INTO adieu_jobs (queue, payload) VALUES ($1, $2)")
            .bind(&self.name)
            .bind(payload)
            .execute(&self.pool);
        self.done(insert).await.map(drop)
    }

    /// Closes the connections, after the consumers of this queue have ended: give it to the `stop` of a resource.
    pub async fn close(&self) {
        self.listener.lock().await.take();
        self.pool.close().await;
    }

    /// Waits for a statement, with an end.
    async fn done<T>(
        &self,
        statement: impl Future<Output = Result<T, sqlx::Error>>,
    ) -> Result<T, QueueError> {
        let ended = timeout(STATEMENT_TIMEOUT, statement).await;
        let ended = ended.unwrap_or_else(|late| Err(sqlx::Error::Io(late.into())));
        ended.map_err(|error| {
            QueueError::failed(format!("queue `{}` on {}", self.name, self.server), error)
        })
    }

    async fn take(&self, most: usize) -> Result<Vec<Delivery<PostgresReceipt>>, QueueError> {
        let holder = holder();
        let fetch = sqlx::query(FETCH)
            .bind(&self.name)
            .bind(i64::try_from(most).unwrap_or(i64::MAX))
            .bind(self.lease.as_secs_f64())
            .bind(holder)
            .fetch_all(&self.pool);
        let mut rows = self.done(fetch).await?;
        // An update returns its rows in any order.
        rows.sort_by_key(|row| row.get::<i64, _>(0));
        let delivery = |row: sqlx::postgres::PgRow| {
            let id: i64 = row.get(0);
            let attempt = u32::try_from(row.get::<i32, _>(2)).unwrap_or(1);
            let receipt = PostgresReceipt { id, holder };
            Delivery::new(receipt, id.to_string(), row.get(1), attempt)
        };
        Ok(rows.into_iter().map(delivery).collect())
    }

    /// How long until a job becomes due by itself; `None` if there is none.
    async fn next(&self) -> Result<Option<Duration>, QueueError> {
        let next = sqlx::query(NEXT).bind(&self.name).fetch_one(&self.pool);
        let wait: Option<f64> = self.done(next).await?.get("wait");
        Ok(wait
            .map(|wait| Duration::try_from_secs_f64(wait.max(0.001)).unwrap_or(STATEMENT_TIMEOUT)))
    }

    /// A settling statement: it has to find the job.
    async fn settled(
        &self,
        statement: impl Future<Output = Result<bool, sqlx::Error>>,
    ) -> Result<(), QueueError> {
        match self.done(statement).await? {
            true => Ok(()),
            false => Err(QueueError::lost()),
        }
    }
}

/// Waits for a notification of this queue, or until the connection is made anew: there may have been one meanwhile.
async fn notified(listener: &mut PgListener, queue: &str) -> Result<(), sqlx::Error> {
    while let Some(notification) = listener.try_recv().await? {
        if notification.payload() == queue {
            return Ok(());
        }
    }
    Ok(())
}

fn columns(jobs: &[PostgresReceipt]) -> (Vec<i64>, Vec<i64>) {
    jobs.iter().map(|job| (job.id, job.holder)).unzip()
}

/// Names a fetch, unlike any other of any process. Zero means that no fetch holds it.
fn holder() -> i64 {
    use std::hash::{BuildHasher, RandomState};
    // The hasher's keys are random and differ each time.
    RandomState::new().hash_one(0).cast_signed() | 1
}

impl Queue for PostgresQueue {
    type Receipt = PostgresReceipt;

    fn lease(&self) -> Duration {
        self.lease
    }

    async fn fetch(
        &self,
        most: usize,
        stop: &dyn ShutdownSignal,
    ) -> Result<Vec<Delivery<PostgresReceipt>>, QueueError> {
        let mut listener = self.listener.lock().await;
        loop {
            let jobs = self.take(most).await?;
            if !jobs.is_empty() || stop.is_requested() {
                return Ok(jobs);
            }
            // Kept only as long as it works: after an error, the next fetch makes a new one.
            let mut listening = match listener.take() {
                Some(listening) => listening,
                None => {
                    let mut new = self.done(PgListener::connect_with(&self.pool)).await?;
                    self.done(new.listen(CHANNEL)).await?;
                    *listener = Some(new);
                    // What came before it listened was not heard: look again.
                    continue;
                }
            };
            let next = self.next().await?;
            let news = notified(&mut listening, &self.name);
            let heard = match next {
                Some(next) => stop
                    .until(timeout(next, news))
                    .await
                    .map(|heard| heard.unwrap_or(Ok(()))),
                None => stop.until(news).await,
            };
            let Some(heard) = heard else {
                return Ok(Vec::new());
            };
            self.done(async { heard }).await?;
            // Several notifications are one look.
            while listening.next_buffered().is_some() {}
            *listener = Some(listening);
        }
    }

    async fn ack(&self, job: &PostgresReceipt) -> Result<(), QueueError> {
        let ack = sqlx::query(ACK)
            .bind(job.id)
            .bind(job.holder)
            .execute(&self.pool);
        self.settled(async { Ok(ack.await?.rows_affected() == 1) })
            .await
    }

    async fn extend(&self, jobs: &[PostgresReceipt]) -> Result<(), QueueError> {
        let (ids, holders) = columns(jobs);
        let extend = sqlx::query(EXTEND)
            .bind(ids)
            .bind(holders)
            .bind(self.lease.as_secs_f64())
            .execute(&self.pool);
        self.done(extend).await.map(drop)
    }

    async fn give_back(&self, jobs: &[PostgresReceipt]) -> Result<(), QueueError> {
        let (ids, holders) = columns(jobs);
        let give = sqlx::query(GIVE_BACK)
            .bind(ids)
            .bind(holders)
            .execute(&self.pool);
        self.done(give).await.map(drop)
    }

    async fn retry(
        &self,
        job: &PostgresReceipt,
        after: Duration,
        counted: bool,
    ) -> Result<(), QueueError> {
        let retry = sqlx::query(RETRY)
            .bind(job.id)
            .bind(job.holder)
            .bind(after.as_secs_f64())
            .bind(i32::from(!counted))
            .fetch_optional(&self.pool);
        self.settled(async { Ok(retry.await?.is_some()) }).await
    }

    async fn bury(&self, job: &PostgresReceipt, reason: &str) -> Result<(), QueueError> {
        let bury = sqlx::query(BURY)
            .bind(job.id)
            .bind(job.holder)
            .bind(reason)
            .execute(&self.pool);
        self.settled(async { Ok(bury.await?.rows_affected() == 1) })
            .await
    }
}

impl Clone for PostgresQueue {
    /// The clone shares the connections, but listens for itself: it can be another consumer's.
    fn clone(&self) -> Self {
        Self {
            name: self.name.clone(),
            server: self.server.clone(),
            pool: self.pool.clone(),
            lease: self.lease,
            listener: Mutex::new(None),
        }
    }
}

impl fmt::Debug for PostgresQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresQueue")
            .field("name", &self.name)
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}
