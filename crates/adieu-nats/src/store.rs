//! State in a key-value bucket of NATS JetStream.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use adieu_core::{BoxError, Entry, Expected, Record, Store, StoreError, StoreFuture, Version};
use async_nats::jetstream::kv::{self, CreateErrorKind, UpdateErrorKind};
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::LastRawMessageErrorKind;
use async_nats::jetstream::{self, stream};
use async_nats::{Client, ConnectError, ConnectErrorKind};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::address::{NatsAddress, about_tls};

/// How long the server may take to accept us, and to answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// State in a key-value bucket of NATS JetStream: for services of several replicas.
///
/// A version is the revision of the key in the bucket. Characters that a key of NATS cannot have are written as `=`
/// and their number. A state may be as large as a message, a megabyte unless the server says otherwise.
///
/// ```no_run
/// # async fn setup(app: &mut adieu::App) -> adieu::Result {
/// let store = app.store(adieu::state::NatsStore::connect("nats://user:password@bus:4222").create_bucket(3)).await?;
/// # drop(store);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct NatsStore {
    client: Client,
    bucket: kv::Store,
    /// Which server this is, without its secrets.
    what: String,
}

/// A connection about to be made: await it, or give it to `App::store`.
#[must_use = "it connects when it is awaited"]
#[derive(Clone)]
pub struct NatsConnect {
    url: String,
    bucket: String,
    replicas: Option<usize>,
}

/// What a key's value is in the bucket.
#[derive(Serialize, Deserialize)]
struct StoredValue<'a> {
    format: u32,
    stamp: u64,
    #[serde(borrow)]
    value: &'a RawValue,
}

impl NatsStore {
    /// Connects to the server at `url`, as in `nats://user:password@host:4222`. `tls://` encrypts the way there, and
    /// `?sslrootcert=FILE` names who signs the server's certificate.
    ///
    /// Fails at once, and says why, if the server does not answer, refuses us, or has no such bucket.
    pub fn connect(url: impl Into<String>) -> NatsConnect {
        NatsConnect {
            url: url.into(),
            bucket: "adieu_state".to_owned(),
            replicas: None,
        }
    }
}

impl NatsConnect {
    /// Uses this bucket, `adieu_state` without it.
    pub fn bucket(mut self, bucket: impl Into<String>) -> Self {
        self.bucket = bucket.into();
        self
    }

    /// Makes the bucket if there is none, on so many servers of the cluster.
    pub const fn create_bucket(mut self, replicas: usize) -> Self {
        self.replicas = Some(replicas);
        self
    }

    async fn open(self) -> Result<NatsStore, StoreError> {
        let NatsAddress {
            address,
            options,
            what,
        } = NatsAddress::read(&self.url).await?;
        let connecting = options
            .connection_timeout(CONNECT_TIMEOUT)
            .request_timeout(Some(ANSWER_TIMEOUT))
            .connect(address);
        let client = connecting.await.map_err(|error| explain(&what, error))?;
        let mut context = jetstream::new(client.clone());
        context.set_timeout(ANSWER_TIMEOUT);
        let found = context.get_key_value(&*self.bucket).await;
        let bucket = match (found, self.replicas) {
            (Ok(bucket), _) => bucket,
            (Err(_), Some(replicas)) => make(&context, &self.bucket, replicas)
                .await
                .map_err(|error| StoreError::refused(format!("{what} makes no bucket"), error))?,
            (Err(error), None) => {
                let bucket = &self.bucket;
                let how = format!(
                    "{what} has no bucket `{bucket}` for state; make it with: nats kv add {bucket}, or have it made by \
                     `create_bucket`"
                );
                return Err(StoreError::refused(how, error));
            }
        };
        Ok(NatsStore {
            client,
            bucket,
            what,
        })
    }
}

/// Tells what may pass from what will not.
fn explain(what: &str, error: ConnectError) -> StoreError {
    if let Some(advice) = about_tls(what, &error) {
        return StoreError::refused(advice, error);
    }
    match error.kind() {
        ConnectErrorKind::Authentication
        | ConnectErrorKind::AuthorizationViolation
        | ConnectErrorKind::ServerParse => StoreError::refused(format!("{what} says no"), error),
        _ => StoreError::unavailable(what, error),
    }
}

/// Makes the stream that a bucket is. The client's own call asks for the account first, and does not understand what
/// servers before 2.10 answer.
async fn make(
    context: &jetstream::Context,
    bucket: &str,
    replicas: usize,
) -> Result<kv::Store, BoxError> {
    let config = stream::Config {
        name: format!("KV_{bucket}"),
        subjects: vec![format!("$KV.{bucket}.>")],
        // As with files: the generation before is still there for a person to look at.
        max_messages_per_subject: 2,
        discard: stream::DiscardPolicy::New,
        storage: stream::StorageType::File,
        num_replicas: replicas,
        allow_rollup: true,
        deny_delete: true,
        // What any replica may answer can be older than an acknowledged save.
        allow_direct: false,
        ..stream::Config::default()
    };
    context.create_stream(config).await?;
    Ok(context.get_key_value(bucket).await?)
}

impl IntoFuture for NatsConnect {
    type Output = Result<NatsStore, StoreError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    /// Dropped half-way, it has made a bucket or not, and holds nothing.
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.open())
    }
}

impl std::fmt::Debug for NatsConnect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NatsConnect")
            .field("bucket", &self.bucket)
            .finish_non_exhaustive()
    }
}

impl Store for NatsStore {
    fn load<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Record>> {
        Box::pin(async move {
            // Not the bucket's own look: where that may be answered by any server that has the bucket, it can be older than
            // an acknowledged save. This is answered by the one that leads.
            let subject = format!("{}{}", self.bucket.prefix, name(key));
            let stream = &self.bucket.stream;
            let found = match stream.get_last_raw_message_by_subject(&subject).await {
                Ok(found) if is_saved(&found) => found,
                Ok(_) => return Ok(None),
                Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => {
                    return Ok(None);
                }
                Err(error) => return Err(StoreError::unavailable(&*self.what, error)),
            };
            let kept: StoredValue<'_> =
                serde_json::from_slice(&found.payload).map_err(|error| {
                    let what = format!("{} has something else than state under `{key}`", self.what);
                    StoreError::refused(what, error)
                })?;
            let entry = Entry::new(kept.format, kept.stamp, kept.value.get());
            Ok(Some(Record::new(Version(found.sequence), entry)))
        })
    }

    fn save<'a>(
        &'a self,
        key: &'a str,
        expected: Expected,
        entry: &'a Entry,
    ) -> StoreFuture<'a, Version> {
        Box::pin(async move {
            let refuse = |error| StoreError::refused(format!("state `{key}` is not JSON"), error);
            let kept = StoredValue {
                format: entry.format,
                stamp: entry.stamp,
                value: serde_json::from_str(&entry.value)
                    .map_err(|error: serde_json::Error| refuse(error))?,
            };
            let bytes = serde_json::to_vec(&kept).map_err(refuse)?;
            let largest = self.client.max_payload();
            if bytes.len() > largest {
                let how = format!(
                    "it has {} bytes, and a message {largest} at most",
                    bytes.len()
                );
                return Err(StoreError::refused(
                    format!("state `{key}` is too large for {}", self.what),
                    how,
                ));
            }
            let (name, bytes) = (name(key), bytes.into());
            let unavailable = |error| StoreError::unavailable(&*self.what, error);
            let saved = match expected {
                Expected::Any => {
                    let put = self.bucket.put(name, bytes).await;
                    return put
                        .map(Version)
                        .map_err(|error| StoreError::unavailable(&*self.what, error));
                }
                Expected::Absent => match self.bucket.create(name, bytes).await {
                    Err(error) if error.kind() == CreateErrorKind::AlreadyExists => None,
                    Err(error) => return Err(unavailable(BoxError::from(error))),
                    Ok(revision) => Some(revision),
                },
                Expected::Version(version) => {
                    match self.bucket.update(name, bytes, version.0).await {
                        Err(error) if error.kind() == UpdateErrorKind::WrongLastRevision => None,
                        Err(error) => return Err(unavailable(BoxError::from(error))),
                        Ok(revision) => Some(revision),
                    }
                }
            };
            match saved {
                Some(revision) => Ok(Version(revision)),
                None => {
                    let found = self.load(key).await?.map(|found| found.version);
                    Err(StoreError::conflict(key, expected, found))
                }
            }
        })
    }

    fn close(&self) -> StoreFuture<'_, ()> {
        Box::pin(async {
            // Everything acknowledged is on the server already; what is not was never promised.
            let drained = self.client.drain().await;
            drained.map_err(|error| StoreError::unavailable(&*self.what, error))
        })
    }
}

/// Whether it is a value: a key that was deleted or purged has a mark instead.
fn is_saved(message: &StreamMessage) -> bool {
    let mark = message.headers.get("KV-Operation");
    mark.is_none_or(|mark| mark.as_str() == "PUT")
}

/// The key as NATS takes it: the dot separates, and a key may not end in one, so it is written too.
fn name(key: &str) -> String {
    let mut name = String::with_capacity(key.len());
    for byte in key.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_/".contains(&byte) {
            name.push(char::from(byte));
        } else {
            name.push_str(&format!("={byte:02X}"));
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_keys_of_nats() {
        assert_eq!(name("schedule/digest"), "schedule/digest");
        assert_eq!(name("a.b *>"), "a=2Eb=20=2A=3E");
        assert_ne!(name("=2E"), name("."));
    }
}
