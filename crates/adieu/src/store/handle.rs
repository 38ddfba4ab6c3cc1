//! The store as a program holds it: shared, patient, and inside the budget of the stop.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};

use super::contract::{Entry, Expected, Record, Store, StoreFuture, Version};
use super::error::{Kind, StoreError};
use super::fallback::{Fallback, Unsaved};
use super::file::FileStore;
use super::state::State;
use crate::retry::jitter;
use crate::stop::Stop;

/// How long a store that does not answer is tried while the service runs.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pause before the second try; it doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Kept back from the drain, to say what was lost before the task is cut.
const LAST_WORDS: Duration = Duration::from_millis(200);
/// The same, to write the fallback file: a busy disk may take this long.
const LAST_RESORT: Duration = Duration::from_secs(2);
/// For those who come when the drain is over already.
const AFTER_THE_DRAIN: Duration = Duration::from_millis(500);

/// A store that was opened. Cheap to clone; [`StoreHandle::state`] gives typed access to one key.
///
/// A store that does not answer is asked again, with growing pauses, for half a minute; while the service
/// stops, for as long as the drain lasts.
#[derive(Clone)]
pub struct StoreHandle {
    inner: Arc<Inner>,
}

struct Inner {
    store: Box<dyn Store>,
    stop: Option<Stop>,
    fallback: Option<Fallback>,
    /// The last version of each key that we know of; only kept for the fallback.
    seen: Mutex<HashMap<String, Version>>,
    closed: AtomicBool,
}

/// Who saves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Saver {
    /// The only one who does: what it saves last may wait in a file until the store is back.
    Owner,
    /// One of several, for whom only the store's answer counts.
    Rival,
}

impl StoreHandle {
    /// A handle outside of any service: whoever makes it closes it. In `setup`, use
    /// [`App::store`](crate::App::store).
    pub fn new(store: impl Store) -> Self {
        Self::build(Box::new(store), None, None)
    }

    pub(crate) fn within(store: impl Store, stop: Stop, fallback: Option<FileStore>) -> Self {
        Self::build(Box::new(store), Some(stop), fallback.map(Fallback::new))
    }

    fn build(store: Box<dyn Store>, stop: Option<Stop>, fallback: Option<Fallback>) -> Self {
        let inner = Arc::new(Inner {
            store,
            stop,
            fallback,
            seen: Mutex::default(),
            closed: AtomicBool::new(false),
        });
        Self { inner }
    }

    /// The state under this key.
    #[must_use]
    pub fn state<T>(&self, key: impl Into<Arc<str>>) -> State<T> {
        State::new(self.clone(), key.into())
    }

    /// Closes the store: waits for saves that were begun. After it, everything is an error. What
    /// [`App::store`](crate::App::store) opened is closed by the service.
    ///
    /// Dropped half-way, the store counts as closed already.
    ///
    /// # Errors
    /// What was to be written last could not be.
    pub async fn close(&self) -> Result<(), StoreError> {
        self.inner.closed.store(true, Ordering::Release);
        let closed = self.inner.store.close().await;
        if let Some(fallback) = &self.inner.fallback {
            fallback.close().await?;
        }
        closed
    }

    fn check_open(&self) -> Result<(), StoreError> {
        match self.inner.closed.load(Ordering::Acquire) {
            true => Err(StoreError::new(Kind::Closed)),
            false => Ok(()),
        }
    }

    pub(super) async fn load(&self, key: &str) -> Result<Option<Record>, StoreError> {
        self.check_open()?;
        let found = self.persist(|| self.inner.store.load(key)).await?;
        let Some(fallback) = &self.inner.fallback else {
            return Ok(found);
        };
        let found = match fallback.unsaved(key).await? {
            Some(unsaved) => self.hand_in(key, found, fallback, unsaved).await?,
            None => found,
        };
        if let Some(found) = &found {
            self.see(key, found.version);
        }
        Ok(found)
    }

    /// Gives the store what it has missed, unless somebody else has worked on meanwhile. Dropped half-way, the next
    /// load does it.
    async fn hand_in(
        &self,
        key: &str,
        found: Option<Record>,
        fallback: &Fallback,
        unsaved: Unsaved,
    ) -> Result<Option<Record>, StoreError> {
        let mut entry = unsaved.entry.clone();
        entry.stamp = stamp();
        let saved = self.try_to_save(key, unsaved.expected, &entry).await;
        let found = match saved {
            Ok(version) => {
                tracing::info!(
                    key,
                    "what was kept in the fallback file is in the store now"
                );
                Some(Record { version, entry })
            }
            Err(error) if error.is_conflict() => {
                tracing::warn!(
                    key,
                    "what was kept in the fallback file is not used: the store has something newer ({error})"
                );
                found
            }
            Err(error) => return Err(error),
        };
        fallback.settle(key, unsaved).await?;
        Ok(found)
    }

    fn see(&self, key: &str, version: Version) {
        let mut seen = self
            .inner
            .seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match seen.get_mut(key) {
            Some(last) => *last = version,
            None => drop(seen.insert(key.to_owned(), version)),
        }
    }

    /// Dropped half-way, the old entry or the new one is there.
    pub(super) async fn save(
        &self,
        key: &str,
        expected: Expected,
        mut entry: Entry,
        saver: Saver,
    ) -> Result<Version, StoreError> {
        self.check_open()?;
        entry.stamp = stamp();
        let saving = async {
            let saved = self.try_to_save(key, expected, &entry).await;
            match (&saved, &self.inner.fallback) {
                (Ok(version), Some(_)) => self.see(key, *version),
                (Err(error), Some(fallback))
                    if error.is_unavailable() && saver == Saver::Owner && self.is_stopping() =>
                {
                    return self.fall_back(key, expected, &entry, fallback, error).await;
                }
                _ => {}
            }
            saved
        };
        match &self.inner.stop {
            Some(stop) => stop.shield(saving).await,
            None => saving.await,
        }
    }

    fn is_stopping(&self) -> bool {
        self.inner.stop.as_ref().is_some_and(Stop::is_requested)
    }

    /// The version that the store has, as far as we know, stays what it is: 0 for none.
    async fn fall_back(
        &self,
        key: &str,
        expected: Expected,
        entry: &Entry,
        fallback: &Fallback,
        why: &StoreError,
    ) -> Result<Version, StoreError> {
        let after = match expected {
            Expected::Version(version) => Some(version),
            Expected::Absent => None,
            Expected::Any => {
                let seen = self
                    .inner
                    .seen
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                seen.get(key).copied()
            }
        };
        fallback.keep(key, after, entry).await?;
        tracing::warn!(
            key,
            "{why}; it is kept in the fallback file, and handed in at the next start"
        );
        Ok(after.unwrap_or(Version(0)))
    }

    async fn try_to_save(
        &self,
        key: &str,
        expected: Expected,
        entry: &Entry,
    ) -> Result<Version, StoreError> {
        let mut tries = 0_u32;
        let saved = self
            .persist(|| {
                tries += 1;
                self.inner.store.save(key, expected, entry)
            })
            .await;
        match saved {
            // Not the first try: an earlier one may have arrived, and only its answer was lost.
            Err(error) if error.is_conflict() && tries > 1 => {
                match self.persist(|| self.inner.store.load(key)).await {
                    Ok(Some(found)) if found.entry.stamp == entry.stamp => Ok(found.version),
                    _ => Err(error),
                }
            }
            Err(error) if error.is_unavailable() => Err(error.not_saved(key)),
            saved => saved,
        }
    }

    /// Tries until there is an answer, or no time left. Dropping it drops the try in progress.
    async fn persist<'a, T, F>(&'a self, mut attempt: F) -> Result<T, StoreError>
    where
        F: FnMut() -> StoreFuture<'a, T>,
    {
        let begun = Instant::now();
        let mut time = Time {
            patience: begun + PATIENCE,
            kept_back: None,
            last: None,
        };
        let (mut pause, mut tries) = (FIRST_PAUSE, 0_u32);
        let mut why: Option<StoreError> = None;
        loop {
            tries += 1;
            match self.in_time(&mut time, attempt()).await {
                Some(Err(error)) if error.is_unavailable() => why = Some(error),
                Some(answer) => return answer,
                None => break,
            }
            let wake = Instant::now() + pause.mul_f64(1.0 - jitter() / 2.0);
            // No time is left for another try: what it would find is known.
            if self.in_time(&mut time, sleep_until(wake)).await.is_none() {
                break;
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        let took = begun.elapsed().as_secs_f32();
        Err(match why {
            Some(why) => {
                StoreError::unavailable(format!("the store ({tries} tries in {took:.1} s)"), why)
            }
            None => StoreError::unavailable("the store", format!("no answer in {took:.1} s")),
        })
    }

    /// Waits for something as long as there is time, which the stop may shorten meanwhile.
    async fn in_time<F: Future>(&self, time: &mut Time, future: F) -> Option<F::Output> {
        let mut future = pin!(future);
        let Some(stop) = &self.inner.stop else {
            return timeout_at(time.patience, future).await.ok();
        };
        // Each wait that is given up leaves the future as it is, for the next one.
        if let Some(ended) = stop.until(timeout_at(time.patience, future.as_mut())).await {
            return ended.ok();
        }
        let now = Instant::now();
        let left = stop
            .deadline()
            .and_then(|end| end.checked_duration_since(now));
        if let Some(left) = left.filter(|_| time.last.is_none()) {
            // Once for all tries: half of what is left each time would soon be nothing.
            let kept_back = *time.kept_back.get_or_insert(match self.inner.fallback {
                Some(_) => LAST_RESORT.min(left / 2),
                None => LAST_WORDS.min(left / 4),
            });
            let end = now + left.saturating_sub(kept_back);
            let waited = timeout_at(end.min(time.patience), future.as_mut());
            if let Some(ended) = stop.until_cancelled(waited).await {
                return ended.ok();
            }
        }
        let last = *time
            .last
            .get_or_insert_with(|| Instant::now() + AFTER_THE_DRAIN);
        timeout_at(last, future).await.ok()
    }
}

/// No two saves have the same. The hasher's keys are random and differ each time.
fn stamp() -> u64 {
    RandomState::new().hash_one(0)
}

/// How long something may be tried.
struct Time {
    /// While the service runs.
    patience: Instant,
    /// How much of the drain is for what comes after the tries; settled by the first of them in a stop.
    kept_back: Option<Duration>,
    /// When the drain is over; set by the first who notices.
    last: Option<Instant>,
}

impl fmt::Debug for StoreHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreHandle").finish_non_exhaustive()
    }
}
