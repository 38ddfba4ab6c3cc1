//! What a poller promises, against a source in memory and a paused clock. `example-bot` shows the same with processes.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use adieu::report::{Cause, Outcome};
use adieu::retry::{Backoff, Permanent, RetryAfter};
use adieu::state::{Entry, Expected, Record, Store, StoreError, StoreFuture, Version};
use tokio::time::Instant;

use crate::clues::{Diary, calm, millis, secs};

/// A store in memory: survives the scope, as a file would, and can be told to refuse.
#[derive(Clone, Default)]
struct Shelf(Arc<Mutex<Shelved>>);

#[derive(Default)]
struct Shelved {
    records: BTreeMap<String, Record>,
    refuse_saves: bool,
    diary: Option<Diary>,
}

impl Shelf {
    fn offset(&self) -> Option<String> {
        let shelved = self.0.lock().unwrap();
        let record = shelved.records.get("offset");
        record.map(|record| record.entry.value.clone())
    }
}

impl Store for Shelf {
    fn load<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Record>> {
        let found = self.0.lock().unwrap().records.get(key).cloned();
        Box::pin(async { Ok(found) })
    }

    fn save<'a>(
        &'a self,
        key: &'a str,
        expected: Expected,
        entry: &'a Entry,
    ) -> StoreFuture<'a, Version> {
        Box::pin(async move {
            // A store takes its time, and the stop may come in it.
            tokio::time::sleep(millis(5)).await;
            let mut shelved = self.0.lock().unwrap();
            if shelved.refuse_saves {
                return Err(StoreError::refused("the shelf is full", "no room"));
            }
            let found = shelved.records.get(key).map(|record| record.version);
            if !expected.matches(found) {
                return Err(StoreError::conflict(key, expected, found));
            }
            if let Some(diary) = &shelved.diary {
                diary.write(format!("saved {}", entry.value));
            }
            let version = Version(found.map_or(1, |version| version.0 + 1));
            let entry = entry.clone();
            shelved
                .records
                .insert(key.to_owned(), Record::new(version, entry));
            Ok(version)
        })
    }
}

/// What the source has: the numbers up to the last, at most `batch` at a time; then it waits, as a long poll does.
async fn numbers(offset: Option<u64>, last: u64, batch: u64) -> std::io::Result<Vec<(u64, u64)>> {
    tokio::time::sleep(millis(3)).await;
    let first = offset.unwrap_or(1);
    if first > last {
        pending::<()>().await;
    }
    let end = last.min(first + batch - 1);
    Ok((first..=end).map(|number| (number + 1, number)).collect())
}

#[tokio::test(start_paused = true)]
async fn updates_are_handled_in_order_and_each_is_saved_before_the_next() {
    let (shelf, diary) = (Shelf::default(), Diary::default());
    shelf.0.lock().unwrap().diary = Some(diary.clone());
    let (ours, seen) = (shelf.clone(), diary.clone());
    let report = calm()
        .stop_when(tokio::time::sleep(secs(1)))
        .run(async move |app| {
            let store = app.store(async { Ok::<_, StoreError>(ours) }).await?;
            app.poller(
                "updates",
                store.state("offset"),
                |offset| numbers(offset, 3, 2),
                move |number| {
                    let seen = seen.clone();
                    async move { seen.write(format!("handled {number}")) }
                },
            );
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
    let lines = [
        "handled 1",
        "saved 2",
        "handled 2",
        "saved 3",
        "handled 3",
        "saved 4",
    ];
    assert_eq!(diary.lines(), lines);
}

#[tokio::test(start_paused = true)]
async fn the_poll_is_given_up_at_once() {
    let shelf = Shelf::default();
    let report = calm()
        .stop_when(tokio::time::sleep(secs(5)))
        .run(async move |app| {
            let store = app.store(async { Ok::<_, StoreError>(shelf) }).await?;
            app.poller(
                "updates",
                store.state("offset"),
                |offset| numbers(offset, 0, 1),
                |_| async {},
            );
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
    // The clock is paused: what waits for nothing takes no time.
    assert!(report.took() < millis(1), "{report}");
}

#[tokio::test(start_paused = true)]
async fn what_was_fetched_is_handled_to_the_end() {
    let (shelf, diary) = (Shelf::default(), Diary::default());
    let (ours, seen) = (shelf.clone(), diary.clone());
    let report = calm()
        .stop_when(tokio::time::sleep(millis(500)))
        .run(async move |app| {
            let store = app.store(async { Ok::<_, StoreError>(ours) }).await?;
            app.poller(
                "updates",
                store.state("offset"),
                |offset| numbers(offset, 100, 3),
                move |number| {
                    let seen = seen.clone();
                    async move {
                        tokio::time::sleep(secs(1)).await;
                        seen.write(format!("{number}"));
                    }
                },
            );
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
    assert_eq!(diary.lines(), ["1", "2", "3"]);
    assert_eq!(shelf.offset().as_deref(), Some("4"));
}

#[tokio::test(start_paused = true)]
async fn what_is_cancelled_at_the_deadline_is_for_the_next_start() {
    let shelf = Shelf::default();
    let ours = shelf.clone();
    let report = calm()
        .stop_when(tokio::time::sleep(millis(500)))
        .run(async move |app| {
            let store = app.store(async { Ok::<_, StoreError>(ours) }).await?;
            app.poller(
                "updates",
                store.state("offset"),
                |offset| numbers(offset, 3, 3),
                |number| async move {
                    if number == 2 {
                        pending::<()>().await;
                    }
                },
            );
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 3, "{report}");
    let part = report.part("updates").unwrap();
    assert_eq!(part.outcome, Outcome::Cancelled);
    assert_eq!(part.notes, ["2 fetched updates left for the next start"]);
    assert_eq!(shelf.offset().as_deref(), Some("2"));
}

#[tokio::test(start_paused = true)]
async fn a_source_that_fails_is_asked_again_later_each_time_and_told_patience_is_kept() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let times = Arc::clone(&asked);
    let report = calm()
        .stop_when(tokio::time::sleep(secs(100)))
        .run(async move |app| {
            let store = app
                .store(async { Ok::<_, StoreError>(Shelf::default()) })
                .await?;
            app.poller(
                "updates",
                store.state::<u64>("offset"),
                move |_| {
                    let mut asked = times.lock().unwrap();
                    asked.push(Instant::now());
                    let count = asked.len();
                    async move {
                        match count {
                            1..4 => Err("connection refused")?,
                            4 => Err(RetryAfter::after(secs(30), "too many requests"))?,
                            _ => pending::<adieu::Result<Vec<(u64, ())>>>().await,
                        }
                    }
                },
                |(): ()| async {},
            )
            .backoff(Backoff {
                first: secs(1),
                longest: secs(60),
            });
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
    let asked = asked.lock().unwrap();
    let waits: Vec<Duration> = asked.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(waits.len(), 4, "{waits:?}");
    for (wait, full) in waits.iter().zip([1, 2, 4]) {
        assert!(
            (secs(full) / 2..=secs(full) + millis(2)).contains(wait),
            "{waits:?}"
        );
    }
    assert!((secs(30)..secs(31)).contains(&waits[3]), "{waits:?}");
}

#[tokio::test(start_paused = true)]
async fn a_source_that_will_never_answer_ends_the_service() {
    let report = calm()
        .run(async move |app| {
            let store = app
                .store(async { Ok::<_, StoreError>(Shelf::default()) })
                .await?;
            app.poller(
                "updates",
                store.state::<u64>("offset"),
                |_| async { Err::<Vec<(u64, ())>, _>(Permanent::new("the token was revoked")) },
                |()| async {},
            );
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 1, "{report}");
    assert_eq!(report.cause(), Some(&Cause::Error("updates".into())));
    assert!(
        report.to_string().contains("the token was revoked"),
        "{report}"
    );
}

/// A bug in the program: asking again would not help.
#[tokio::test(start_paused = true)]
async fn a_poll_that_panics_ends_the_service() {
    let report = calm()
        .stop_when(tokio::time::sleep(secs(600)))
        .run(async move |app| {
            let store = app
                .store(async { Ok::<_, StoreError>(Shelf::default()) })
                .await?;
            app.poller(
                "updates",
                store.state::<u64>("offset"),
                |_| async {
                    crate::clues::collapse("no such field");
                    Ok::<Vec<(u64, ())>, StoreError>(Vec::new())
                },
                |()| async {},
            );
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 1, "{report}");
    assert_eq!(report.cause(), Some(&Cause::Error("updates".into())));
    assert!(report.to_string().contains("no such field"), "{report}");
}

#[tokio::test(start_paused = true)]
async fn neither_empty_answers_nor_none_make_it_spin() {
    let polls = Arc::new(Mutex::new((0, 0)));
    let (empty, silent) = (Arc::clone(&polls), Arc::clone(&polls));
    let report = calm()
        .stop_when(tokio::time::sleep(secs(600)))
        .run(async move |app| {
            let store = app
                .store(async { Ok::<_, StoreError>(Shelf::default()) })
                .await?;
            app.poller(
                "empty",
                store.state::<u64>("a"),
                move |_| {
                    empty.lock().unwrap().0 += 1;
                    async { Ok::<Vec<(u64, ())>, StoreError>(Vec::new()) }
                },
                |()| async {},
            )
            .pace(secs(1));
            app.poller(
                "silent",
                store.state::<u64>("b"),
                move |_| {
                    silent.lock().unwrap().1 += 1;
                    pending::<Result<Vec<(u64, ())>, StoreError>>()
                },
                |()| async {},
            )
            .poll_limit(secs(60));
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
    let (empty, silent) = *polls.lock().unwrap();
    assert!((500..=601).contains(&empty), "{empty}");
    assert!((8..=10).contains(&silent), "{silent}");
}

#[tokio::test(start_paused = true)]
async fn an_update_that_always_fails_is_skipped_and_said() {
    let (shelf, diary) = (Shelf::default(), Diary::default());
    let (ours, seen) = (shelf.clone(), diary.clone());
    let report = calm()
        .stop_when(tokio::time::sleep(secs(600)))
        .run(async move |app| {
            let store = app.store(async { Ok::<_, StoreError>(ours) }).await?;
            app.poller(
                "updates",
                store.state("offset"),
                |offset| numbers(offset, 4, 2),
                move |number| {
                    let seen = seen.clone();
                    async move {
                        seen.write(format!("{number}"));
                        let tries = seen.lines().iter().filter(|line| **line == "3").count();
                        match number {
                            1 => panic!("poison"),
                            2 => Err(Permanent::new("no such chat"))?,
                            3 if tries < 10 => Err(RetryAfter::soon("the API is away"))?,
                            _ => Ok::<_, adieu::BoxError>(()),
                        }
                    }
                },
            )
            .attempts(3);
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
    let mut expected = vec!["1"; 3];
    expected.push("2");
    expected.extend(["3"; 10]);
    expected.push("4");
    assert_eq!(diary.lines(), expected);
    assert_eq!(shelf.offset().as_deref(), Some("5"));
    let notes = &report.part("updates").unwrap().notes;
    assert_eq!(*notes, ["2 updates skipped, they failed every time"]);
}

#[tokio::test(start_paused = true)]
async fn an_offset_that_cannot_be_saved_is_said() {
    let shelf = Shelf::default();
    shelf.0.lock().unwrap().refuse_saves = true;
    let report = calm()
        .run(async move |app| {
            let store = app.store(async { Ok::<_, StoreError>(shelf) }).await?;
            app.poller(
                "updates",
                store.state("offset"),
                |offset| numbers(offset, 3, 3),
                |_| async {},
            );
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 1, "{report}");
    let failure = report.part("updates").unwrap().failure.clone().unwrap();
    assert!(
        failure.causes[0].contains("will be handled again"),
        "{failure}"
    );
    assert!(failure.causes[1].contains("the shelf is full"), "{failure}");
}

/// Stopped at every await point in turn, and started again: no update is lost, none is handled twice.
#[cfg(feature = "testing")]
#[test]
fn whenever_the_stop_comes_each_update_is_handled_once() {
    const LAST: u64 = 5;
    let shelf: Arc<Mutex<Shelf>> = Arc::default();
    let diary: Arc<Mutex<Diary>> = Arc::default();
    async fn setup(app: &mut adieu::App, shelf: Shelf, diary: Diary) -> adieu::Result {
        let store = app.store(async { Ok::<_, StoreError>(shelf) }).await?;
        app.poller(
            "updates",
            store.state("offset"),
            |offset| numbers(offset, LAST, 2),
            move |number| {
                let diary = diary.clone();
                async move {
                    tokio::time::sleep(millis(7)).await;
                    diary.write(format!("{number}"));
                    tokio::time::sleep(millis(7)).await;
                }
            },
        );
        Ok(())
    }
    let (shelves, diaries) = (Arc::clone(&shelf), Arc::clone(&diary));
    let swept = adieu::testing::sweep(async |app: &mut adieu::App| {
        let (fresh, blank) = (Shelf::default(), Diary::default());
        *shelf.lock().unwrap() = fresh.clone();
        *diary.lock().unwrap() = blank.clone();
        setup(app, fresh, blank).await
    })
    .lasting(secs(1))
    .check(move |_| {
        let (shelf, diary) = (
            shelves.lock().unwrap().clone(),
            diaries.lock().unwrap().clone(),
        );
        let (again, seen) = (shelf.clone(), diary.clone());
        let report = adieu::testing::rehearse(
            async move |app: &mut adieu::App| setup(app, again, seen).await,
            async |world| {
                world.pass(secs(1)).await;
                world.shutdown_handle().stop("seen enough");
            },
        );
        assert_eq!(report.exit_code(), 0, "{report}");
        let expected: Vec<String> = (1..=LAST).map(|number| number.to_string()).collect();
        assert_eq!(diary.lines(), expected, "{report}");
        assert_eq!(shelf.offset().as_deref(), Some("6"));
    })
    .run();
    assert!(swept.points() >= 20 && swept.is_complete(), "{swept:?}");
}

/// Two replicas with one offset: the second to save gets a conflict, and does not put the offset of the first back.
#[tokio::test(start_paused = true)]
async fn of_two_with_one_offset_one_is_told() {
    let shelf = Shelf::default();
    let replica = |slower: Duration| {
        let shelf = shelf.clone();
        calm()
            .stop_when(tokio::time::sleep(secs(30)))
            .run(async move |app| {
                let store = app.store(async { Ok::<_, StoreError>(shelf) }).await?;
                app.poller(
                    "updates",
                    store.state::<u64>("offset"),
                    move |offset| async move {
                        let next = offset.unwrap_or(0) + 1;
                        Ok::<_, StoreError>(vec![(next, ())])
                    },
                    move |()| tokio::time::sleep(slower),
                );
                Ok(())
            })
    };
    let (fast, slow) = tokio::join!(replica(secs(1)), replica(millis(2_500)));
    assert_eq!(fast.exit_code(), 0, "{fast}");
    assert_eq!(slow.exit_code(), 1, "{slow}");
    assert!(
        slow.to_string().contains("saved by another writer"),
        "{slow}"
    );
    let offset: u64 = shelf.offset().unwrap().parse().unwrap();
    assert!(offset >= 28, "{offset}: nothing was put back");
}
