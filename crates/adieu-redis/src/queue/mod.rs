//! Jobs in a stream of Redis.
//!
//! The group's list of pending entries is the list of leases: an entry whose idle time is longer than the lease is
//! free for every consumer. Every step that must not be torn is a script, because between two commands of ours the process may be
//! killed: giving back, for one, adds the job anew and takes the old entry away in one step. The new entry wakes
//! the consumers that wait; a claim would not.
//!
//! Keys, for a queue `orders`: the stream `orders`, what is put off in the sorted set `orders:later`, dead letters in
//! the stream `orders:dead`. The time is always the server's.

mod acks;
mod scripts;

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use adieu_core::{Delivery, Queue, QueueError, ShutdownSignal};
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{AsyncConnectionConfig, Client, FromRedisValue, RedisResult, Script, Value};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use self::acks::Acks;
use self::scripts::{BURY, EXTEND, FETCH, GIVE_BACK, RETRY, TIDY};
use crate::address::{RedisAddress, about_tls};

const DEFAULT_LEASE: Duration = Duration::from_secs(30);
/// A command that takes longer has failed.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest wait in one command: a connection that died without a word is noticed after it.
const LONGEST_BLOCK: Duration = Duration::from_secs(300);
const GROUP: &str = "adieu";

/// A queue in a stream of Redis (6.2 or newer, or Valkey), fetched by a consumer group.
///
/// The stream is the queue's own: entries go away when they are done, so no other group can read them. To add a job
/// from elsewhere: `XADD orders * payload '{"order": 17}'`. Dead letters are in the stream `orders:dead`, with
/// `reason`; what is put off is in `orders:later`. On a cluster, name the queue `{orders}`, so that the three are
/// together.
///
/// How durable a job is, is the server's setting: see `appendfsync`.
pub struct RedisQueue {
    consumer: GroupConsumer,
    lease: Duration,
    blocking: Mutex<BlockingConnection>,
    acks: Arc<Acks>,
}

/// Names a delivery of a [`RedisQueue`].
// The entry and the number of the delivery, as in `1700000000000-0/1`.
#[derive(Clone, Debug)]
pub struct RedisReceipt(Arc<str>);

/// One of the consumers of the stream.
#[derive(Clone)]
struct GroupConsumer {
    /// Unlike that of any other, so that a claim by another consumer is noticed.
    name: Arc<str>,
    shared: Arc<RedisServer>,
}

struct RedisServer {
    name: String,
    server: String,
    client: Client,
    connection: ConnectionManager,
}

/// What one consumer waits with: a blocking command needs a connection of its own.
#[derive(Default)]
struct BlockingConnection {
    connection: Option<ConnectionManager>,
    claimed: Option<Instant>,
}

impl RedisQueue {
    /// Connects, and makes the stream and its group if there are none.
    ///
    /// # Errors
    /// As [`RedisQueue::open`].
    pub async fn create(url: &str, name: impl Into<String>) -> Result<Self, QueueError> {
        let queue = Self::connect(url, name.into()).await?;
        let mut create = redis::cmd("XGROUP");
        create
            .arg("CREATE")
            .arg(&queue.shared().name)
            .arg(GROUP)
            .arg("0")
            .arg("MKSTREAM");
        let made = create
            .query_async::<()>(&mut queue.shared().connection.clone())
            .await;
        match made {
            Err(error) if error.code() != Some("BUSYGROUP") => Err(queue.shared().failed(error)),
            _ => queue.checked().await,
        }
    }

    /// Connects to a queue whose stream exists.
    ///
    /// Dropped half-way, nothing has happened.
    ///
    /// # Errors
    /// The server cannot be reached or refuses; or there is no such stream, or it has readers of another kind.
    pub async fn open(url: &str, name: impl Into<String>) -> Result<Self, QueueError> {
        Self::connect(url, name.into()).await?.checked().await
    }

    async fn connect(url: &str, name: String) -> Result<Self, QueueError> {
        let address = RedisAddress::read(url).await?;
        let (client, server) = (address.client, address.what);
        // First without the manager, which would try again and again.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(ANSWER_TIMEOUT))
            .set_response_timeout(Some(ANSWER_TIMEOUT));
        let first = client.get_multiplexed_async_connection_with_config(&config);
        let refused = |error| {
            let what = about_tls(&server, &error)
                .unwrap_or_else(|| format!("cannot open a queue on {server}"));
            QueueError::failed(what, error)
        };
        drop(first.await.map_err(refused)?);
        let connection = manager(&client, Some(ANSWER_TIMEOUT)).map_err(refused)?;
        let shared = Arc::new(RedisServer {
            name,
            server,
            client,
            connection,
        });
        Ok(Self::of(GroupConsumer::new(shared), DEFAULT_LEASE))
    }

    fn of(consumer: GroupConsumer, lease: Duration) -> Self {
        Self {
            consumer,
            lease,
            blocking: Mutex::default(),
            acks: Arc::default(),
        }
    }

    fn shared(&self) -> &RedisServer {
        &self.consumer.shared
    }

    /// Whether there is a stream, and only we read it.
    async fn checked(self) -> Result<Self, QueueError> {
        let RedisServer { name, server, .. } = self.shared();
        let mut look = redis::cmd("XINFO");
        look.arg("GROUPS").arg(name);
        let groups: Result<Vec<redis::streams::StreamInfoGroup>, _> = async {
            let mut connection = self.shared().connection.clone();
            let reply: redis::streams::StreamInfoGroupsReply =
                look.query_async(&mut connection).await?;
            Ok::<_, redis::RedisError>(reply.groups)
        }
        .await;
        let missing = || {
            QueueError::refused(format!(
                "{server} has no queue `{name}`: run `RedisQueue::create` once, or correct the name"
            ))
        };
        match groups {
            Err(error) if error.to_string().contains("no such key") => return Err(missing()),
            Err(error) => return Err(self.shared().failed(error)),
            Ok(groups) if groups.iter().all(|group| group.name != GROUP) => return Err(missing()),
            Ok(groups) => {
                if let Some(other) = groups.iter().find(|group| group.name != GROUP) {
                    let other = &other.name;
                    return Err(QueueError::refused(format!(
                        "the stream `{name}` on {server} is read by another group too, `{other}`, and would lose \
                         the entries that are done here: give the queue a stream of its own"
                    )));
                }
            }
        }
        self.run::<()>(&TIDY, &[], &[]).await?;
        Ok(self)
    }

    /// How long a job belongs to a worker that has stopped renewing it; 30 s if left out.
    #[must_use]
    pub const fn lease_of(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Adds a job. Dropped half-way, the job was added or not.
    ///
    /// # Errors
    /// The server is away.
    pub async fn push(&self, payload: &[u8]) -> Result<(), QueueError> {
        let mut add = redis::cmd("XADD");
        add.arg(&self.shared().name)
            .arg("*")
            .arg("payload")
            .arg(payload);
        let mut connection = self.shared().connection.clone();
        let added = add.query_async::<()>(&mut connection).await;
        added.map_err(|error| self.shared().failed(error))
    }

    async fn run<T: FromRedisValue>(
        &self,
        script: &Script,
        suffixes: &[&str],
        arguments: &[&[u8]],
    ) -> Result<T, QueueError> {
        let answer = self.consumer.run(script, suffixes, arguments).await;
        answer.map_err(|error| self.shared().failed(error))
    }

    async fn run_on(&self, script: &Script, jobs: &[RedisReceipt]) -> Result<(), QueueError> {
        let ids: Vec<&[u8]> = jobs.iter().map(|job| job.0.as_bytes()).collect();
        self.run::<()>(script, &[], &ids).await
    }

    async fn settle(
        &self,
        script: &Script,
        suffixes: &[&str],
        arguments: &[&[u8]],
    ) -> Result<(), QueueError> {
        match self.run(script, suffixes, arguments).await? {
            true => Ok(()),
            false => Err(QueueError::lost()),
        }
    }
}

impl RedisServer {
    fn failed(&self, error: redis::RedisError) -> QueueError {
        QueueError::failed(format!("queue `{}` on {}", self.name, self.server), error)
    }
}

impl GroupConsumer {
    fn new(shared: Arc<RedisServer>) -> Self {
        let random = RandomState::new().hash_one(std::process::id());
        let name = format!("{}-{random:016x}", std::process::id()).into();
        Self { name, shared }
    }

    /// Runs a script on the stream; `arguments` follow the consumer's name.
    async fn run<T: FromRedisValue>(
        &self,
        script: &Script,
        suffixes: &[&str],
        arguments: &[&[u8]],
    ) -> RedisResult<T> {
        let name = &self.shared.name;
        let mut call = script.prepare_invoke();
        call.key(name);
        for suffix in suffixes {
            call.key(format!("{name}:{suffix}"));
        }
        call.arg(&*self.name);
        for argument in arguments {
            call.arg(*argument);
        }
        let mut connection = self.shared.connection.clone();
        call.invoke_async(&mut connection).await
    }
}

fn manager(client: &Client, response: Option<Duration>) -> redis::RedisResult<ConnectionManager> {
    let config = ConnectionManagerConfig::new()
        // The consumer itself tries again, with its own pauses.
        .set_number_of_retries(1)
        .set_connection_timeout(Some(ANSWER_TIMEOUT))
        .set_response_timeout(response);
    ConnectionManager::new_lazy_with_config(client.clone(), config)
}

/// Entries with their payload, their attempt and the number of the delivery.
type Fetched = (Vec<(String, Vec<u8>, u32, u64)>, i64, String);

impl Queue for RedisQueue {
    type Receipt = RedisReceipt;

    fn lease(&self) -> Duration {
        self.lease
    }

    async fn fetch(
        &self,
        most: usize,
        stop: &dyn ShutdownSignal,
    ) -> Result<Vec<Delivery<RedisReceipt>>, QueueError> {
        let mut blocking = self.blocking.lock().await;
        let lease = self.lease.as_millis().to_string();
        loop {
            let claim = blocking
                .claimed
                .is_none_or(|then| then.elapsed() > self.lease / 4);
            if claim {
                blocking.claimed = Some(Instant::now());
            }
            let (count, claim) = (most.to_string(), if claim { "1" } else { "0" });
            let arguments = [count.as_bytes(), lease.as_bytes(), claim.as_bytes()];
            let (jobs, wait, last): Fetched = self.run(&FETCH, &["later"], &arguments).await?;
            if !jobs.is_empty() {
                let delivery = |(id, payload, attempt, number): (String, _, _, u64)| {
                    let receipt = RedisReceipt(format!("{id}/{number}").into());
                    Delivery::new(receipt, id, payload, attempt)
                };
                return Ok(jobs.into_iter().map(delivery).collect());
            }
            let wait = u64::try_from(wait).map_or(LONGEST_BLOCK, Duration::from_millis);
            let wait = wait.min(LONGEST_BLOCK);
            // Taken out: when this wait is dropped, the connection goes with it, and its pending answer.
            let mut connection = match blocking.connection.take() {
                Some(connection) => connection,
                None => manager(&self.shared().client, None)
                    .map_err(|error| self.shared().failed(error))?,
            };
            let mut listen = redis::cmd("XREAD");
            listen
                .arg("COUNT")
                .arg(1)
                .arg("BLOCK")
                .arg(wait.as_millis().to_string());
            listen.arg("STREAMS").arg(&self.shared().name).arg(last);
            let news = listen.query_async::<Value>(&mut connection);
            match stop.until(timeout(wait + ANSWER_TIMEOUT, news)).await {
                None => return Ok(Vec::new()),
                Some(Ok(Err(error))) => return Err(self.shared().failed(error)),
                // No answer at all: a new connection next time.
                Some(Err(_)) => {}
                Some(Ok(Ok(_))) => blocking.connection = Some(connection),
            }
        }
    }

    async fn ack(&self, job: &RedisReceipt) -> Result<(), QueueError> {
        match self.acks.add(&job.0, &self.consumer).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(QueueError::lost()),
            Err(error) => Err(self.shared().failed(error)),
        }
    }

    async fn extend(&self, jobs: &[RedisReceipt]) -> Result<(), QueueError> {
        self.run_on(&EXTEND, jobs).await
    }

    async fn give_back(&self, jobs: &[RedisReceipt]) -> Result<(), QueueError> {
        self.run_on(&GIVE_BACK, jobs).await
    }

    async fn retry(
        &self,
        job: &RedisReceipt,
        after: Duration,
        counted: bool,
    ) -> Result<(), QueueError> {
        let (after, uncounted) = (
            after.as_millis().to_string(),
            if counted { "0" } else { "1" },
        );
        let arguments = [job.0.as_bytes(), after.as_bytes(), uncounted.as_bytes()];
        self.settle(&RETRY, &["later"], &arguments).await
    }

    async fn bury(&self, job: &RedisReceipt, reason: &str) -> Result<(), QueueError> {
        self.settle(&BURY, &["dead"], &[job.0.as_bytes(), reason.as_bytes()])
            .await
    }
}

impl Clone for RedisQueue {
    /// The clone shares the connection, but is a consumer of its own.
    fn clone(&self) -> Self {
        let shared = Arc::clone(&self.consumer.shared);
        Self::of(GroupConsumer::new(shared), self.lease)
    }
}

impl fmt::Debug for RedisQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisQueue")
            .field("name", &self.shared().name)
            .field("server", &self.shared().server)
            .finish_non_exhaustive()
    }
}
