//! What `setup` may do wrong: everything else is still closed (R18).

use std::future::pending;

use adieu::report::{Cause, Exit, Outcome};

use crate::clues::{Diary, calm, collapse, millis, nothing, secs, stopped_after_a_second};

#[tokio::test(start_paused = true)]
async fn a_panic_closes_what_was_opened_and_says_where() {
    let report = calm()
        .run(async |app| {
            app.resource("db", nothing()).await?;
            app.task("worker", |stop| async move { stop.requested().await });
            panic!("the config is empty");
        })
        .await;
    assert_eq!(
        (report.exit(), report.cause()),
        (Exit::Failed, Some(&Cause::Setup)),
        "{report}"
    );
    let problem = report.problem().expect("it says why");
    assert!(
        problem.to_string().contains("the config is empty"),
        "{problem}"
    );
    assert!(
        problem
            .panicked_at
            .as_ref()
            .is_some_and(|place| place.contains("setups.rs:"))
    );
    assert_eq!(report.part("db").unwrap().outcome, Outcome::Closed);
    assert_eq!(report.part("worker").unwrap().outcome, Outcome::Finished);
}

#[tokio::test(start_paused = true)]
async fn an_error_keeps_its_whole_chain() {
    let report = calm()
        .run(async |app| {
            app.resource("db", async {
                Err::<(), _>(std::io::Error::other("connection refused"))
            })
            .await?;
            Ok(())
        })
        .await;
    let problem = report.problem().expect("it says why");
    assert_eq!(
        problem.causes,
        ["resource `db` did not open", "connection refused"]
    );
    assert_eq!(report.cause(), Some(&Cause::Error("db".into())));
    assert_eq!(report.exit(), Exit::Failed);
}

#[tokio::test(start_paused = true)]
async fn an_opening_that_panics_is_a_failed_resource() {
    let report = calm()
        .run(async |app| {
            app.resource("one", nothing()).await?;
            app.resource("two", async {
                if true {
                    panic!("no driver")
                } else {
                    nothing().await
                }
            })
            .await?;
            Ok(())
        })
        .await;
    assert_eq!(report.exit(), Exit::Failed, "{report}");
    assert_eq!(report.part("two").unwrap().outcome, Outcome::Failed);
    assert_eq!(report.part("one").unwrap().outcome, Outcome::Closed);
    assert!(report.to_string().contains("no driver"), "{report}");
}

#[tokio::test(start_paused = true)]
async fn an_error_that_setup_deals_with_does_not_stop_the_start() {
    let report = stopped_after_a_second()
        .run(async |app| {
            let cache = app.resource("cache", async { Err::<(), _>("down") }).await;
            assert!(cache.is_err());
            app.task("worker", |stop| async move { stop.requested().await });
            Ok(())
        })
        .await;
    assert!(
        matches!(report.cause(), Some(Cause::Requested(_))),
        "{report}"
    );
    assert_eq!(report.part("cache").unwrap().outcome, Outcome::Failed);
    assert_eq!(report.exit(), Exit::Failed, "the exit code still tells");
}

#[tokio::test(start_paused = true)]
async fn two_parts_of_one_name_are_told_with_both_places() {
    let report = calm()
        .run(async |app| {
            app.task("twin", |stop| async move { stop.requested().await });
            app.on_exit("twin", || async {});
            app.resource("db", nothing()).await?;
            Ok(())
        })
        .await;
    assert_eq!(report.exit(), Exit::Usage, "{report}");
    let problem = report.problem().expect("it says why").to_string();
    assert_eq!(problem.matches("setups.rs:").count(), 2, "{problem}");
    assert_eq!(report.parts().len(), 2);
    assert_eq!(report.part("db").unwrap().outcome, Outcome::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_stop_in_the_middle_of_an_opening_drops_it() {
    let report = stopped_after_a_second()
        .run(async |app| {
            app.resource("one", nothing()).await?;
            let slow = async {
                tokio::time::sleep(secs(3_600)).await;
                nothing().await
            };
            app.resource("slow", slow).await?;
            unreachable!("setup is cut in the opening");
        })
        .await;
    assert_eq!(report.exit(), Exit::Clean, "{report}");
    assert_eq!(report.part("slow").unwrap().outcome, Outcome::Cancelled);
    assert_eq!(report.part("one").unwrap().outcome, Outcome::Closed);
    assert!(report.took() < millis(10));
}

#[tokio::test(start_paused = true)]
async fn a_resource_without_a_close_is_dropped_in_its_turn() {
    let diary = Diary::default();
    let theirs = diary.clone();
    let report = calm()
        .run(async move |app| {
            let first = theirs.clone();
            app.resource("explicit", nothing())
                .stop(move |()| async move { first.write("explicit") })
                .await?;
            let guard = std::sync::Arc::new(theirs.on_drop("dropped"));
            drop(
                app.resource("implicit", async { Ok::<_, std::io::Error>(guard) })
                    .await?,
            );
            app.shutdown_handle().stop("enough");
            Ok(())
        })
        .await;
    assert_eq!(diary.lines(), ["dropped", "explicit"], "{report}");
}

#[tokio::test(start_paused = true)]
async fn a_close_that_panics_is_a_failure_and_the_next_ones_close() {
    let report = calm()
        .run(async |app| {
            app.resource("one", nothing()).await?;
            app.resource("bad", nothing())
                .stop(|()| async { collapse("lost the socket") })
                .await?;
            app.shutdown_handle().stop("enough");
            Ok(())
        })
        .await;
    assert_eq!(report.exit(), Exit::Failed, "{report}");
    let bad = report.part("bad").unwrap();
    assert_eq!(bad.outcome, Outcome::Failed);
    assert!(
        bad.failure
            .as_ref()
            .is_some_and(|failure| failure.panicked_at.is_some())
    );
    assert_eq!(report.part("one").unwrap().outcome, Outcome::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_setup_that_waits_for_the_stop_is_cut_by_it() {
    let report = stopped_after_a_second()
        .run(async |app| {
            app.task("worker", |stop| async move { stop.requested().await });
            pending().await
        })
        .await;
    assert_eq!(report.exit(), Exit::Clean, "{report}");
}
