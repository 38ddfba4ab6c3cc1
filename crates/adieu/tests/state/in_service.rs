//! A store as a part of a service: opened in order, closed after the tasks that save into it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use adieu::report::Outcome;
use adieu::state::{Entry, Expected, FileStore, Record, Store, StoreError, StoreFuture, Version};
use adieu::{App, BoxError};
use tempfile::TempDir;

use crate::conformance::{Cursor, cursor};

#[tokio::test]
async fn what_a_task_saves_last_is_kept() -> Result<(), BoxError> {
    let folder = TempDir::new()?;
    for life in 1..=3 {
        let path = folder.path().to_owned();
        let report = adieu::scope("counter")
            .run(async |app: &mut App| {
                let store = app.store(FileStore::open(path)).await?;
                let state = store.state::<Cursor>("lives");
                let found = state.load().await?.map_or(0, |found| found.value.last_id);
                assert_eq!(found, life - 1);
                app.task("saver", move |stop| async move {
                    stop.requested().await;
                    state.save(&cursor(found + 1)).await.map(drop)
                });
                app.shutdown_handle().stop("enough");
                Ok(())
            })
            .await;
        assert_eq!(report.exit_code(), 0, "{report}");
        let store = report.part("store").expect("it is a part");
        assert_eq!(store.outcome, Outcome::Closed);
    }
    Ok(())
}

#[tokio::test]
async fn a_folder_in_use_ends_the_start() -> Result<(), BoxError> {
    let folder = TempDir::new()?;
    let _first = FileStore::open(folder.path()).await?;
    let path = folder.path().to_owned();
    let report = adieu::scope("second")
        .run(async |app: &mut App| {
            app.store(FileStore::open(path)).await?;
            app.shutdown_handle().stop("it should not have opened");
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 1, "{report}");
    assert!(
        report.to_string().contains("is in use by this process"),
        "{report}"
    );
    Ok(())
}

/// A store on a server that comes and goes.
#[derive(Clone, Default)]
struct Flaky {
    gone: Arc<AtomicBool>,
    tries: Arc<AtomicU32>,
    /// Takes the save, and loses the answer.
    deaf: Arc<AtomicBool>,
    kept: Arc<std::sync::Mutex<Option<Record>>>,
}

impl Store for Flaky {
    fn load<'a>(&'a self, _: &'a str) -> StoreFuture<'a, Option<Record>> {
        Box::pin(async { Ok(self.kept.lock().expect("not poisoned").clone()) })
    }

    fn save<'a>(
        &'a self,
        key: &'a str,
        expected: Expected,
        entry: &'a Entry,
    ) -> StoreFuture<'a, Version> {
        Box::pin(async move {
            self.tries.fetch_add(1, Ordering::Relaxed);
            if self.gone.load(Ordering::Relaxed) {
                return Err(StoreError::unavailable(
                    "the test's server",
                    "connection refused",
                ));
            }
            let mut kept = self.kept.lock().expect("not poisoned");
            let found = kept.as_ref().map(|record| record.version);
            if !expected.matches(found) {
                return Err(StoreError::conflict(key, expected, found));
            }
            let version = Version(found.map_or(1, |version| version.0 + 1));
            let entry = entry.clone();
            *kept = Some(Record::new(version, entry));
            if self.deaf.swap(false, Ordering::Relaxed) {
                return Err(StoreError::unavailable(
                    "the test's server",
                    "connection reset",
                ));
            }
            Ok(version)
        })
    }
}

async fn opened<S>(store: S) -> Result<S, StoreError> {
    Ok(store)
}

#[tokio::test(start_paused = true)]
async fn a_store_that_comes_back_is_waited_for() -> Result<(), BoxError> {
    let flaky = Flaky::default();
    flaky.gone.store(true, Ordering::Relaxed);
    let theirs = flaky.clone();
    let report = adieu::scope("patient")
        .run(async |app: &mut App| {
            let store = app.store(opened(theirs)).await?;
            app.task("saver", move |_| async move {
                store.state("k").save(&cursor(1)).await.map(drop)
            });
            app.task("server", move |_| async move {
                tokio::time::sleep(Duration::from_secs(20)).await;
                flaky.gone.store(false, Ordering::Relaxed);
                let tries = flaky.tries.load(Ordering::Relaxed);
                assert!((5..=30).contains(&tries), "{tries} tries in 20 s");
            });
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_store_that_stays_away_does_not_hold_the_stop() -> Result<(), BoxError> {
    let flaky = Flaky::default();
    flaky.gone.store(true, Ordering::Relaxed);
    let report = adieu::scope("patient")
        .grace(Duration::from_secs(10))
        .run(async |app: &mut App| {
            let store = app.store(opened(flaky)).await?;
            app.shutdown_handle().stop("enough");
            app.task("saver", move |stop| async move {
                stop.requested().await;
                store.state("cursor").save(&cursor(1)).await.map(drop)
            });
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 1, "{report}");
    let saver = report.part("saver").expect("a part");
    assert_eq!(
        saver.outcome,
        Outcome::Failed,
        "said before it would have been cut"
    );
    let failure = saver.failure.as_ref().expect("why").to_string();
    assert!(failure.contains("`cursor` was not saved"), "{failure}");
    assert!(
        failure.contains("the test's server is not available: connection refused"),
        "{failure}"
    );
    assert!(report.took() < Duration::from_secs(10), "{report}");
    Ok(())
}

/// Of the drain, seven seconds here, two are the disk's.
#[tokio::test(start_paused = true)]
async fn a_fallback_has_time_for_a_busy_disk() -> Result<(), BoxError> {
    let folder = tempfile::TempDir::new()?;
    let path = folder.path().to_owned();
    let flaky = Flaky::default();
    flaky.gone.store(true, Ordering::Relaxed);
    let report = adieu::scope("patient")
        .grace(Duration::from_secs(10))
        .run(async |app: &mut App| {
            let store = app.store(opened(flaky)).fallback(path).await?;
            app.shutdown_handle().stop("enough");
            app.task("saver", move |stop| async move {
                stop.requested().await;
                store.state("cursor").save(&cursor(1)).await.map(drop)
            });
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
    assert!(report.took() <= Duration::from_millis(5_100), "{report}");
    assert!(report.took() >= Duration::from_secs(3), "{report}");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_save_whose_answer_was_lost_is_recognised() -> Result<(), BoxError> {
    let flaky = Flaky::default();
    let store = adieu::state::StoreHandle::new(flaky.clone());
    let state = store.state::<Cursor>("k");
    let first = state.create(&cursor(1)).await?;
    flaky.deaf.store(true, Ordering::Relaxed);
    let second = state.compare_and_swap(first, &cursor(2)).await?;
    assert_eq!(
        state
            .load()
            .await?
            .map(|found| (found.version, found.value)),
        Some((second, cursor(2)))
    );
    assert_eq!(flaky.tries.load(Ordering::Relaxed), 3);
    Ok(())
}
