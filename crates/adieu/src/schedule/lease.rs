//! What is remembered of a schedule, and the lease by which one replica runs it.
//!
//! The lease is a document in the store, changed by compare-and-swap alone. It says who has it and until when, which
//! token goes with it, and which moment was last done. A token is given once: a run with a higher one came later.

use std::future::{Future, poll_fn};
use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::clock::Clock;
use super::fenced::Fenced;
use super::timestamp::Timestamp;
use crate::state::{State, StoreError, StoreHandle, Version};
use crate::util::duration::show;

/// What the store knows of a schedule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ScheduleRecord {
    /// The last moment whose run has ended.
    done: Option<Timestamp>,
    /// The last token that was given.
    #[serde(default)]
    pub(super) token: u64,
    /// Which replica has the lease, if one has it.
    #[serde(default)]
    holder: Option<String>,
    /// Until when.
    #[serde(default)]
    until: Option<Timestamp>,
    /// How long its lease is, in nanoseconds, each time it renews it: of two versions of a service, one may have another.
    #[serde(default)]
    term: u64,
}

/// The store of one schedule.
pub(super) struct ScheduleStore {
    store: StoreHandle,
    state: State<ScheduleRecord>,
    lease: Option<Duration>,
    /// This schedule in this process, told from all others.
    me: Arc<str>,
}

/// What came of asking for the lease.
pub(super) enum Claim {
    /// And what was wrong with what the store had, if anything was.
    Won(LeaseGuard, Option<String>),
    /// Another replica has it until then.
    Held(Timestamp),
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

impl ScheduleStore {
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

    /// The last moment whose run has ended. Under a lease, one in the future is left for the claim to repair.
    pub(super) async fn last(&self, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        let found = self.state.load_quietly().await?.map(|found| found.value);
        let Some(lease) = self.lease else {
            return Ok(found.and_then(|record| record.done));
        };
        Ok(found.and_then(|record| record.done.filter(|done| *done <= now.plus(lease))))
    }

    /// Remembers a run that has ended, without a lease.
    pub(super) async fn note(&self, moment: Timestamp) -> Result<(), StoreError> {
        let record = ScheduleRecord {
            done: Some(moment),
            ..ScheduleRecord::default()
        };
        self.state.save(&record).await.map(drop)
    }

    pub(super) fn fenced<T>(&self, key: &str, token: u64) -> Fenced<T> {
        let lease = self.is_leased().then(|| self.state.clone());
        Fenced::new(self.store.state(key.to_owned()), lease, token)
    }

    async fn found(&self) -> Result<(Option<Version>, ScheduleRecord), StoreError> {
        Ok(match self.state.load_quietly().await? {
            Some(found) => (Some(found.version), found.value),
            None => (None, ScheduleRecord::default()),
        })
    }

    async fn replace(
        &self,
        found: Option<Version>,
        new: &ScheduleRecord,
    ) -> Result<Version, StoreError> {
        match found {
            Some(version) => self.state.compare_and_swap(version, new).await,
            None => self.state.create(new).await,
        }
    }

    /// Asks for the lease, to run this moment. Dropped half-way, it may have it: it is over by itself.
    pub(super) async fn claim(
        self: &Arc<Self>,
        clock: &Clock,
        moment: Timestamp,
    ) -> Result<Claim, StoreError> {
        let lease = self.lease.unwrap_or_default();
        loop {
            let (version, record) = self.found().await?;
            let now = clock.now();
            // Both times are by the clock of the replica that wrote them. A time that no right clock could have written is
            // not waited for.
            let mut wrong = None;
            let mut done = record.done;
            if let Some(future) = done.filter(|done| *done > now.plus(lease)) {
                wrong = Some(in_the_future("was last done", future, now));
                done = None;
            }
            if done >= Some(moment) {
                return Ok(Claim::Done);
            }
            let others = record.holder.as_ref().is_some_and(|it| **it != *self.me);
            if let Some(until) = record.until.filter(|until| others && *until > now) {
                let longest = lease.max(Duration::from_nanos(record.term)) * 2;
                if until <= now.plus(longest) {
                    return Ok(Claim::Held(until));
                }
                wrong = Some(in_the_future("is held by another replica", until, now));
            }
            let term = LeaseTerm::begin(clock, lease);
            let ours = ScheduleRecord {
                done,
                token: record.token + 1,
                holder: Some(self.me.to_string()),
                until: Some(term.until),
                term: nanos(lease),
            };
            match self.replace(version, &ours).await {
                Ok(version) => {
                    let lease_guard = LeaseGuard {
                        store: Arc::clone(self),
                        lease,
                        term: Mutex::new(term),
                        written: Mutex::new((version, ours)),
                    };
                    return Ok(Claim::Won(lease_guard, wrong));
                }
                // Another replica was faster: read what it wrote.
                Err(error) if error.is_conflict() || error.is_unknown() => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn in_the_future(what: &str, then: Timestamp, now: Timestamp) -> String {
    let ahead = show(then.since(now));
    format!(
        "the store says that it {what} at a time which is {ahead} ahead of this clock: the clock of a replica was wrong, \
         or is wrong here; the time is not believed, and this replica runs it: compare the clocks"
    )
}

/// How long a lease lasts, by two clocks. The wall clock is what other replicas go by, and may be set back; the other
/// one never goes back, and stands still while the machine sleeps. The lease is over when it is by either.
#[derive(Clone, Copy)]
struct LeaseTerm {
    until: Timestamp,
    ends: Instant,
}

impl LeaseTerm {
    /// From now on: to be called before the store is asked, whose answer may take long.
    fn begin(clock: &Clock, lease: Duration) -> Self {
        Self {
            until: clock.now().plus(lease),
            ends: Instant::now() + lease,
        }
    }

    fn is_over(&self, clock: &Clock) -> bool {
        clock.now() >= self.until || Instant::now() >= self.ends
    }
}

/// A lease in the hand.
pub(super) struct LeaseGuard {
    store: Arc<ScheduleStore>,
    lease: Duration,
    term: Mutex<LeaseTerm>,
    written: Mutex<(Version, ScheduleRecord)>,
}

impl LeaseGuard {
    fn written(&self) -> (Version, ScheduleRecord) {
        self.written
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn token(&self) -> u64 {
        self.written().1.token
    }

    fn is_over(&self, clock: &Clock) -> bool {
        let term = self.term.lock().unwrap_or_else(PoisonError::into_inner);
        term.is_over(clock)
    }

    /// Does the work while the lease lasts, and renews it meanwhile. The work is not touched once the lease is over by
    /// our own clocks, as after a pause of the whole process: only a renewal lets it go on.
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
            // The pending renewal wakes this task, whichever way it goes.
            if self.is_over(clock) {
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
            let term = LeaseTerm::begin(clock, self.lease);
            record.until = Some(term.until);
            record.term = nanos(self.lease);
            let renewing = self.store.state.compare_and_swap(version, &record);
            // A whole lease for the answer: after that it is lost.
            match tokio::time::timeout(self.lease, renewing).await {
                Ok(Ok(version)) => {
                    *self.written.lock().unwrap_or_else(PoisonError::into_inner) =
                        (version, record);
                    *self.term.lock().unwrap_or_else(PoisonError::into_inner) = term;
                    pause = self.lease / 3;
                }
                Ok(Err(error)) if error.is_conflict() || error.is_unknown() => return,
                _ if self.is_over(clock) => return,
                _ => pause = self.lease / 10,
            }
        }
    }

    /// Gives the lease back and writes down what was done, if anything was.
    ///
    /// Dropped half-way, it has happened or not; then the lease is over by itself.
    pub(super) async fn release(&self, done: Option<Timestamp>) -> Result<(), StoreError> {
        let token = self.token();
        loop {
            let (version, record) = self.store.found().await?;
            if record.token != token {
                return Err(StoreError::refused(
                    "the end of the run was not noted",
                    LOST,
                ));
            }
            let free = ScheduleRecord {
                done: done.max(record.done),
                token,
                holder: None,
                until: None,
                term: 0,
            };
            match self.store.replace(version, &free).await {
                Err(error) if error.is_conflict() || error.is_unknown() => {}
                other => return other.map(drop),
            }
        }
    }
}
