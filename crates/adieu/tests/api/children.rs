//! Work that work has started: tracked, cancelled, named.

use std::future::pending;

use adieu::TaskError;
use adieu::report::{Cause, Outcome};

use crate::clues::{Diary, OnDrop, calm, millis, nothing, stopped_after_a_second};

#[tokio::test(start_paused = true)]
async fn cancellation_reaches_grandchildren_before_resources_close() {
    let diary = Diary::default();
    let theirs = diary.clone();
    let report = stopped_after_a_second()
        .run(async move |app| {
            let diary = theirs.clone();
            app.resource("db", nothing())
                .stop(move |()| async move { diary.write("close") })
                .await?;
            app.task("parent", |stop| async move {
                let _guard = theirs.on_drop("parent");
                let inner = stop.clone();
                let child = stop.spawn("child", async move {
                    let _guard = theirs.on_drop("child");
                    let grandchild = inner.spawn("grandchild", async move {
                        let _guard = theirs.on_drop("grandchild");
                        pending::<()>().await;
                    });
                    grandchild.expect("running").await.expect("never ends");
                });
                drop(child.expect("running").await);
                pending::<()>().await;
            });
            Ok(())
        })
        .await;
    let mut cut = diary.lines();
    assert_eq!(cut.pop().as_deref(), Some("close"), "{cut:?}");
    cut.sort();
    assert_eq!(cut, ["child", "grandchild", "parent"]);
    let lost: Vec<_> = report
        .lost()
        .iter()
        .map(|loss| (&*loss.name, loss.outcome))
        .collect();
    assert_eq!(
        lost,
        [
            ("child", Outcome::Cancelled),
            ("grandchild", Outcome::Cancelled)
        ]
    );
    assert!(
        report
            .lost()
            .iter()
            .all(|loss| loss.place.contains("children.rs:"))
    );
    assert_eq!(report.exit_code(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_child_outlives_its_parent_and_is_waited_for() {
    let diary = Diary::default();
    let theirs = diary.clone();
    let report = calm()
        .run(async move |app| {
            app.task("parent", |stop| async move {
                drop(stop.spawn("child", async move {
                    tokio::time::sleep(millis(500)).await;
                    theirs.write("child done");
                }));
            });
            Ok(())
        })
        .await;
    assert_eq!(diary.lines(), ["child done"]);
    assert_eq!(
        (report.exit_code(), report.cause()),
        (0, Some(&Cause::AllTasksEnded)),
        "{report}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_handle_gives_the_result() {
    let report = calm()
        .run(async |app| {
            app.task("parent", |stop| async move {
                let child = stop.spawn("sum", async { 1 + 2 })?;
                assert_eq!(child.await?, 3);
                Ok::<_, adieu::BoxError>(())
            });
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
}

#[tokio::test(start_paused = true)]
async fn a_child_that_panics_stops_the_service_and_its_handle_says_why() {
    let report = calm()
        .run(async |app| {
            app.resource("db", nothing()).await?;
            app.task("parent", |stop| async move {
                let child = stop.spawn("child", async { panic!("no such luck") });
                match child.expect("running").await {
                    Err(TaskError::Panicked { message, place }) => {
                        assert_eq!(message, "no such luck");
                        assert!(place.is_some_and(|place| place.contains("children.rs:")));
                    }
                    other => panic!("unexpected: {other:?}"),
                }
                stop.requested().await;
            });
            Ok(())
        })
        .await;
    assert_eq!(
        report.cause(),
        Some(&Cause::Panic("child".into())),
        "{report}"
    );
    assert_eq!(report.exit_code(), 1);
    assert_eq!(report.part("parent").unwrap().outcome, Outcome::Finished);
    assert_eq!(report.part("db").unwrap().outcome, Outcome::Closed);
    let lost = &report.lost()[0];
    assert_eq!((&*lost.name, lost.outcome), ("child", Outcome::Failed));
}

#[tokio::test(start_paused = true)]
async fn cleanup_spawned_by_a_destructor_while_cancelling_finishes() {
    let diary = Diary::default();
    let theirs = diary.clone();
    let report = stopped_after_a_second()
        .run(async move |app| {
            let diary = theirs.clone();
            app.resource("db", nothing())
                .stop(move |()| async move { diary.write("close") })
                .await?;
            app.task("stuck", |stop| async move {
                let cleanup = stop.clone();
                let _guard = OnDrop(Some(move || {
                    let work = async move {
                        tokio::time::sleep(millis(100)).await;
                        theirs.write("cleaned up");
                    };
                    drop(cleanup.spawn("cleanup", work).expect("not too late"));
                }));
                pending::<()>().await;
            });
            Ok(())
        })
        .await;
    assert_eq!(diary.lines(), ["cleaned up", "close"], "{report}");
    assert_eq!(report.part("stuck").unwrap().outcome, Outcome::Cancelled);
    assert!(report.lost().is_empty(), "{report}");
}

#[tokio::test(start_paused = true)]
async fn many_lost_children_of_one_name_are_one_line() {
    let report = stopped_after_a_second()
        .run(async |app| {
            app.task("parent", |stop| async move {
                for _ in 0..1_000 {
                    drop(stop.spawn("request", pending::<()>()).expect("running"));
                }
                stop.requested().await;
            });
            Ok(())
        })
        .await;
    let [lost] = report.lost() else {
        panic!("one line: {report}")
    };
    assert_eq!(
        (&*lost.name, lost.count, lost.outcome),
        ("request", 1_000, Outcome::Cancelled)
    );
    assert!(
        report.to_string().contains("request ×1000 cancelled"),
        "{report}"
    );
}
