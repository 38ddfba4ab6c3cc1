//! Workers: stopped at the marked place only, with everything that is done saved before the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use adieu::report::Outcome;
use adieu::state::{Checkpoint, FileStore, StoreHandle, Worker};
use adieu::{App, BoxError, Restart};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

/// What is in the directory when everything is over.
async fn kept(folder: &TempDir) -> Result<Option<u64>, BoxError> {
    let store = StoreHandle::new(FileStore::open(folder.path()).await?);
    let found = store.state::<u64>("importer").load().await?;
    store.close().await?;
    Ok(found.map(|found| found.value))
}

async fn count(mut worker: Worker<u64>, step: Duration) -> adieu::Result {
    let mut last = worker.resume().await?.unwrap_or(0);
    while let Some(next) = worker.until_stop(async { last + 1 }).await {
        sleep(step).await;
        last = next;
        worker.checkpoint(&last).await?;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_step_in_progress_is_finished() -> Result<(), BoxError> {
    let folder = TempDir::new()?;
    for life in 1..=3 {
        let path = folder.path().to_owned();
        let report = adieu::scope("steps")
            .grace(Duration::from_secs(20))
            .run(async |app: &mut App| {
                let store = app.store(FileStore::open(path)).await?;
                app.worker("importer", store, |worker| {
                    count(worker, Duration::from_secs(2))
                });
                let shutdown = app.shutdown_handle();
                app.task("clock", move |_| async move {
                    sleep(Duration::from_secs(3)).await; // in the middle of the second step
                    shutdown.stop("enough");
                });
                Ok(())
            })
            .await;
        assert_eq!(report.exit_code(), 0, "{report}");
        let worker = report.part("importer").expect("a part");
        assert_eq!(worker.kind.name(), "worker");
        assert_eq!(worker.outcome, Outcome::Finished);
        assert_eq!(kept(&folder).await?, Some(2 * life));
    }
    Ok(())
}

/// The drain is over, and still the step is not cut: the shield holds through the cancel phase.
#[tokio::test(start_paused = true)]
async fn nothing_but_the_end_cuts_a_step() -> Result<(), BoxError> {
    for (step, outcome, done) in [
        (8_500, Outcome::Finished, Some(1)),
        (60_000, Outcome::Abandoned, None),
    ] {
        let folder = TempDir::new()?;
        let path = folder.path().to_owned();
        let report = adieu::scope("steps")
            .grace(Duration::from_secs(10)) // 7 s for the drain, one for the cancel
            .run(async |app: &mut App| {
                let store = app.store(FileStore::open(path)).await?;
                app.worker("importer", store, move |worker| {
                    count(worker, Duration::from_millis(step))
                });
                let shutdown = app.shutdown_handle();
                app.task("clock", move |_| async move {
                    sleep(Duration::from_secs(1)).await;
                    shutdown.stop("enough");
                });
                Ok(())
            })
            .await;
        let worker = report.part("importer").expect("a part");
        assert_eq!(worker.outcome, outcome, "{report}");
        assert_eq!(kept(&folder).await?, done);
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn put_off_by_count_it_is_saved_on_the_way_out() -> Result<(), BoxError> {
    let folder = TempDir::new()?;
    let path = folder.path().to_owned();
    let report = adieu::scope("steps")
        .run(async |app: &mut App| {
            let store = app.store(FileStore::open(path)).await?;
            let look = store.state::<u64>("importer");
            app.worker("importer", store, move |mut worker: Worker<u64>| {
                let look = look.clone();
                async move {
                    for step in 1..=25 {
                        let saved = worker.checkpoint(&step).await?;
                        let expected = if step % 10 == 0 {
                            Checkpoint::Saved
                        } else {
                            Checkpoint::PutOff
                        };
                        assert_eq!(saved, expected);
                    }
                    let saved = look.load().await?.expect("two batches were saved");
                    assert_eq!((saved.value, saved.version.0), (20, 2));
                    // What was reported is done, whatever came after.
                    Err::<(), BoxError>("the source is gone".into())
                }
            })
            .every(10)
            .report_only();
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 1, "{report}");
    assert!(
        report.to_string().contains("the source is gone"),
        "{report}"
    );
    assert_eq!(kept(&folder).await?, Some(25));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn put_off_by_time_it_is_saved_while_it_waits() -> Result<(), BoxError> {
    let folder = TempDir::new()?;
    let path = folder.path().to_owned();
    let report = adieu::scope("steps")
        .run(async |app: &mut App| {
            let store = app.store(FileStore::open(path)).await?;
            let look = store.state::<u64>("importer");
            let shutdown = app.shutdown_handle();
            app.worker("importer", store, move |mut worker: Worker<u64>| {
                let (look, shutdown) = (look.clone(), shutdown.clone());
                async move {
                    for step in 1..=3 {
                        assert_eq!(worker.checkpoint(&step).await?, Checkpoint::PutOff);
                    }
                    let begun = Instant::now();
                    let fetched = worker
                        .until_stop(async {
                            sleep(Duration::from_secs(4)).await;
                            assert!(look.load().await?.is_none(), "not due yet");
                            sleep(Duration::from_secs(2)).await;
                            assert_eq!(look.load().await?.map(|found| found.value), Some(3));
                            sleep(Duration::from_secs(60)).await;
                            Ok::<_, BoxError>("fetched")
                        })
                        .await;
                    assert_eq!(fetched.expect("no stop yet")?, "fetched");
                    assert_eq!(
                        begun.elapsed().as_secs(),
                        66,
                        "the save has not disturbed the fetch"
                    );
                    let _ = worker.checkpoint(&4).await?;
                    shutdown.stop("enough");
                    assert!(
                        worker
                            .until_stop(std::future::pending::<()>())
                            .await
                            .is_none()
                    );
                    Ok::<(), BoxError>(())
                }
            })
            .within(Duration::from_secs(5));
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
    assert_eq!(kept(&folder).await?, Some(4));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn started_again_it_goes_on_where_it_was() -> Result<(), BoxError> {
    let folder = TempDir::new()?;
    let path = folder.path().to_owned();
    let (resumed, ran) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (theirs, done) = (Arc::clone(&resumed), Arc::clone(&ran));
    let report = adieu::scope("steps")
        .run(async |app: &mut App| {
            let store = app.store(FileStore::open(path)).await?;
            app.worker("importer", store, move |mut worker: Worker<u64>| {
                let (resumed, ran) = (Arc::clone(&theirs), Arc::clone(&done));
                async move {
                    let last = worker.resume().await?.unwrap_or(0);
                    assert_eq!(last, resumed.load(Ordering::Relaxed));
                    let _ = worker.checkpoint(&(last + 1)).await?;
                    resumed.store(last + 1, Ordering::Relaxed);
                    match ran.fetch_add(1, Ordering::Relaxed) {
                        0 => panic!("by accident"),
                        1 | 2 => Err::<(), BoxError>("not yet".into()),
                        _ => Ok(()),
                    }
                }
            })
            .restart(Restart::default());
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
    assert_eq!(report.part("importer").expect("a part").restarts, 3);
    assert_eq!(kept(&folder).await?, Some(4));
    Ok(())
}

#[tokio::test]
async fn two_workers_with_one_cursor_do_not_mix() -> Result<(), BoxError> {
    let folder = TempDir::new()?;
    let path = folder.path().to_owned();
    let report = adieu::scope("steps")
        .run(async |app: &mut App| {
            let store = app.store(FileStore::open(path)).await?;
            let other = store.state::<u64>("importer");
            app.worker("importer", store, move |mut worker: Worker<u64>| {
                let other = other.clone();
                async move {
                    worker.resume().await?;
                    let _ = worker.checkpoint(&1).await?;
                    other.save(&100).await?; // as a replica would that believes it is alone
                    let error = worker
                        .checkpoint(&2)
                        .await
                        .expect_err("it is not ours any more");
                    assert!(error.is_conflict(), "{error}");
                    Err::<(), BoxError>(error.into())
                }
            });
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 1, "{report}");
    assert!(
        report.to_string().contains("saved by another writer"),
        "{report}"
    );
    assert_eq!(kept(&folder).await?, Some(100));
    Ok(())
}
