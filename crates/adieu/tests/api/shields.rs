//! Work under a shield is not cut in the middle (R13).

use std::future::pending;

use adieu::report::{Notice, Outcome};

use crate::clues::{Flag, millis, nothing, secs, stopped_after_a_second};

#[tokio::test(start_paused = true)]
async fn shielded_work_ends_and_the_task_is_cut_right_after() {
    let (saved, after) = (Flag::default(), Flag::default());
    let flags = (saved.clone(), after.clone());
    let report = stopped_after_a_second()
        .run(async move |app| {
            let (saved, after) = flags;
            app.task("writer", |stop| async move {
                stop.requested().await;
                let deadline = stop.deadline().expect("stopping");
                stop.shield(async {
                    // Well into the cancel phase, over several awaits.
                    tokio::time::sleep_until(deadline + millis(50)).await;
                    tokio::time::sleep(millis(50)).await;
                    saved.set();
                })
                .await;
                tokio::task::yield_now().await;
                after.set();
            });
            Ok(())
        })
        .await;
    assert!(saved.is_set() && !after.is_set());
    assert_eq!(
        report.part("writer").unwrap().outcome,
        Outcome::Cancelled,
        "{report}"
    );
    assert_eq!(report.exit_code(), 3);
}

#[tokio::test(start_paused = true)]
async fn code_up_to_the_next_await_belongs_to_the_shielded_work() {
    let done = Flag::default();
    let theirs = done.clone();
    let report = stopped_after_a_second()
        .run(async move |app| {
            app.task("writer", |stop| async move {
                stop.requested().await;
                let deadline = stop.deadline().expect("stopping");
                stop.shield(tokio::time::sleep_until(deadline + millis(50)))
                    .await;
                theirs.set();
            });
            Ok(())
        })
        .await;
    assert!(done.is_set());
    assert_eq!(report.exit_code(), 0, "it came to its own end: {report}");
}

#[tokio::test(start_paused = true)]
async fn a_shield_holds_no_longer_than_the_budget() {
    let report = stopped_after_a_second()
        .run(async |app| {
            app.resource("db", nothing()).await?;
            app.task("stubborn", |stop| async move {
                stop.shield(pending::<()>()).await
            });
            Ok(())
        })
        .await;
    assert_eq!(
        report.part("stubborn").unwrap().outcome,
        Outcome::Abandoned,
        "{report}"
    );
    assert_eq!(report.part("db").unwrap().outcome, Outcome::Closed);
    assert!(report.took() <= secs(10));
}

#[tokio::test(start_paused = true)]
async fn a_shield_that_loses_a_race_is_lowered() {
    let report = stopped_after_a_second()
        .run(async |app| {
            app.task("racer", |stop| async move {
                let lost = tokio::time::timeout(millis(10), stop.shield(pending::<()>())).await;
                assert!(lost.is_err());
                pending::<()>().await;
            });
            Ok(())
        })
        .await;
    assert_eq!(
        report.part("racer").unwrap().outcome,
        Outcome::Cancelled,
        "{report}"
    );
}

#[tokio::test(start_paused = true)]
async fn shields_nest() {
    let (inner, outer) = (Flag::default(), Flag::default());
    let flags = (inner.clone(), outer.clone());
    let report = stopped_after_a_second()
        .run(async move |app| {
            let (inner, outer) = flags;
            app.task("writer", |stop| async move {
                stop.requested().await;
                let deadline = stop.deadline().expect("stopping");
                stop.shield(async {
                    stop.shield(tokio::time::sleep_until(deadline + millis(20)))
                        .await;
                    inner.set();
                    tokio::time::sleep(millis(20)).await;
                    outer.set();
                })
                .await;
                pending::<()>().await;
            });
            Ok(())
        })
        .await;
    assert!(inner.is_set() && outer.is_set());
    assert_eq!(
        report.part("writer").unwrap().outcome,
        Outcome::Cancelled,
        "{report}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_shield_of_one_task_does_not_protect_another() {
    let report = stopped_after_a_second()
        .run(async |app| {
            app.task("shielded", |stop| async move {
                stop.requested().await;
                let deadline = stop.deadline().expect("stopping");
                stop.shield(tokio::time::sleep_until(deadline + millis(100)))
                    .await;
            });
            app.task("bare", |_stop| pending::<()>());
            Ok(())
        })
        .await;
    assert_eq!(
        report.part("shielded").unwrap().outcome,
        Outcome::Finished,
        "{report}"
    );
    assert_eq!(
        report.part("bare").unwrap().outcome,
        Outcome::Cancelled,
        "{report}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_opening_under_a_shield_is_not_cut() {
    let opened = Flag::default();
    let theirs = opened.clone();
    let report = stopped_after_a_second()
        .run(async move |app| {
            let stop = app.stop();
            let opening = stop.shield(async {
                tokio::time::sleep(secs(2)).await;
                theirs.set();
                nothing().await
            });
            app.resource("lock", opening).await?;
            tokio::task::yield_now().await;
            unreachable!("setup is cut at the first await after the shield");
        })
        .await;
    assert!(opened.is_set(), "{report}");
    assert_eq!(
        report.part("lock").unwrap().outcome,
        Outcome::Closed,
        "{report}"
    );
    assert_eq!(report.exit_code(), 0, "{report}");
}

#[tokio::test(start_paused = true)]
async fn a_thousand_children_that_hang_are_one_line() {
    let report = stopped_after_a_second()
        .run(async |app| {
            app.task("parent", |stop| async move {
                for _ in 0..1_000 {
                    let theirs = stop.clone();
                    let child = async move { theirs.shield(pending::<()>()).await };
                    drop(stop.spawn("child", child));
                }
            });
            Ok(())
        })
        .await;
    let told: Vec<_> = (report.timeline().iter())
        .filter_map(|(_, notice)| match notice {
            Notice::ChildAbandoned { task, count, .. } => Some((&**task, *count)),
            _ => None,
        })
        .collect();
    assert_eq!(told, [("child", 1_000)], "{report}");
    let lost: Vec<_> = report.lost().iter().map(|loss| loss.count).collect();
    assert_eq!(lost, [1_000]);
}
