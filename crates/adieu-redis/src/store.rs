//! State in Redis: a hash for each key, changed by a script, which Redis runs as a whole.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use adieu_core::{Entry, Expected, Record, Store, StoreError, StoreFuture, Version};
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{ErrorKind, RedisError, Script, ServerErrorKind};

use crate::address::{RedisAddress, about_tls};

/// How long the server may take to accept us, and to answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// What is there decides, and nothing can come between the look and the write.
const SAVE: &str = "
local found = redis.call('HGET', KEYS[1], 'version')
local expected = ARGV[1]
if expected == 'absent' and found or expected ~= 'absent' and expected ~= 'any' and expected ~= found then
    return {0, found or ''}
end
local version = redis.call('HINCRBY', KEYS[1], 'version', 1)
redis.call('HSET', KEYS[1], 'format', ARGV[2], 'stamp', ARGV[3], 'value', ARGV[4])
return {1, tostring(version)}
";

/// State in Redis: for services of several replicas that have one already.
///
/// Each state is a hash `adieu:state:<key>` with the fields `version`, `format`, `stamp` and `value`.
///
/// An acknowledged save is as durable as the server is: with `appendonly yes` and `appendfsync always` it survives a
/// power cut, with the defaults the last second may be lost. A replica that takes over may be behind.
///
/// ```no_run
/// # async fn setup(app: &mut adieu::App) -> adieu::Result {
/// let store = app.store(adieu::state::RedisStore::connect("redis://:password@cache:6379")).await?;
/// # drop(store);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RedisStore {
    connection: ConnectionManager,
    script: Script,
    prefix: String,
    /// Which server this is, without its secrets.
    what: String,
}

/// A connection about to be made: await it, or give it to `App::store`.
#[must_use = "it connects when it is awaited"]
#[derive(Clone)]
pub struct RedisConnect {
    url: String,
    prefix: String,
}

impl RedisStore {
    /// Connects to the server at `url`, as in `redis://user:password@host/0`. With the feature `tls`, `rediss://`
    /// encrypts the way there, and `?sslrootcert=FILE` names who signs the server's certificate.
    ///
    /// Fails at once, and says why, if the server does not answer or refuses us.
    pub fn connect(url: impl Into<String>) -> RedisConnect {
        RedisConnect {
            url: url.into(),
            prefix: "adieu:state:".to_owned(),
        }
    }

    fn key(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }
}

impl RedisConnect {
    /// What every key begins with, `adieu:state:` without this.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    async fn open(self) -> Result<RedisStore, StoreError> {
        let RedisAddress { client, what } = RedisAddress::read(&self.url).await?;
        let config = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(ANSWER_TIMEOUT))
            // Trying again is our own business, inside the budget.
            .set_number_of_retries(0);
        let mut connection = ConnectionManager::new_with_config(client, config)
            .await
            .map_err(|error| explain(&what, error))?;
        let asked: Result<String, _> = redis::cmd("PING").query_async(&mut connection).await;
        asked.map_err(|error| explain(&what, error))?;
        Ok(RedisStore {
            connection,
            script: Script::new(SAVE),
            prefix: self.prefix,
            what,
        })
    }
}

impl IntoFuture for RedisConnect {
    type Output = Result<RedisStore, StoreError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    /// Dropped half-way, it holds nothing.
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.open())
    }
}

impl Store for RedisStore {
    fn load<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Record>> {
        Box::pin(async move {
            type Fields = (Option<u64>, Option<u32>, Option<u64>, Option<String>);
            let mut connection = self.connection.clone();
            let found: Result<Fields, _> = redis::cmd("HMGET")
                .arg(self.key(key))
                .arg(&["version", "format", "stamp", "value"])
                .query_async(&mut connection)
                .await;
            let (Some(version), Some(format), Some(stamp), Some(value)) =
                found.map_err(|error| explain(&self.what, error))?
            else {
                return Ok(None);
            };
            let entry = Entry::new(format, stamp, value);
            Ok(Some(Record::new(Version(version), entry)))
        })
    }

    fn save<'a>(
        &'a self,
        key: &'a str,
        expected: Expected,
        entry: &'a Entry,
    ) -> StoreFuture<'a, Version> {
        Box::pin(async move {
            let mut connection = self.connection.clone();
            let expects = match expected {
                Expected::Any => "any".to_owned(),
                Expected::Absent => "absent".to_owned(),
                Expected::Version(version) => version.to_string(),
            };
            let answer: Result<(u8, String), _> = self
                .script
                .key(self.key(key))
                .arg(expects)
                .arg(entry.format)
                .arg(entry.stamp)
                .arg(&entry.value)
                .invoke_async(&mut connection)
                .await;
            let (saved, version) = answer.map_err(|error| explain(&self.what, error))?;
            let version = version.parse().ok().map(Version);
            match version {
                Some(version) if saved == 1 => Ok(version),
                found => Err(StoreError::conflict(key, expected, found)),
            }
        })
    }
}

impl std::fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisStore")
            .field("what", &self.what)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for RedisConnect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisConnect")
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

/// Tells what may pass from what will not.
fn explain(what: &str, error: RedisError) -> StoreError {
    if let Some(advice) = about_tls(what, &error) {
        return StoreError::refused(advice, error);
    }
    let passes = error.is_io_error()
        || error.is_timeout()
        || error.is_connection_dropped()
        || error.is_connection_refusal()
        || matches!(
            error.kind(),
            ErrorKind::Server(
                ServerErrorKind::BusyLoading
                    | ServerErrorKind::TryAgain
                    | ServerErrorKind::ClusterDown
                    | ServerErrorKind::MasterDown
                    | ServerErrorKind::ReadOnly
            )
        );
    if passes {
        StoreError::unavailable(what, error)
    } else {
        StoreError::refused(format!("{what} says no"), error)
    }
}
