//! The store as a program holds it: shared, patient, and inside the budget of the stop.

use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};

use super::contract::{Entry, Expected, Record, Store, StoreFuture, Version};
use super::error::StoreError;
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
}

impl StoreHandle {
    /// A handle outside of any service: whoever makes it closes it. In `setup`, use
    /// [`App::store`](crate::App::store).
    pub fn new(store: impl Store) -> Self {
        Self::build(Box::new(store), None)
    }

    pub(crate) fn within(store: impl Store, stop: Stop) -> Self {
        Self::build(Box::new(store), Some(stop))
    }

    fn build(store: Box<dyn Store>, stop: Option<Stop>) -> Self {
        let inner = Arc::new(Inner { store, stop });
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
        self.inner.store.close().await
    }

    pub(super) async fn load(&self, key: &str) -> Result<Option<Record>, StoreError> {
        self.persist(|| self.inner.store.load(key)).await
    }

    /// Dropped half-way, the old entry or the new one is there.
    pub(super) async fn save(
        &self,
        key: &str,
        expected: Expected,
        mut entry: Entry,
    ) -> Result<Version, StoreError> {
        entry.stamp = RandomState::new().hash_one(&entry.value);
        let saving = self.try_to_save(key, expected, &entry);
        match &self.inner.stop {
            Some(stop) => stop.shield(saving).await,
            None => saving.await,
        }
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
            Err(error) if error.is_conflict() && tries > 1 => match self.load(key).await {
                Ok(Some(found)) if found.entry.stamp == entry.stamp => Ok(found.version),
                _ => Err(error),
            },
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
            let end = now + left.saturating_sub(LAST_WORDS.min(left / 4));
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

/// How long something may be tried.
struct Time {
    /// While the service runs.
    patience: Instant,
    /// When the drain is over; set by the first who notices.
    last: Option<Instant>,
}

impl fmt::Debug for StoreHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreHandle").finish_non_exhaustive()
    }
}
