//! The store as a program holds it: shared, patient, and inside the budget of the stop.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use adieu_core::{Entry, Expected, Record, Store, StoreError, StoreFuture, Version};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::error;
use super::fallback::{Fallback, PendingSave};
use super::file::FileStore;
use super::unanswered::UnansweredSaves;
use super::value::State;
use crate::runtime::stop::Stop;
use crate::util::retry::jitter;

/// How long a store that does not answer is tried while the service runs.
const RETRY_FOR: Duration = Duration::from_secs(30);
/// The pause before the second try; it doubles up to the longest.
const FIRST_RETRY_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_RETRY_PAUSE: Duration = Duration::from_secs(5);
/// Kept back from the drain, to say what was lost before the task is cut.
const ERROR_MARGIN: Duration = Duration::from_millis(200);
/// Kept back from the drain to write the fallback file: a busy disk may take this long.
const FALLBACK_MARGIN: Duration = Duration::from_secs(2);
/// For those who come when the drain is over already.
const AFTER_DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

/// A store that was opened. Cheap to clone; [`StoreHandle::state`] gives typed access to one key.
///
/// A store that does not answer is asked again, with growing pauses, for half a minute; while the service
/// stops, for as long as the drain lasts.
#[derive(Clone)]
pub struct StoreHandle {
    inner: Arc<HandleInner>,
}

struct HandleInner {
    store: Box<dyn Store>,
    stop: Option<Stop>,
    fallback: Option<Fallback>,
    /// What we know of each key.
    known: Mutex<HashMap<String, KeyState>>,
    closed: AtomicBool,
}

/// What is known of a key: the last answer of the store, and what was not answered since.
#[derive(Default)]
struct KeyState {
    /// What the last answer said was there; unknown before the first.
    last: Option<Expected>,
    unanswered: UnansweredSaves,
}

/// Who saves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// The only one who does: what it saves last may wait in a file until the store is back.
    Exclusive,
    /// One of several, for whom only the store's answer counts.
    Shared,
}

impl StoreHandle {
    /// A handle outside of any service: the caller closes it. In `setup`, use
    /// [`App::store`](crate::App::store).
    pub fn new(store: impl Store) -> Self {
        Self::build(Box::new(store), None, None)
    }

    pub(crate) fn within(store: impl Store, stop: Stop, fallback: Option<FileStore>) -> Self {
        Self::build(Box::new(store), Some(stop), fallback.map(Fallback::new))
    }

    fn build(store: Box<dyn Store>, stop: Option<Stop>, fallback: Option<Fallback>) -> Self {
        let inner = Arc::new(HandleInner {
            store,
            stop,
            fallback,
            known: Mutex::default(),
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

    /// Writes a line to the log that names the key: in a service beside the work, which does not wait for it.
    pub(super) fn log(&self, key: &str, write: impl FnOnce(&str) + Send + 'static) {
        match &self.inner.stop {
            Some(stop) => {
                let key = key.to_owned();
                stop.core.log_deferred(move || write(&key));
            }
            None => write(key),
        }
    }

    fn check_open(&self) -> Result<(), StoreError> {
        match self.inner.closed.load(Ordering::Acquire) {
            true => Err(error::closed()),
            false => Ok(()),
        }
    }

    pub(super) async fn load(&self, key: &str) -> Result<Option<Record>, StoreError> {
        self.check_open()?;
        let mut found = self
            .retry_while_unavailable(|| self.inner.store.load(key))
            .await?;
        if let Some(fallback) = &self.inner.fallback
            && let Some(pending) = fallback.pending(key).await?
        {
            found = self.restore_fallback(key, found, fallback, pending).await?;
        }
        let version = found.as_ref().map(|found| found.version);
        self.update_key(key, |known| known.last = Some(expected_version(version)));
        Ok(found)
    }

    /// Gives the store what is in the fallback file, unless another process has saved meanwhile. Dropped half-way, the next
    /// load does it.
    async fn restore_fallback(
        &self,
        key: &str,
        found: Option<Record>,
        fallback: &Fallback,
        pending: PendingSave,
    ) -> Result<Option<Record>, StoreError> {
        let expected = pending.expected(found.as_ref());
        let saved = self.try_to_save(key, expected, &pending.entry).await;
        let found = match saved {
            Ok(version) => {
                self.log(key, |key| {
                    tracing::info!(
                        key,
                        "what was kept in the fallback file is in the store now"
                    );
                });
                let entry = pending.entry.clone();
                Some(Record::new(version, entry))
            }
            Err(error) if error.is_conflict() || error.is_unknown() => {
                self.log(key, move |key| {
                    tracing::warn!(
                        key,
                        "what was kept in the fallback file is not used: the store has something newer ({error})"
                    );
                });
                self.retry_while_unavailable(|| self.inner.store.load(key))
                    .await?
            }
            Err(error) => return Err(error),
        };
        fallback.mark_settled(key, pending).await?;
        Ok(found)
    }

    fn update_key<T>(&self, key: &str, change: impl FnOnce(&mut KeyState) -> T) -> T {
        let known = &self.inner.known;
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        match known.get_mut(key) {
            Some(known) => change(known),
            None => change(known.entry(key.to_owned()).or_default()),
        }
    }

    /// Dropped half-way, the old entry or the new one is there.
    pub(super) async fn save(
        &self,
        key: &str,
        expected: Expected,
        entry: Entry,
        ownership: Ownership,
    ) -> Result<Version, StoreError> {
        self.check_open()?;
        let saving = async {
            // Before the call: it may be dropped from here on.
            self.update_key(key, |known| known.unanswered.begin(entry.stamp));
            let saved = match expected {
                Expected::Any => self.replace(key, &entry).await,
                expected => self.try_to_save(key, expected, &entry).await,
            };
            match (saved, &self.inner.fallback) {
                (Ok(version), _) => {
                    self.update_key(key, |known| {
                        known.last = Some(Expected::Version(version));
                        known.unanswered.clear();
                    });
                    // A worker may save thousands of times a second, and a line wakes the log.
                    if tracing::enabled!(tracing::Level::DEBUG) {
                        let (format, bytes) = (entry.format, entry.value.len());
                        self.log(key, move |key| {
                            tracing::debug!(key, version = version.0, format, bytes, "state saved");
                        });
                    }
                    Ok(version)
                }
                (Err(error), Some(fallback))
                    if error.is_unavailable()
                        && ownership == Ownership::Exclusive
                        && self.is_stopping() =>
                {
                    self.fall_back(key, expected, &entry, fallback, &error)
                        .await
                }
                (Err(error), _) => Err(error),
            }
        };
        match &self.inner.stop {
            Some(stop) => stop.shield(saving).await,
            None => saving.await,
        }
    }

    /// Saves whatever is there, but only in the place of what was there: a try that was given up cannot arrive after a
    /// later save, because that one has changed the version.
    async fn replace(&self, key: &str, entry: &Entry) -> Result<Version, StoreError> {
        let mut last = self.update_key(key, |known| known.last);
        loop {
            let expected = match last {
                Some(expected) => expected,
                None => {
                    let found = self
                        .retry_while_unavailable(|| self.inner.store.load(key))
                        .await;
                    let found = found.map_err(|error| error.not_saved(key))?;
                    let expected = expected_version(found.map(|found| found.version));
                    self.update_key(key, |known| known.last = Some(expected));
                    expected
                }
            };
            match self.try_to_save(key, expected, entry).await {
                // Another process has saved meanwhile, or an earlier save of our own has arrived: it is replaced.
                Err(error) if error.is_conflict() || error.is_unknown() => last = None,
                saved => return saved,
            }
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
        let (last, unanswered) =
            self.update_key(key, |known| (known.last, known.unanswered.clone()));
        let after = match expected {
            Expected::Any => last.unwrap_or(Expected::Absent),
            expected => expected,
        };
        let after = match after {
            Expected::Version(version) => Some(version),
            Expected::Absent | Expected::Any => None,
        };
        fallback
            .write_pending(key, after, unanswered, entry)
            .await?;
        let why = why.to_string();
        self.log(key, move |key| {
            tracing::warn!(
                key,
                "{why}; it is kept in the fallback file, and handed in at the next start"
            );
        });
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
            .retry_while_unavailable(|| {
                tries += 1;
                self.inner.store.save(key, expected, entry)
            })
            .await;
        match saved {
            // Not the first try: an earlier one may have arrived, and only its answer was lost. If something else is there
            // now, that may have come before it or after it.
            Err(error) if error.is_conflict() && tries > 1 => {
                match self
                    .retry_while_unavailable(|| self.inner.store.load(key))
                    .await
                {
                    Ok(Some(found)) if found.entry.stamp == entry.stamp => Ok(found.version),
                    _ => Err(StoreError::unknown(key, error)),
                }
            }
            Err(error) if error.is_unavailable() => Err(error.not_saved(key)),
            saved => saved,
        }
    }

    /// Tries until there is an answer, or no time left. Dropping it drops the try in progress.
    async fn retry_while_unavailable<'a, T, F>(&'a self, mut attempt: F) -> Result<T, StoreError>
    where
        F: FnMut() -> StoreFuture<'a, T>,
    {
        let begun = Instant::now();
        let mut time = RetryDeadlines {
            while_running: begun + RETRY_FOR,
            reserve: None,
            after_drain: None,
        };
        let (mut pause, mut tries) = (FIRST_RETRY_PAUSE, 0_u32);
        let mut why: Option<StoreError> = None;
        loop {
            tries += 1;
            match self.within_deadline(&mut time, attempt()).await {
                Some(Err(error)) if error.is_unavailable() => why = Some(error),
                Some(answer) => return answer,
                None => break,
            }
            let wake = Instant::now() + pause.mul_f64(1.0 - jitter() / 2.0);
            // No time is left for another try: what it would find is known.
            if self
                .within_deadline(&mut time, sleep_until(wake))
                .await
                .is_none()
            {
                break;
            }
            pause = (pause * 2).min(LONGEST_RETRY_PAUSE);
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
    async fn within_deadline<F: Future>(
        &self,
        time: &mut RetryDeadlines,
        future: F,
    ) -> Option<F::Output> {
        let mut future = pin!(future);
        let Some(stop) = &self.inner.stop else {
            return timeout_at(time.while_running, future).await.ok();
        };
        // Each wait that is given up leaves the future as it is, for the next one.
        if let Some(ended) = stop
            .until(timeout_at(time.while_running, future.as_mut()))
            .await
        {
            return ended.ok();
        }
        let now = Instant::now();
        let left = stop
            .deadline()
            .and_then(|end| end.checked_duration_since(now));
        if let Some(left) = left.filter(|_| time.after_drain.is_none()) {
            // Once for all tries: half of what is left each time would soon be nothing.
            let reserve = *time.reserve.get_or_insert(match self.inner.fallback {
                Some(_) => FALLBACK_MARGIN.min(left / 2),
                None => ERROR_MARGIN.min(left / 4),
            });
            let end = now + left.saturating_sub(reserve);
            let waited = timeout_at(end.min(time.while_running), future.as_mut());
            if let Some(ended) = stop.until_cancelled(waited).await {
                return ended.ok();
            }
        }
        let end = *time
            .after_drain
            .get_or_insert_with(|| Instant::now() + AFTER_DRAIN_TIMEOUT);
        timeout_at(end, future).await.ok()
    }
}

/// A new stamp: unlike that of any other save, and never 0. The hasher's keys are random and differ each time.
pub(super) fn stamp() -> u64 {
    RandomState::new().hash_one(0).max(1)
}

pub(super) fn expected_version(found: Option<Version>) -> Expected {
    found.map_or(Expected::Absent, Expected::Version)
}

/// How long something may be tried.
struct RetryDeadlines {
    /// While the service runs.
    while_running: Instant,
    /// How much of the drain is for what comes after the tries; settled by the first of them in a stop.
    reserve: Option<Duration>,
    /// When the drain is over; set by the first who notices.
    after_drain: Option<Instant>,
}

impl fmt::Debug for StoreHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreHandle").finish_non_exhaustive()
    }
}
