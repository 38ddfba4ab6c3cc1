//! Jobs in a stream of NATS JetStream.
//!
//! The stream's retention is that of a work queue: what is acknowledged goes away. One durable consumer, shared by
//! all replicas, has the leases.

mod pull;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use adieu_core::{BoxError, Delivery, Queue, QueueError, ShutdownSignal};
use async_nats::jetstream::consumer::pull::Config as ConsumerConfig;
use async_nats::jetstream::consumer::{AckPolicy, PullConsumer};
use async_nats::jetstream::stream::{Config as StreamConfig, RetentionPolicy};
use async_nats::jetstream::{self, AckKind, Context, Message};
use async_nats::{Client, Event, HeaderMap};
use futures_util::future::try_join_all;
use tokio::sync::watch;
use tokio::time::Instant;

use self::pull::Puller;
use crate::address::{NatsAddress, about_tls};

const DEFAULT_LEASE: Duration = Duration::from_secs(30);
/// An answer that takes longer is none.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
const CONSUMER: &str = "adieu";

/// A queue in a stream of NATS JetStream (tested with 2.9).
///
/// For a queue `orders`, the stream is `orders` with the subject `orders`, and dead letters go to the stream
/// `orders_dead`, subject `orders.dead`, with the reason in a header. To add a job from elsewhere: `nats publish
/// orders '{"order": 17}'`, or any JetStream publish.
///
/// NATS counts every delivery as an attempt, also one that was given back; and a consumer that settles a job after its
/// lease was over does so although another may have it. Both other engines do better.
#[derive(Clone)]
pub struct NatsQueue {
    name: String,
    server: String,
    client: Client,
    context: Context,
    connected: watch::Receiver<Instant>,
    puller: Puller,
    lease: Duration,
}

/// Names a delivery of a [`NatsQueue`].
#[derive(Clone, Debug)]
pub struct NatsReceipt(Arc<Message>);

impl NatsQueue {
    /// Connects, and makes the streams and the consumer if there are none.
    ///
    /// # Errors
    /// As [`NatsQueue::open`]; and the user may not make streams.
    pub async fn create(url: &str, name: impl Into<String>) -> Result<Self, QueueError> {
        let connection = NatsConnection::connect(url, name.into()).await?;
        let name = &connection.name;
        for (stream, subject, retention) in [
            (name.clone(), name.clone(), RetentionPolicy::WorkQueue),
            (
                dead_stream(name),
                dead_subject(name),
                RetentionPolicy::Limits,
            ),
        ] {
            let config = StreamConfig {
                name: stream,
                subjects: vec![subject],
                retention,
                ..StreamConfig::default()
            };
            let made = connection.context.get_or_create_stream(config).await;
            made.map_err(|error| connection.failed(error))?;
        }
        if connection.consumer().await.is_err() {
            connection.configure(DEFAULT_LEASE).await?;
        }
        connection.open().await
    }

    /// Connects to a queue whose streams exist.
    ///
    /// Dropped half-way, nothing has happened.
    ///
    /// # Errors
    /// The server cannot be reached or refuses, or there is no such stream.
    pub async fn open(url: &str, name: impl Into<String>) -> Result<Self, QueueError> {
        NatsConnection::connect(url, name.into())
            .await?
            .open()
            .await
    }

    /// How long a job belongs to a worker that has stopped renewing it; 30 s if never set. The server keeps it, for
    /// all replicas.
    ///
    /// # Errors
    /// The server is away, or the user may not change the consumer.
    pub async fn lease_of(self, lease: Duration) -> Result<Self, QueueError> {
        if lease == self.lease {
            return Ok(self);
        }
        let connection = self.connection();
        connection.configure(lease).await?;
        connection.open().await
    }

    /// Adds a job. It is as durable as the stream when this returns. Dropped half-way, the job was added or not.
    ///
    /// # Errors
    /// The server is away.
    pub async fn push(&self, payload: &[u8]) -> Result<(), QueueError> {
        let publish = self
            .context
            .publish(self.name.clone(), payload.to_vec().into());
        let sent = publish.await.map_err(|error| self.failed(error))?;
        sent.await.map(drop).map_err(|error| self.failed(error))
    }

    /// Sends what is still to be sent, and closes the connection, after the consumers of this queue have ended: give
    /// it to the `stop` of a resource.
    ///
    /// # Errors
    /// The connection was closed before.
    pub async fn close(&self) -> Result<(), QueueError> {
        self.client
            .drain()
            .await
            .map_err(|error| self.failed(error))
    }

    fn connection(&self) -> NatsConnection {
        NatsConnection {
            name: self.name.clone(),
            server: self.server.clone(),
            client: self.client.clone(),
            context: self.context.clone(),
            connected: self.connected.clone(),
        }
    }

    fn failed(&self, error: impl Into<BoxError>) -> QueueError {
        failed(&self.name, &self.server, error)
    }

    fn delivery(&self, message: Message) -> Result<Delivery<NatsReceipt>, QueueError> {
        let info = message.info().map_err(|error| self.failed(error))?;
        let (id, attempt) = (info.stream_sequence, info.delivered);
        let attempt = u32::try_from(attempt).unwrap_or(1);
        let payload = message.payload.to_vec();
        let receipt = NatsReceipt(Arc::new(message));
        Ok(Delivery::new(receipt, id.to_string(), payload, attempt))
    }

    /// Sends an answer, and waits until the server has it, with the patience of the connection. As a request, which
    /// shares one inbox with all others: the message's own double ack would subscribe to one of its own each time.
    async fn settle(&self, job: &Message, answer: AckKind) -> Result<(), QueueError> {
        let Some(place) = job.reply.clone() else {
            return Err(self.failed("the message says nowhere to answer to"));
        };
        let settled = self.client.request(place, answer.into()).await;
        settled.map(drop).map_err(|error| self.failed(error))
    }
}

/// A server and a name, before it is known whether there is a queue.
struct NatsConnection {
    name: String,
    server: String,
    client: Client,
    context: Context,
    /// Counts them; see [`Puller`].
    connected: watch::Receiver<Instant>,
}

impl NatsConnection {
    async fn connect(url: &str, name: String) -> Result<Self, QueueError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if name.is_empty() || !name.bytes().all(plain) {
            return Err(QueueError::refused(format!(
                "`{name}` cannot name a queue on NATS: use letters, digits, `_` and `-`"
            )));
        }
        let NatsAddress {
            address,
            options,
            what: server,
        } = NatsAddress::read(url).await?;
        let (tell, connected) = watch::channel(Instant::now());
        let tell = Arc::new(tell);
        let connect = options
            .event_callback(move |event| {
                if matches!(event, Event::Connected) {
                    tell.send_replace(Instant::now());
                }
                std::future::ready(())
            })
            .connection_timeout(ANSWER_TIMEOUT)
            .request_timeout(Some(ANSWER_TIMEOUT))
            .connect(address);
        let client = connect.await.map_err(|error| {
            let what = about_tls(&server, &error)
                .unwrap_or_else(|| format!("cannot open a queue on {server}"));
            QueueError::failed(what, error)
        })?;
        let context = jetstream::new(client.clone());
        Ok(Self {
            name,
            server,
            client,
            context,
            connected,
        })
    }

    fn failed(&self, error: impl Into<BoxError>) -> QueueError {
        failed(&self.name, &self.server, error)
    }

    async fn consumer(&self) -> Result<PullConsumer, QueueError> {
        let consumer = self.context.get_consumer_from_stream(CONSUMER, &self.name);
        consumer.await.map_err(|error| self.failed(error))
    }

    /// Makes the consumer, or changes its lease.
    async fn configure(&self, lease: Duration) -> Result<(), QueueError> {
        let config = ConsumerConfig {
            durable_name: Some(CONSUMER.to_owned()),
            ack_policy: AckPolicy::Explicit,
            ack_wait: lease,
            // Attempts are counted by the consumer, which also buries: the server must not drop a job by itself.
            max_deliver: -1,
            max_ack_pending: -1,
            ..ConsumerConfig::default()
        };
        let made = self.context.create_consumer_on_stream(config, &self.name);
        made.await.map(drop).map_err(|error| self.failed(error))
    }

    async fn open(self) -> Result<NatsQueue, QueueError> {
        let Self { name, server, .. } = &self;
        for (stream, retention) in [
            (name.clone(), RetentionPolicy::WorkQueue),
            (dead_stream(name), RetentionPolicy::Limits),
        ] {
            let found = self.context.get_stream(&stream).await;
            let found = found.map_err(|error| {
                let what = format!(
                    "{server} has no stream `{stream}` for the queue `{name}`: run `NatsQueue::create` once, or correct \
                     the name"
                );
                QueueError::failed(what, error)
            })?;
            let other = found.cached_info().config.retention;
            if other != retention {
                return Err(QueueError::refused(format!(
                    "the stream `{stream}` on {server} has the retention {other:?}, and a queue needs {retention:?}: \
                     give the queue another name, or delete the stream and run `NatsQueue::create`"
                )));
            }
        }
        let consumer = self.consumer().await?;
        let config = &consumer.cached_info().config;
        if let Some(why) = unfit(config) {
            return Err(QueueError::refused(format!(
                "the consumer `{CONSUMER}` of the stream `{name}` on {server} {why}: correct it, or delete it and run \
                 `NatsQueue::create`; the jobs stay in the stream"
            )));
        }
        let lease = config.ack_wait;
        let puller = Puller::new(
            self.client.clone(),
            self.context.clone(),
            (name, CONSUMER),
            self.connected.clone(),
        );
        Ok(NatsQueue {
            name: self.name,
            server: self.server,
            client: self.client,
            context: self.context,
            connected: self.connected,
            puller,
            lease,
        })
    }
}

/// Why jobs would get lost with a consumer like this.
fn unfit(config: &jetstream::consumer::Config) -> Option<String> {
    if config.ack_policy != AckPolicy::Explicit {
        let policy = config.ack_policy;
        return Some(format!(
            "has the acknowledgement policy {policy:?}, so that a job is gone before it is done, where it must be explicit"
        ));
    }
    // Attempts are counted by us, and what has had enough of them is a dead letter.
    if config.max_deliver > 0 {
        let most = config.max_deliver;
        return Some(format!(
            "delivers a job {most} times at most (`max_deliver`), and then it is neither done nor a dead letter, where it \
             must be -1"
        ));
    }
    let filters = !config.filter_subject.is_empty() || !config.filter_subjects.is_empty();
    if filters {
        return Some("leaves out subjects of the stream, whose jobs are never done".to_owned());
    }
    None
}

fn failed(name: &str, server: &str, error: impl Into<BoxError>) -> QueueError {
    QueueError::failed(format!("queue `{name}` on {server}"), error)
}

fn dead_stream(name: &str) -> String {
    format!("{name}_dead")
}

fn dead_subject(name: &str) -> String {
    format!("{name}.dead")
}

impl Queue for NatsQueue {
    type Receipt = NatsReceipt;

    fn lease(&self) -> Duration {
        self.lease
    }

    async fn fetch(
        &self,
        most: usize,
        stop: &dyn ShutdownSignal,
    ) -> Result<Vec<Delivery<NatsReceipt>>, QueueError> {
        let there = self.puller.take(most).await;
        let there = there.map_err(|error| self.failed(error))?;
        if !there.is_empty() {
            return there.into_iter().map(|job| self.delivery(job)).collect();
        }
        while !stop.is_requested() {
            let came = self.puller.wait(stop).await;
            if let Some(job) = came.map_err(|error| self.failed(error))? {
                return Ok(vec![self.delivery(job)?]);
            }
        }
        Ok(Vec::new())
    }

    async fn ack(&self, job: &NatsReceipt) -> Result<(), QueueError> {
        self.settle(&job.0, AckKind::Ack).await
    }

    async fn extend(&self, jobs: &[NatsReceipt]) -> Result<(), QueueError> {
        let extending = jobs.iter().map(|job| job.0.ack_with(AckKind::Progress));
        let extended = try_join_all(extending).await;
        extended.map(drop).map_err(|error| self.failed(error))
    }

    async fn give_back(&self, jobs: &[NatsReceipt]) -> Result<(), QueueError> {
        let giving = jobs
            .iter()
            .map(|job| self.settle(&job.0, AckKind::Nak(None)));
        try_join_all(giving).await.map(drop)
    }

    async fn retry(
        &self,
        job: &NatsReceipt,
        after: Duration,
        _counted: bool,
    ) -> Result<(), QueueError> {
        self.settle(&job.0, AckKind::Nak(Some(after))).await
    }

    async fn bury(&self, job: &NatsReceipt, reason: &str) -> Result<(), QueueError> {
        let info = job.0.info().map_err(|error| self.failed(error))?;
        let mut headers = HeaderMap::new();
        // A header is one line. The id keeps a second try from becoming a second letter; with the time of the job in it,
        // it is another one when the stream was made anew and counts from 1 again.
        let id = format!("{}-{:?}", info.stream_sequence, info.published);
        headers.insert("Adieu-Reason", reason.replace(['\r', '\n'], " ").as_str());
        headers.insert("Adieu-Attempts", info.delivered.to_string().as_str());
        headers.insert("Nats-Msg-Id", id.as_str());
        let (subject, payload) = (dead_subject(&self.name), job.0.payload.clone());
        let publish = self.context.publish_with_headers(subject, headers, payload);
        let sent = publish.await.map_err(|error| self.failed(error))?;
        sent.await.map_err(|error| self.failed(error))?;
        self.settle(&job.0, AckKind::Ack).await
    }
}

impl fmt::Debug for NatsQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsQueue")
            .field("name", &self.name)
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}
