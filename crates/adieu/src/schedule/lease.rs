//! What is remembered of a schedule, and the lease by which one replica runs it.
//!
//! The lease is a document in the store, changed by compare-and-swap alone. It says who has it and until when, which
//! token goes with it, and which moment was last done. A token is given once: whoever has a higher one came later.

use std::future::{Future, poll_fn};
use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::clock::Clock;
use super::fenced::Fenced;
use super::tick::Tick;
use crate::store::{State, StoreError, StoreHandle, Version};

/// What the store knows of a schedule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The last moment whose run has ended.
    done: Option<Tick>,
    /// The last token that was given.
    #[serde(default)]
    pub(super) token: u64,
    /// Who has the lease, if anybody.
    #[serde(default)]
    holder: Option<String>,
    /// Until when.
    #[serde(default)]
    until: Option<Tick>,
}

/// The memory of one schedule.
pub(super) struct Memory {
    store: StoreHandle,
    state: State<Record>,
    lease: Option<Duration>,
    /// This schedule in this process, told from all others.
    me: Arc<str>,
}

/// What came of asking for the lease.
pub(super) enum Claim {
    Won(Grip),
    /// Somebody has it until then.
    Held(Tick),
    /// This moment was run already.
    Done,
}

const LOST: &str = "the lease was lost to another replica, or the store did not answer in time; the run was dropped";

fn me() -> Arc<str> {
    static RANDOM: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0));
    static NUMBER: AtomicI64 = AtomicI64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("{}-{:x}-{number}", std::process::id(), *RANDOM).into()
}

impl Memory {
    pub(super) fn new(store: StoreHandle, name: &str, lease: Option<Duration>) -> Self {
        Self {
            state: store.state(format!("schedule.{name}")),
            store,
            lease,
            me: me(),
        }
    }

    pub(super) const fn is_leased(&self) -> bool {
        self.lease.is_some()
    }

    /// The last moment whose run has ended.
    pub(super) async fn last(&self) -> Result<Option<Tick>, StoreError> {
        Ok(self.state.load().await?.and_then(|found| found.value.done))
    }

    /// Remembers a run that has ended, without a lease.
    pub(super) async fn note(&self, tick: Tick) -> Result<(), StoreError> {
        let record = Record {
            done: Some(tick),
            ..Record::default()
        };
        self.state.save(&record).await.map(drop)
    }

    pub(super) fn fenced<T>(&self, key: &str, token: u64) -> Fenced<T> {
        let lease = self.is_leased().then(|| self.state.clone());
        Fenced::new(self.store.state(key.to_owned()), lease, token)
    }

    async fn found(&self) -> Result<(Option<Version>, Record), StoreError> {
        Ok(match self.state.load().await? {
            Some(found) => (Some(found.version), found.value),
            None => (None, Record::default()),
        })
    }

    async fn replace(&self, found: Option<Version>, new: &Record) -> Result<Version, StoreError> {
        match found {
            Some(version) => self.state.compare_and_swap(version, new).await,
            None => self.state.create(new).await,
        }
    }

    /// Asks for the lease, to run this moment. Dropped half-way, it may have it: it is over by itself.
    pub(super) async fn claim(
        self: &Arc<Self>,
        clock: &Clock,
        tick: Tick,
    ) -> Result<Claim, StoreError> {
        let lease = self.lease.unwrap_or_default();
        loop {
            let (version, record) = self.found().await?;
            if record.done >= Some(tick) {
                return Ok(Claim::Done);
            }
            let now = clock.now();
            let others = record.holder.as_ref().is_some_and(|it| **it != *self.me);
            if let Some(until) = record.until.filter(|until| others && *until > now) {
                return Ok(Claim::Held(until));
            }
            let until = now.plus(lease);
            let ours = Record {
                done: record.done,
                token: record.token + 1,
                holder: Some(self.me.to_string()),
                until: Some(until),
            };
            match self.replace(version, &ours).await {
                Ok(version) => {
                    return Ok(Claim::Won(Grip {
                        memory: Arc::clone(self),
                        lease,
                        until: AtomicI64::new(until.0),
                        written: Mutex::new((version, ours)),
                    }));
                }
                // Somebody was faster: look what they did.
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// A lease in the hand.
pub(super) struct Grip {
    memory: Arc<Memory>,
    lease: Duration,
    until: AtomicI64,
    written: Mutex<(Version, Record)>,
}

impl Grip {
    fn written(&self) -> (Version, Record) {
        self.written
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn token(&self) -> u64 {
        self.written().1.token
    }

    fn until(&self) -> Tick {
        Tick(self.until.load(Ordering::Acquire))
    }

    /// Does the work while the lease lasts, and renews it meanwhile. The work is not touched once the lease is over by
    /// our own clock, as after a pause of the whole process: only a renewal lets it go on.
    pub(super) async fn hold<T>(
        &self,
        clock: &Clock,
        work: impl Future<Output = T>,
    ) -> Result<T, &'static str> {
        let (mut renewal, mut work) = (pin!(self.renew(clock)), pin!(work));
        poll_fn(|cx| {
            if renewal.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Err(LOST));
            }
            // The renewal under way wakes this task, whichever way it goes.
            if clock.now() >= self.until() {
                return Poll::Pending;
            }
            work.as_mut().poll(cx).map(Ok)
        })
        .await
    }

    /// Ends when the lease is lost. Dropped in the middle of a renewal, that may have happened or not: the release
    /// looks for itself.
    async fn renew(&self, clock: &Clock) {
        let mut pause = self.lease / 3;
        loop {
            tokio::time::sleep(pause).await;
            let (version, mut record) = self.written();
            let until = clock.now().plus(self.lease);
            record.until = Some(until);
            let renewing = self.memory.state.compare_and_swap(version, &record);
            // A whole lease for the answer: whoever has waited that long has lost it.
            match tokio::time::timeout(self.lease, renewing).await {
                Ok(Ok(version)) => {
                    *self.written.lock().unwrap_or_else(PoisonError::into_inner) =
                        (version, record);
                    self.until.store(until.0, Ordering::Release);
                    pause = self.lease / 3;
                }
                Ok(Err(error)) if error.is_conflict() => return,
                _ if clock.now() >= self.until() => return,
                _ => pause = self.lease / 10,
            }
        }
    }

    /// Gives the lease back and writes down what was done, if anything was.
    ///
    /// Dropped half-way, it has happened or not; then the lease is over by itself.
    pub(super) async fn release(&self, done: Option<Tick>) -> Result<(), StoreError> {
        let token = self.token();
        loop {
            let (version, record) = self.memory.found().await?;
            if record.token != token {
                return Err(StoreError::refused(
                    "the end of the run was not noted",
                    LOST,
                ));
            }
            let free = Record {
                done: done.max(record.done),
                token,
                holder: None,
                until: None,
            };
            match self.memory.replace(version, &free).await {
                Err(error) if error.is_conflict() => {}
                other => return other.map(drop),
            }
        }
    }
}
