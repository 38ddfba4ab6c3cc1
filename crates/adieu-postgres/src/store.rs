//! State in a table of PostgreSQL.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use adieu_core::{Entry, Expected, Record, Store, StoreError, StoreFuture, Version};
use sqlx::postgres::{PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, Row};
use tokio::time::timeout;

use crate::address::{PostgresAddress, about_tls};

/// How long the server may take to accept us.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a connection is waited for, before we say that the server is not available and try again.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(2);

/// State in a table of PostgreSQL: for services of several replicas.
///
/// ```no_run
/// use adieu::state::PostgresStore;
/// use adieu::App;
///
/// async fn setup(app: &mut App) -> adieu::Result {
///     let url = std::env::var("DATABASE_URL")?;
///     let store = app.store(PostgresStore::connect(&url)).await?;
///     app.worker("importer", store, |mut worker| async move {
///         let done: u64 = worker.resume().await?.unwrap_or(0);
///         // …
/// #       let _ = done;
///         Ok::<_, adieu::state::StoreError>(())
///     });
///     Ok(())
/// }
/// ```
///
/// Make the table with your migrations, or let [`PostgresConnect::create_table`] do it:
///
/// ```sql
/// CREATE TABLE adieu_state (
///     key text PRIMARY KEY, version bigint NOT NULL, format bigint NOT NULL, stamp bigint NOT NULL,
///     value json NOT NULL, saved timestamptz NOT NULL DEFAULT now()
/// )
/// ```
#[derive(Clone)]
pub struct PostgresStore {
    pool: PgPool,
    table: String,
    /// Which server this is, without its secrets.
    what: String,
}

/// A connection about to be made: await it, or give it to `App::store`.
#[must_use = "it connects when it is awaited"]
#[derive(Clone)]
pub struct PostgresConnect {
    url: String,
    table: String,
    create: bool,
}

impl PostgresStore {
    /// Connects to the server at `url`, as in `postgres://user:password@host/database`. With the feature `tls`,
    /// `?sslmode=verify-full` encrypts the way there, and `&sslrootcert=FILE` names who signs the server's certificate.
    ///
    /// Fails at once, and says why, if the server does not answer, refuses us, or has no such table.
    pub fn connect(url: impl Into<String>) -> PostgresConnect {
        PostgresConnect {
            url: url.into(),
            table: "adieu_state".to_owned(),
            create: false,
        }
    }
}

impl PostgresConnect {
    /// Uses this table, `adieu_state` without it; `schema.table` is possible too.
    pub fn table(mut self, table: impl Into<String>) -> Self {
        self.table = table.into();
        self
    }

    /// Makes the table if there is none.
    pub const fn create_table(mut self) -> Self {
        self.create = true;
        self
    }

    async fn open(self) -> Result<PostgresStore, StoreError> {
        let PostgresAddress { options, what } = PostgresAddress::read(&self.url).await?;
        let table = quoted(&self.table)?;
        // One connection by itself first: a pool would try again for a while before it says why.
        let connecting = PgConnection::connect_with(&options);
        let mut connection = timeout(CONNECT_TIMEOUT, connecting)
            .await
            .map_err(|_| StoreError::unavailable(&*what, "it does not answer"))?
            .map_err(|error| explain(&what, error))?;
        if self.create {
            let make = format!(
                "CREATE TABLE IF NOT EXISTS {table} (key text PRIMARY KEY, version bigint NOT NULL, format bigint NOT \
                 NULL, stamp bigint NOT NULL, value json NOT NULL, saved timestamptz NOT NULL DEFAULT now())"
            );
            let made = connection.execute(AssertSqlSafe(make)).await;
            made.map_err(|error| explain(&what, error))?;
        }
        let look = format!("SELECT key, version, format, stamp, value, saved FROM {table} LIMIT 0");
        connection
            .execute(AssertSqlSafe(look))
            .await
            .map_err(|error| no_table(&what, &self.table, error))?;
        // Goodbye; whether it is heard makes no difference.
        let _ = connection.close().await;
        let pool = PgPoolOptions::new()
            .max_connections(4)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .connect_lazy_with(options);
        Ok(PostgresStore { pool, table, what })
    }
}

impl IntoFuture for PostgresConnect {
    type Output = Result<PostgresStore, StoreError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    /// Dropped half-way, it has made a table or not, and holds nothing.
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.open())
    }
}

impl PostgresStore {
    async fn version(&self, key: &str) -> Result<Option<Version>, StoreError> {
        let query = format!("SELECT version FROM {} WHERE key = $1", self.table);
        let found = sqlx::query(AssertSqlSafe(query))
            .bind(key)
            .fetch_optional(&self.pool)
            .await;
        let found = found.map_err(|error| explain(&self.what, error))?;
        found
            .map(|row| row.try_get::<i64, _>(0).map(version))
            .transpose()
            .map_err(|error| explain(&self.what, error))
    }
}

const fn version(number: i64) -> Version {
    Version(number.cast_unsigned())
}

impl Store for PostgresStore {
    fn load<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Record>> {
        Box::pin(async move {
            let table = &self.table;
            let query =
                format!("SELECT version, format, stamp, value::text FROM {table} WHERE key = $1");
            let read = async {
                let found = sqlx::query(AssertSqlSafe(query))
                    .bind(key)
                    .fetch_optional(&self.pool)
                    .await?;
                let Some(row) = found else { return Ok(None) };
                let format = u32::try_from(row.try_get::<i64, _>(1)?).unwrap_or(u32::MAX);
                let stamp = row.try_get::<i64, _>(2)?.cast_unsigned();
                let value: String = row.try_get(3)?;
                let entry = Entry::new(format, stamp, value);
                Ok(Some(Record::new(version(row.try_get(0)?), entry)))
            };
            read.await.map_err(|error| explain(&self.what, error))
        })
    }

    fn save<'a>(
        &'a self,
        key: &'a str,
        expected: Expected,
        entry: &'a Entry,
    ) -> StoreFuture<'a, Version> {
        Box::pin(async move {
            let table = &self.table;
            // One statement each: the server does it as a whole or not at all.
            let set =
                "version = t.version + 1, format = $2, stamp = $3, value = $4::json, saved = now()";
            let insert = format!(
                "INSERT INTO {table} AS t (key, version, format, stamp, value) VALUES ($1, 1, $2, $3, $4::json) ON \
                 CONFLICT (key)"
            );
            let query = match expected {
                Expected::Any => format!("{insert} DO UPDATE SET {set} RETURNING t.version"),
                Expected::Absent => format!("{insert} DO NOTHING RETURNING t.version"),
                Expected::Version(_) => format!(
                    "UPDATE {table} AS t SET {set} WHERE t.key = $1 AND t.version = $5 RETURNING t.version"
                ),
            };
            let mut query = sqlx::query(AssertSqlSafe(query))
                .bind(key)
                .bind(i64::from(entry.format))
                .bind(entry.stamp.cast_signed())
                .bind(&entry.value);
            if let Expected::Version(version) = expected {
                query = query.bind(version.0.cast_signed());
            }
            let saved = query.fetch_optional(&self.pool).await;
            match saved.map_err(|error| explain(&self.what, error))? {
                Some(row) => {
                    let number = row.try_get(0).map_err(|error| explain(&self.what, error))?;
                    Ok(version(number))
                }
                None => {
                    let found = self.version(key).await?;
                    Err(StoreError::conflict(key, expected, found))
                }
            }
        })
    }

    fn close(&self) -> StoreFuture<'_, ()> {
        Box::pin(async {
            self.pool.close().await;
            Ok(())
        })
    }
}

// Not derived: the password is in the address and in the pool.
impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresStore")
            .field("what", &self.what)
            .field("table", &self.table)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for PostgresConnect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresConnect")
            .field("table", &self.table)
            .finish_non_exhaustive()
    }
}

/// A name that is nothing but a name, quoted: `state`, or `app.state`.
fn quoted(table: &str) -> Result<String, StoreError> {
    let parts: Vec<&str> = table.split('.').collect();
    let is_name = |part: &&str| {
        let mut letters = part.chars();
        letters
            .next()
            .is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
            && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    };
    if parts.len() > 2 || !parts.iter().all(is_name) {
        let how = "letters, digits and `_`, with at most one `.` after the schema";
        return Err(StoreError::refused(
            format!("`{table}` cannot be a table"),
            how,
        ));
    }
    Ok(format!("\"{}\"", parts.join("\".\"")))
}

fn no_table(what: &str, table: &str, error: sqlx::Error) -> StoreError {
    let code = error.as_database_error().and_then(|error| error.code());
    // No such schema, table or column.
    if matches!(code.as_deref(), Some("3F000" | "42P01" | "42703")) {
        let how = format!(
            "{what} has no table `{table}` for state; make it with: CREATE TABLE {table} (key text PRIMARY KEY, version \
             bigint NOT NULL, format bigint NOT NULL, stamp bigint NOT NULL, value json NOT NULL, saved timestamptz NOT \
             NULL DEFAULT now()), or have it made by `create_table()`"
        );
        return StoreError::refused(how, error);
    }
    explain(what, error)
}

/// Tells what may pass from what will not.
fn explain(what: &str, error: sqlx::Error) -> StoreError {
    if let Some(advice) = about_tls(what, &error) {
        return StoreError::refused(advice, error);
    }
    let passes = match &error {
        sqlx::Error::Io(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::Protocol(_)
        | sqlx::Error::WorkerCrashed => true,
        sqlx::Error::Database(error) => error.code().is_some_and(|code| {
            // Connections, resources, operators: the server is going, coming, or has its hands full.
            ["08", "53", "57P", "40"]
                .iter()
                .any(|class| code.starts_with(class))
        }),
        _ => false,
    };
    if passes {
        StoreError::unavailable(what, error)
    } else {
        StoreError::refused(format!("{what} says no"), error)
    }
}
