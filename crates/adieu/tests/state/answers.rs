//! Saves whose answer is lost, late or never waited for: what is acknowledged stays, and an old save never comes back.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use adieu::state::{
    Checkpoint, Entry, Expected, FileStore, Record, Store, StoreError, StoreFuture, StoreHandle,
    Version, Worker,
};
use adieu::{App, BoxError};
use tempfile::TempDir;
use tokio::time::timeout;

use crate::conformance::{Cursor, cursor};

const KEY: &str = "importer";
/// Longer than any store is tried.
const LONG: Duration = Duration::from_secs(60);

/// What becomes of a save on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Way {
    #[default]
    Clear,
    /// It arrives; its answer does not, and the connection is gone. The next save finds the way clear.
    AnswerLost,
    /// As that, and from then on nothing arrives.
    LostAndGone,
    Gone,
    /// It arrives, and is never answered.
    Silent,
    /// It is held on its way, and arrives when [`Server::deliver`] says so.
    Held,
}

/// A server with one state, and the way to it.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<Inside>>);

#[derive(Default)]
struct Inside {
    way: Way,
    /// Whether looks fail too.
    blind: bool,
    kept: Option<Record>,
    held: Vec<(Expected, Entry)>,
}

impl Inside {
    fn arrives(&mut self, expected: Expected, entry: &Entry) -> Result<Version, StoreError> {
        let found = self.kept.as_ref().map(|record| record.version);
        if !expected.matches(found) {
            return Err(StoreError::conflict(KEY, expected, found));
        }
        let version = Version(found.map_or(1, |version| version.0 + 1));
        let entry = entry.clone();
        self.kept = Some(Record::new(version, entry));
        Ok(version)
    }
}

fn unavailable() -> StoreError {
    StoreError::unavailable("the test's server", "connection reset")
}

impl Server {
    fn set(&self, way: Way) {
        self.0.lock().expect("no panic").way = way;
    }

    fn blind(&self, blind: bool) {
        self.0.lock().expect("no panic").blind = blind;
    }

    /// What was held on its way arrives now.
    fn deliver(&self) {
        let mut inside = self.0.lock().expect("no panic");
        for (expected, entry) in std::mem::take(&mut inside.held) {
            // Its sender is gone: no caller waits for it.
            let _ = inside.arrives(expected, &entry);
        }
    }

    fn last_id(&self) -> Option<u64> {
        let inside = self.0.lock().expect("no panic");
        let record = inside.kept.as_ref()?;
        let cursor: Cursor = serde_json::from_str(&record.entry.value).expect("a cursor");
        Some(cursor.last_id)
    }
}

impl Store for Server {
    fn load<'a>(&'a self, _: &'a str) -> StoreFuture<'a, Option<Record>> {
        Box::pin(async {
            let inside = self.0.lock().expect("no panic");
            match inside.blind || matches!(inside.way, Way::Gone) {
                true => Err(unavailable()),
                false => Ok(inside.kept.clone()),
            }
        })
    }

    fn save<'a>(
        &'a self,
        _: &'a str,
        expected: Expected,
        entry: &'a Entry,
    ) -> StoreFuture<'a, Version> {
        Box::pin(async move {
            {
                let mut inside = self.0.lock().expect("no panic");
                match inside.way {
                    Way::Clear => return inside.arrives(expected, entry),
                    Way::Gone => return Err(unavailable()),
                    Way::AnswerLost | Way::LostAndGone => {
                        inside.way = match inside.way {
                            Way::AnswerLost => Way::Clear,
                            _ => Way::Gone,
                        };
                        inside.arrives(expected, entry)?;
                        return Err(unavailable());
                    }
                    Way::Silent => drop(inside.arrives(expected, entry)?),
                    Way::Held => inside.held.push((expected, entry.clone())),
                }
            }
            std::future::pending().await
        })
    }
}

async fn opened(server: Server) -> Result<Server, StoreError> {
    Ok(server)
}

/// What a start with this fallback directory finds.
async fn next_start(server: &Server, folder: &TempDir) -> Result<Option<u64>, BoxError> {
    let (server, path) = (server.clone(), folder.path().to_owned());
    let mut found = None;
    let report = adieu::scope("next")
        .run(async |app: &mut App| {
            let store = app.store(opened(server)).fallback(path).await?;
            let state = store.state::<Cursor>(KEY);
            found = state.load().await?.map(|found| found.value.last_id);
            app.shutdown_handle().stop("seen");
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
    Ok(found)
}

/// The outage begins in the middle of a save, which arrives. What is acknowledged after it is in the fallback file, and
/// is not taken for older than our own save that the store has.
#[tokio::test(start_paused = true)]
async fn a_lost_answer_does_not_cost_what_was_kept_after_it() -> Result<(), BoxError> {
    let (folder, server) = (TempDir::new()?, Server::default());
    let (path, theirs) = (folder.path().to_owned(), server.clone());
    let report = adieu::scope("outage")
        .run(async |app: &mut App| {
            let store = app.store(opened(theirs.clone())).fallback(path).await?;
            app.task("saver", move |stop| async move {
                let state = store.state::<Cursor>(KEY);
                state.save(&cursor(1)).await?;
                stop.requested().await;
                theirs.set(Way::LostAndGone);
                state.save(&cursor(2)).await?;
                state.save(&cursor(3)).await?;
                Ok::<_, StoreError>(())
            });
            app.shutdown_handle().stop("enough");
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
    assert_eq!(server.last_id(), Some(2), "the second has arrived");
    server.set(Way::Clear);
    assert_eq!(next_start(&server, &folder).await?, Some(3));
    assert_eq!(server.last_id(), Some(3));
    assert_eq!(next_start(&server, &folder).await?, Some(3), "settled");
    Ok(())
}

/// As above for a worker, whose checkpoints expect a version; and the answer to the hand-in is lost as well.
#[tokio::test(start_paused = true)]
async fn a_worker_s_last_checkpoint_outlives_a_lost_answer() -> Result<(), BoxError> {
    let (folder, server) = (TempDir::new()?, Server::default());
    let (path, theirs) = (folder.path().to_owned(), server.clone());
    let report = adieu::scope("outage")
        .run(async |app: &mut App| {
            let store = app.store(opened(theirs.clone())).fallback(path).await?;
            let shutdown = app.shutdown_handle();
            app.worker(KEY, store, move |mut worker: Worker<Cursor>| {
                let (theirs, shutdown) = (theirs.clone(), shutdown.clone());
                async move {
                    let _ = worker.checkpoint(&cursor(1)).await?;
                    shutdown.stop("enough");
                    theirs.set(Way::LostAndGone);
                    let _ = worker.checkpoint(&cursor(2)).await?;
                    let _ = worker.checkpoint(&cursor(3)).await?;
                    // Back before the end: the store has the second one, which is our own.
                    theirs.set(Way::Clear);
                    let _ = worker.checkpoint(&cursor(4)).await?;
                    theirs.set(Way::LostAndGone);
                    let _ = worker.checkpoint(&cursor(5)).await?;
                    Ok::<_, StoreError>(())
                }
            });
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
    assert_eq!(server.last_id(), Some(5), "it has arrived, unanswered");
    server.set(Way::AnswerLost);
    assert_eq!(next_start(&server, &folder).await?, Some(5));
    Ok(())
}

/// Another process has built on a save of ours that we had no answer to: it would be wrong to say that it did not happen.
#[tokio::test(start_paused = true)]
async fn a_swap_that_another_has_built_on_is_unknown() -> Result<(), BoxError> {
    for blind in [false, true] {
        let server = Server::default();
        let (ours, theirs) = (
            StoreHandle::new(server.clone()),
            StoreHandle::new(server.clone()),
        );
        let (ours, theirs) = (ours.state::<Cursor>(KEY), theirs.state::<Cursor>(KEY));
        let first = ours.create(&cursor(1)).await?;
        server.set(Way::AnswerLost);
        let value = cursor(2);
        let swapping = ours.compare_and_swap(first, &value);
        let rival = async {
            // In the pause before the second try.
            tokio::time::sleep(Duration::from_millis(1)).await;
            let found = theirs.load().await?.expect("the first try arrived");
            assert_eq!(found.value, cursor(2));
            let swapped = theirs.compare_and_swap(found.version, &cursor(3)).await;
            server.blind(blind);
            swapped
        };
        let (swapped, rival) = tokio::join!(swapping, rival);
        rival?;
        let error = swapped.expect_err("another was faster, or later");
        assert!(error.is_unknown(), "{error}");
        assert!(!error.is_conflict() && !error.is_unavailable(), "{error}");
        assert_eq!(server.last_id(), Some(3));
        server.blind(false);
        // A refusal on the first try leaves no doubt.
        let error = ours.compare_and_swap(first, &cursor(4)).await;
        let error = error.expect_err("it is stale");
        assert!(error.is_conflict() && !error.is_unknown(), "{error}");
    }
    Ok(())
}

/// A save that was given up, and is still on its way, arrives after a later one.
#[tokio::test(start_paused = true)]
async fn a_save_that_was_given_up_does_not_come_back() -> Result<(), BoxError> {
    let server = Server::default();
    let store = StoreHandle::new(server.clone());
    let state = store.state::<Cursor>(KEY);
    state.save(&cursor(1)).await?;
    server.set(Way::Held);
    let given_up = timeout(Duration::from_secs(1), state.save(&cursor(2))).await;
    assert!(given_up.is_err());
    server.set(Way::Clear);
    state.save(&cursor(3)).await?;
    server.deliver();
    assert_eq!(server.last_id(), Some(3));
    // One that arrives before the next is begun is replaced by it, as anything is.
    server.set(Way::Held);
    let given_up = timeout(Duration::from_secs(1), state.save(&cursor(4))).await;
    assert!(given_up.is_err());
    server.set(Way::Clear);
    server.deliver();
    assert_eq!(server.last_id(), Some(4));
    state.save(&cursor(5)).await?;
    assert_eq!(server.last_id(), Some(5));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_store_that_stays_away_is_unavailable() -> Result<(), BoxError> {
    let server = Server::default();
    let store = StoreHandle::new(server.clone());
    let state = store.state::<Cursor>(KEY);
    let version = state.save(&cursor(1)).await?;
    server.set(Way::Gone);
    let value = cursor(2);
    let saved = state.save(&value).await;
    let swapped = state.compare_and_swap(version, &value).await;
    for error in [saved, swapped].map(|result| result.expect_err("it is away")) {
        assert!(error.is_unavailable() && !error.is_conflict(), "{error}");
        assert!(error.to_string().contains("was not saved"), "{error}");
    }
    let error = state.load().await.expect_err("it is away");
    assert!(error.is_unavailable(), "{error}");
    let refused = StoreError::refused("the test's server", "wrong password");
    assert!(!refused.is_unavailable());
    Ok(())
}

/// A checkpoint that was given up arrived, or is still on its way, or could not be saved and was all the same: the next
/// one is the worker's own to make.
#[tokio::test(start_paused = true)]
async fn a_checkpoint_that_was_given_up_does_not_break_the_worker() -> Result<(), BoxError> {
    let server = Server::default();
    let theirs = server.clone();
    let report = adieu::scope("steps")
        .run(async |app: &mut App| {
            let store = app.store(opened(theirs.clone())).await?;
            app.worker(KEY, store, move |mut worker: Worker<Cursor>| {
                let theirs = theirs.clone();
                async move {
                    let second = Duration::from_secs(1);
                    worker.resume().await?;
                    theirs.set(Way::Silent);
                    let given_up = timeout(second, worker.checkpoint(&cursor(1))).await;
                    assert!(given_up.is_err());
                    assert_eq!(theirs.last_id(), Some(1), "it arrived");
                    theirs.set(Way::Clear);
                    assert_eq!(worker.checkpoint(&cursor(2)).await?, Checkpoint::Saved);

                    theirs.set(Way::Held);
                    let given_up = timeout(second, worker.checkpoint(&cursor(3))).await;
                    assert!(given_up.is_err());
                    theirs.set(Way::Clear);
                    assert_eq!(worker.checkpoint(&cursor(4)).await?, Checkpoint::Saved);
                    theirs.deliver();
                    assert_eq!(theirs.last_id(), Some(4), "the late one is too late");

                    theirs.set(Way::LostAndGone);
                    let error = worker.checkpoint(&cursor(5)).await.expect_err("no answer");
                    assert!(error.is_unavailable(), "{error}");
                    theirs.set(Way::Clear);
                    assert_eq!(worker.checkpoint(&cursor(6)).await?, Checkpoint::Saved);
                    Ok::<_, BoxError>(())
                }
            });
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
    assert_eq!(server.last_id(), Some(6));
    Ok(())
}

/// And another process's save is noticed after one of those, as before it.
#[tokio::test(start_paused = true)]
async fn after_a_checkpoint_that_was_given_up_a_rival_is_still_noticed() -> Result<(), BoxError> {
    let server = Server::default();
    let theirs = server.clone();
    let report = adieu::scope("steps")
        .run(async |app: &mut App| {
            let store = app.store(opened(theirs.clone())).await?;
            let rival = StoreHandle::new(theirs.clone()).state::<Cursor>(KEY);
            app.worker(KEY, store, move |mut worker: Worker<Cursor>| {
                let (theirs, rival) = (theirs.clone(), rival.clone());
                async move {
                    worker.resume().await?;
                    theirs.set(Way::Silent);
                    let given_up = timeout(LONG, worker.checkpoint(&cursor(1))).await;
                    assert!(!matches!(given_up, Ok(Ok(_))));
                    theirs.set(Way::Clear);
                    rival.save(&cursor(100)).await?;
                    let error = worker.checkpoint(&cursor(2)).await;
                    let error = error.expect_err("it is not ours any more");
                    assert!(error.is_conflict(), "{error}");
                    Err::<(), _>(error)
                }
            });
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 1, "{report}");
    assert_eq!(server.last_id(), Some(100));
    Ok(())
}

/// In files as well, whose saves go on when no caller waits for them. The one thread for file work is busy meanwhile.
#[test]
fn a_checkpoint_in_a_file_that_was_given_up_does_not_break_the_worker() -> Result<(), BoxError> {
    use std::task::{Context, Waker};
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .build()?;
    let folder = TempDir::new()?;
    let path = folder.path().to_owned();
    let report = runtime.block_on(adieu::scope("steps").run(async |app: &mut App| {
        let store = app.store(FileStore::open(path)).await?;
        app.worker(KEY, store, |mut worker: Worker<Cursor>| async move {
            worker.resume().await?;
            let (release, held) = std::sync::mpsc::channel::<()>();
            let busy = tokio::task::spawn_blocking(move || held.recv());
            {
                let value = cursor(1);
                let mut dropped = std::pin::pin!(worker.checkpoint(&value));
                let polled = dropped
                    .as_mut()
                    .poll(&mut Context::from_waker(Waker::noop()));
                assert!(polled.is_pending(), "the thread is busy");
            }
            release.send(())?;
            busy.await??;
            assert_eq!(worker.checkpoint(&cursor(2)).await?, Checkpoint::Saved);
            assert_eq!(worker.checkpoint(&cursor(3)).await?, Checkpoint::Saved);
            Ok::<_, BoxError>(())
        });
        Ok(())
    }));
    assert_eq!(report.exit_code(), 0, "{report}");
    let text = std::fs::read_to_string(folder.path().join("importer.json"))?;
    assert!(
        text.contains("\"version\": 3") && text.contains("\"last_id\":3"),
        "{text}"
    );
    Ok(())
}
