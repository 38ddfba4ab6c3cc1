//! Limits of single parts, inside the whole budget.

use std::future::pending;
use std::time::Duration;

use adieu::report::{Exit, Outcome};

use crate::clues::{millis, nothing, secs, stopped_after_a_second};

#[tokio::test(start_paused = true)]
async fn a_task_is_cancelled_at_its_own_limit_and_the_others_are_not() {
    let report = stopped_after_a_second()
        .run(async |app| {
            app.task("short", |_stop| pending::<()>()).limit(secs(1));
            app.task("long", |stop| async move {
                stop.requested().await;
                tokio::time::sleep(secs(3)).await;
            });
            Ok(())
        })
        .await;
    let (short, long) = (report.part("short").unwrap(), report.part("long").unwrap());
    assert_eq!(short.outcome, Outcome::Cancelled, "{report}");
    assert!((secs(1)..millis(1_100)).contains(&short.ending), "{report}");
    assert_eq!(long.outcome, Outcome::Finished);
    assert_eq!(report.exit(), Exit::Cut);
}

#[tokio::test(start_paused = true)]
async fn a_shield_holds_against_the_limit_too() {
    let report = stopped_after_a_second()
        .run(async |app| {
            app.task("writer", |stop| async move {
                stop.requested().await;
                stop.shield(tokio::time::sleep(secs(2))).await;
            })
            .limit(millis(100));
            Ok(())
        })
        .await;
    assert_eq!(
        report.part("writer").unwrap().outcome,
        Outcome::Finished,
        "{report}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_close_is_given_up_at_its_own_limit() {
    let report = stopped_after_a_second()
        .run(async |app| {
            app.resource("one", nothing()).await?;
            app.resource("slow", nothing())
                .stop(|()| tokio::time::sleep(secs(5)))
                .limit(millis(200))
                .await?;
            Ok(())
        })
        .await;
    let slow = report.part("slow").unwrap();
    assert_eq!(slow.outcome, Outcome::Abandoned, "{report}");
    assert!(
        (millis(200)..millis(250)).contains(&slow.ending),
        "{report}"
    );
    assert_eq!(report.part("one").unwrap().outcome, Outcome::Closed);
}

#[tokio::test(start_paused = true)]
async fn the_longest_limits_are_no_overflow() {
    let report = stopped_after_a_second()
        .run(async |app| {
            app.resource("db", nothing()).limit(Duration::MAX).await?;
            app.task("worker", |_stop| pending::<()>())
                .limit(Duration::MAX);
            Ok(())
        })
        .await;
    assert_eq!(
        report.part("worker").unwrap().outcome,
        Outcome::Cancelled,
        "{report}"
    );
    assert_eq!(report.part("db").unwrap().outcome, Outcome::Closed);
    assert!(report.took() <= secs(10));
}

#[tokio::test(start_paused = true)]
async fn many_resources_that_hang_all_have_their_turn() {
    let report = stopped_after_a_second()
        .run(async |app| {
            for number in 0..50 {
                app.resource(format!("r{number}"), nothing())
                    .stop(|()| pending::<()>())
                    .await?;
            }
            app.resource("good", nothing()).await?;
            Ok(())
        })
        .await;
    assert!(report.took() <= secs(10), "{report}");
    assert_eq!(report.part("good").unwrap().outcome, Outcome::Closed);
    let hung = report
        .parts()
        .iter()
        .filter(|part| part.outcome == Outcome::Abandoned);
    assert_eq!(hung.count(), 50);
}
