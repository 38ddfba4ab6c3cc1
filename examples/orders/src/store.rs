//! The orders in the database: SQLite or PostgreSQL, as the address says.

use std::time::Duration;

use serde::Serialize;
use sqlx::any::{AnyPoolOptions, install_default_drivers};
use sqlx::{AnyConnection, AnyPool, Connection, Row};
use tokio::time::timeout;
use tracing::info;

use crate::database::{Database, Unreachable};

/// How long an order waits for its turn to be written, and for a connection before that.
const TURN: Duration = Duration::from_secs(30);
/// How long a server may take to answer at the start.
const ANSWER: Duration = Duration::from_secs(5);

/// A handle to the pool; clones share it.
#[derive(Clone)]
pub(crate) struct Store {
    pool: AnyPool,
    /// Begins a transaction that writes.
    begin: &'static str,
}

#[derive(Serialize)]
pub(crate) struct Order {
    pub(crate) id: i64,
    pub(crate) item: String,
}

impl Store {
    /// Connects and makes the table if there is none.
    pub(crate) async fn open(url: String) -> adieu::Result<Self> {
        install_default_drivers();
        let database = Database::at(url);
        probe(&database).await?;
        let pool = open_pool(&database).await?;
        if database.is_sqlite() {
            // Readers do not wait for the writer.
            sqlx::query("PRAGMA journal_mode = WAL")
                .execute(&pool)
                .await?;
        }
        let key = database.key();
        let table = format!("CREATE TABLE IF NOT EXISTS orders (id {key}, item TEXT NOT NULL)");
        sqlx::query(sqlx::AssertSqlSafe(table))
            .execute(&pool)
            .await?;
        let begin = database.begin();
        Ok(Self { pool, begin })
    }

    /// Writes an order in a transaction that takes at least so long, as one with more to do would.
    pub(crate) async fn create(&self, item: String, delay: Duration) -> sqlx::Result<Order> {
        let mut transaction = self.pool.begin_with(self.begin).await?;
        let row = sqlx::query("INSERT INTO orders (item) VALUES ($1) RETURNING id")
            .bind(&item)
            .fetch_one(&mut *transaction)
            .await?;
        let id = row.try_get("id")?;
        info!("writing order {id}");
        tokio::time::sleep(delay).await;
        transaction.commit().await?;
        info!("order {id} is safe");
        Ok(Order { id, item })
    }

    pub(crate) async fn list(&self) -> sqlx::Result<Vec<Order>> {
        let rows = sqlx::query("SELECT id, item FROM orders ORDER BY id")
            .fetch_all(&self.pool)
            .await?;
        rows.iter()
            .map(|row| {
                Ok(Order {
                    id: row.try_get("id")?,
                    item: row.try_get("item")?,
                })
            })
            .collect()
    }

    pub(crate) async fn count(&self) -> sqlx::Result<i64> {
        let row = sqlx::query("SELECT COUNT(*) AS orders FROM orders")
            .fetch_one(&self.pool)
            .await?;
        row.try_get("orders")
    }

    pub(crate) async fn ping(&self) -> sqlx::Result<()> {
        sqlx::query("SELECT 1").execute(&self.pool).await.map(drop)
    }

    /// Takes a connection and never gives it back, as a bug would, in a task that adieu does not know of.
    pub(crate) async fn hold(&self) -> sqlx::Result<()> {
        let connection = self.pool.acquire().await?;
        // adieu: ignore(ADR301) the bug that this example survives
        tokio::spawn(async move {
            let _held = connection;
            std::future::pending::<()>().await;
        });
        Ok(())
    }

    /// Waits until every connection is back.
    pub(crate) async fn close(&self) {
        self.pool.close().await;
    }
}

/// Connects once without the pool, which would try again and again and then know of nothing but its patience.
async fn probe(database: &Database) -> Result<(), Unreachable> {
    let connecting = async { AnyConnection::connect(database.url()).await?.close().await };
    match timeout(ANSWER, connecting).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(cause)) => Err(database.unreachable(cause.into())),
        Err(late) => Err(database.unreachable(late.into())),
    }
}

async fn open_pool(database: &Database) -> sqlx::Result<AnyPool> {
    let is_sqlite = database.is_sqlite();
    let mut options = AnyPoolOptions::new()
        .max_connections(8)
        .acquire_timeout(TURN)
        .after_connect(move |connection, _| {
            Box::pin(async move {
                if is_sqlite {
                    let wait = format!("PRAGMA busy_timeout = {}", TURN.as_millis());
                    sqlx::query(sqlx::AssertSqlSafe(wait))
                        .execute(connection)
                        .await?;
                }
                Ok(())
            })
        });
    if database.is_in_memory() {
        // It lives in its connection: a second would have one of its own, and a new one none of the orders.
        options = options
            .max_connections(1)
            .idle_timeout(None)
            .max_lifetime(None);
    }
    options.connect(database.url()).await
}
