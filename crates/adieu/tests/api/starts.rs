//! Starts that take too long, and openings that are tried again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use adieu::report::{Cause, Exit, Notice, Outcome};
use adieu::retry::{Backoff, Permanent, RetryAfter};
use adieu::{App, Report};

use crate::clues::{Diary, calm, millis, nothing, secs, stopped_after_a_second};

async fn never() -> std::io::Result<()> {
    std::future::pending().await
}

fn refused() -> std::io::Error {
    std::io::Error::other("connection refused")
}

/// Opens two resources, which write down that they are closed.
async fn two_opened(app: &mut App, diary: &Diary) -> adieu::Result {
    for name in ["one", "two"] {
        let diary = diary.clone();
        app.resource(name, nothing())
            .stop(move |()| async move { diary.write(name) })
            .await?;
    }
    Ok(())
}

fn problem(report: &Report) -> String {
    report.problem().expect("it says why").to_string()
}

fn waits(report: &Report) -> Vec<Duration> {
    let wait = |(_, notice): &(Duration, Notice)| match notice {
        Notice::OpenRetry { delay, .. } => Some(*delay),
        _ => None,
    };
    report.timeline().iter().filter_map(wait).collect()
}

#[tokio::test(start_paused = true)]
async fn an_opening_that_never_ends_is_named_and_the_others_are_closed() {
    let diary = Diary::default();
    let report = calm()
        .run(async |app| {
            two_opened(app, &diary).await?;
            app.resource("hangs", never()).open_timeout(secs(5)).await?;
            unreachable!("it never opens");
        })
        .await;
    assert_eq!(report.exit(), Exit::Failed, "{report}");
    assert_eq!(report.cause(), Some(&Cause::Error("hangs".into())));
    let problem = problem(&report);
    assert!(
        problem.starts_with("resource `hangs` (made at "),
        "{problem}"
    );
    assert!(problem.contains("starts.rs:"), "{problem}");
    assert!(problem.contains("did not open within 5.00 s"), "{problem}");
    assert_eq!(report.part("hangs").unwrap().outcome, Outcome::Failed);
    assert_eq!(diary.lines(), ["two", "one"]);
}

#[tokio::test(start_paused = true)]
async fn an_opening_in_time_is_not_touched() {
    let report = stopped_after_a_second()
        .run(async |app| {
            let slow = async {
                tokio::time::sleep(millis(499)).await;
                nothing().await
            };
            app.resource("slow", slow).open_timeout(millis(500)).await?;
            app.resource("forever", nothing())
                .open_timeout(Duration::MAX)
                .await?;
            Ok(())
        })
        .await;
    assert_eq!(report.exit(), Exit::Clean, "{report}");
}

#[tokio::test(start_paused = true)]
async fn a_start_that_takes_too_long_says_what_was_opening_and_closes_the_rest() {
    let diary = Diary::default();
    let report = calm()
        .start_timeout(secs(30))
        .run(async |app| {
            two_opened(app, &diary).await?;
            app.resource("hangs", never()).await?;
            unreachable!("it never opens");
        })
        .await;
    assert_eq!(report.exit(), Exit::Failed, "{report}");
    assert_eq!(report.cause(), Some(&Cause::Setup), "{report}");
    let problem = problem(&report);
    assert!(problem.contains("took longer than 30.0 s"), "{problem}");
    assert!(
        problem.contains("opening resource `hangs` (made at "),
        "{problem}"
    );
    assert!(!problem.contains("`one`"), "{problem}");
    assert_eq!(report.part("hangs").unwrap().outcome, Outcome::Cancelled);
    assert_eq!(diary.lines(), ["two", "one"]);
    assert!(report.took() < millis(10), "{report}");
}

#[tokio::test(start_paused = true)]
async fn the_time_of_the_start_is_over_with_the_start() {
    let report = calm()
        .start_timeout(millis(500))
        .stop_when(tokio::time::sleep(secs(60)))
        .run(async |app| {
            app.task("worker", |stop| async move { stop.requested().await });
            Ok(())
        })
        .await;
    assert_eq!(report.exit(), Exit::Clean, "{report}");
    assert!(
        matches!(report.cause(), Some(Cause::Requested(_))),
        "{report}"
    );
}

#[tokio::test(start_paused = true)]
async fn resources_that_do_not_need_each_other_open_at_the_same_time() {
    let diary = Diary::default();
    let report = calm()
        .run(async |app| {
            let open = async |name: &'static str, takes| {
                diary.write(format!("{name} begins"));
                tokio::time::sleep(secs(takes)).await;
                diary.write(format!("{name} is open"));
                std::io::Result::Ok(name)
            };
            let close = |name: &'static str| {
                let diary = diary.clone();
                async move { diary.write(format!("{name} closed")) }
            };
            let (closes_one, closes_two) = (close("one"), close("two"));
            let began = tokio::time::Instant::now();
            let opened = tokio::try_join!(
                app.resource("one", open("one", 3)).stop(|_| closes_one),
                app.resource("two", open("two", 2)).stop(|_| closes_two),
            )?;
            assert_eq!(opened, ("one", "two"));
            assert_eq!(began.elapsed().as_secs(), 3);
            app.shutdown_handle().stop("enough");
            Ok(())
        })
        .await;
    let order = [
        "one begins",
        "two begins",
        "two is open",
        "one is open",
        "two closed",
        "one closed",
    ];
    assert_eq!(diary.lines(), order, "the order of registration decides");
    assert_eq!(report.exit(), Exit::Clean, "{report}");
}

#[tokio::test(start_paused = true)]
async fn of_resources_that_open_together_a_failure_gives_up_the_others_and_closes_what_is_open() {
    let diary = Diary::default();
    let report = calm()
        .run(async |app| {
            let theirs = diary.clone();
            let failing = async {
                tokio::time::sleep(secs(1)).await;
                Err::<(), _>(refused())
            };
            tokio::try_join!(
                app.resource("open", nothing())
                    .stop(move |()| async move { theirs.write("open closed") }),
                app.resource("hangs", never()),
                app.resource("fails", failing),
            )?;
            Ok(())
        })
        .await;
    let outcome = |name| report.part(name).unwrap().outcome;
    assert_eq!(outcome("open"), Outcome::Closed, "{report}");
    assert_eq!(outcome("hangs"), Outcome::Cancelled);
    assert_eq!(outcome("fails"), Outcome::Failed);
    assert_eq!(diary.lines(), ["open closed"]);
    assert_eq!(report.exit(), Exit::Failed);
}

#[tokio::test(start_paused = true)]
async fn an_opening_is_tried_again_until_it_succeeds() {
    let attempts = Arc::new(AtomicU32::new(0));
    let backoff = Backoff {
        first: millis(100),
        longest: secs(1),
    };
    let report = calm()
        .run(async |app| {
            let counted = Arc::clone(&attempts);
            let open = move || {
                let attempt = counted.fetch_add(1, Ordering::Relaxed);
                async move {
                    if attempt < 3 {
                        Err(refused())
                    } else {
                        Ok(attempt)
                    }
                }
            };
            let opened = app.resource_with("db", open).open_retry(backoff).await?;
            assert_eq!(opened, 3);
            app.shutdown_handle().stop("enough");
            Ok(())
        })
        .await;
    let full = [100, 200, 400].map(millis);
    let waits = waits(&report);
    assert_eq!(waits.len(), 3, "{report}");
    for (wait, full) in waits.iter().zip(full) {
        assert!((full / 2..=full).contains(wait), "{waits:?}");
    }
    let db = report.part("db").unwrap();
    assert_eq!((db.outcome, &db.failure), (Outcome::Closed, &None));
    assert_eq!(report.exit(), Exit::Clean, "{report}");
}

#[tokio::test(start_paused = true)]
async fn without_a_retry_it_is_opened_once() {
    let attempts = Arc::new(AtomicU32::new(0));
    let report = calm()
        .run(async |app| {
            let counted = Arc::clone(&attempts);
            let open = move || {
                counted.fetch_add(1, Ordering::Relaxed);
                async { Err::<(), _>(refused()) }
            };
            app.resource_with("db", open).await?;
            Ok(())
        })
        .await;
    assert_eq!(attempts.load(Ordering::Relaxed), 1);
    assert_eq!(report.exit(), Exit::Failed, "{report}");
    assert!(problem(&report).ends_with("connection refused"));
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_the_wait_for_the_next_attempt_at_once() {
    let diary = Diary::default();
    let report = stopped_after_a_second()
        .run(async |app| {
            two_opened(app, &diary).await?;
            let backoff = Backoff {
                first: secs(3_600),
                longest: secs(3_600),
            };
            let open = || async { Err::<(), _>(refused()) };
            app.resource_with("db", open).open_retry(backoff).await?;
            unreachable!("it never opens");
        })
        .await;
    assert_eq!(report.exit(), Exit::Clean, "{report}");
    assert_eq!(report.part("db").unwrap().outcome, Outcome::Cancelled);
    assert_eq!(diary.lines(), ["two", "one"]);
    assert!(report.took() < millis(10), "{report}");
}

#[tokio::test(start_paused = true)]
async fn a_timeout_of_a_retried_opening_says_why_the_last_attempt_failed() {
    let report = calm()
        .run(async |app| {
            let open = || async { Err::<(), _>(refused()) };
            app.resource_with("db", open)
                .open_retry(Backoff::default())
                .open_timeout(secs(60))
                .await?;
            Ok(())
        })
        .await;
    let problem = problem(&report);
    assert!(problem.contains("did not open within 60.0 s"), "{problem}");
    assert!(
        problem.ends_with("the last attempt: connection refused"),
        "{problem}"
    );
    assert_eq!(report.exit(), Exit::Failed, "{report}");
}

#[tokio::test(start_paused = true)]
async fn what_will_not_mend_is_not_tried_again_and_what_asks_for_patience_gets_it() {
    let report = calm()
        .run(async |app| {
            let mut attempts = 0;
            let open = move || {
                attempts += 1;
                let first = attempts == 1;
                async move {
                    let patience = RetryAfter::after(secs(7), "starting up");
                    let error: adieu::BoxError = match first {
                        true => patience.into(),
                        false => Permanent::new("no such database").into(),
                    };
                    Err::<(), _>(error)
                }
            };
            app.resource_with("db", open)
                .open_retry(Backoff::default())
                .await?;
            Ok(())
        })
        .await;
    assert_eq!(waits(&report), [secs(7)], "{report}");
    assert!(problem(&report).ends_with("no such database"), "{report}");
    assert_eq!(report.exit(), Exit::Failed, "{report}");
}
