//! Task groups (R13–R15).

use std::error::Error;
use std::future::pending;
use std::io;

use adieu::group::GroupCause;
use adieu::report::Cause;
use adieu::{Stop, TaskError};

use crate::clues::{Diary, Flag, OnDrop, calm, millis, secs, stopped_after_a_second};

/// Runs `code` as the only task of a service; its panics are the test's.
async fn in_task<Fut: Future<Output = ()> + Send + 'static>(
    code: impl FnOnce(Stop) -> Fut + Send + 'static,
) -> adieu::Report {
    let report = calm()
        .run(async |app| {
            app.task("test", code);
            Ok(())
        })
        .await;
    let failure = report.part("test").and_then(|part| part.failure.clone());
    assert!(failure.is_none(), "{report}");
    report
}

#[tokio::test(start_paused = true)]
async fn results_come_back_typed_in_the_order_of_spawning() {
    let _ = in_task(|stop| async move {
        let mut group = stop.group::<u64, io::Error>();
        for number in 0..10_u64 {
            let member = move |_| async move {
                tokio::time::sleep(millis(100 - number * 10)).await;
                Ok(number)
            };
            group.spawn(format!("n{number}"), member).expect("running");
        }
        assert_eq!(
            group.join().await.expect("all well"),
            (0..10).collect::<Vec<_>>()
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn one_failure_cancels_the_siblings_and_keeps_its_cause() {
    let cut = Flag::default();
    let theirs = cut.clone();
    let report = in_task(|stop| async move {
        let mut group = stop.group::<u8, io::Error>();
        group.spawn("quick", |_| async { Ok(1) }).expect("running");
        let failing = |_| async {
            tokio::time::sleep(millis(50)).await;
            Err(io::Error::new(io::ErrorKind::NotFound, "page 7 is gone"))
        };
        group.spawn("failing", failing).expect("running");
        let endless = move |_| async move {
            let _guard = theirs.on_drop();
            pending::<()>().await;
            Ok(3)
        };
        group.spawn("endless", endless).expect("running");
        let error = group.join().await.expect_err("one failed");
        assert_eq!(error.task, "failing");
        assert!(error.place.file().ends_with("groups.rs"));
        let source = error
            .source()
            .expect("the cause")
            .downcast_ref::<io::Error>();
        assert_eq!(source.map(io::Error::kind), Some(io::ErrorKind::NotFound));
        assert_eq!(error.finished, [("quick".to_owned(), 1)]);
        assert_eq!(error.cancelled, ["endless"]);
        assert!(error.also_failed.is_empty());
    })
    .await;
    assert!(cut.is_set());
    assert_eq!(
        report.exit_code(),
        0,
        "the task has dealt with it: {report}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_member_that_panics_is_the_groups_to_tell() {
    let report = in_task(|stop| async move {
        let mut group = stop.group::<(), io::Error>();
        group
            .spawn("bad", |_| async { panic!("no such page") })
            .expect("running");
        group.spawn("endless", |_| pending()).expect("running");
        let error = group.join().await.expect_err("one panicked");
        let GroupCause::Task(TaskError::Panicked { message, place }) = error.cause else {
            panic!("unexpected: {error:?}")
        };
        assert_eq!(message, "no such page");
        assert!(place.is_some_and(|place| place.contains("groups.rs:")));
    })
    .await;
    assert_eq!(report.cause(), Some(&Cause::AllTasksEnded), "{report}");
    assert_eq!(report.exit_code(), 0);
}

#[tokio::test(start_paused = true)]
async fn failures_while_being_cancelled_are_told_too() {
    let _ = in_task(|stop| async move {
        let mut group = stop.group::<(), &str>();
        group.spawn("first", |_| async { Err("first") }).expect("running");
        let second = |stop: Stop| async move {
            stop.shield(tokio::time::sleep(millis(10))).await;
            Err("second")
        };
        group.spawn("second", second).expect("running");
        let error = group.join().await.expect_err("both failed");
        assert_eq!(error.task, "first");
        assert!(matches!(&error.also_failed[..], [(name, GroupCause::Error("second"))] if name == "second"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn cancel_says_who_was_done_who_was_cut_and_who_is_pending() {
    let report = in_task(|stop| async move {
        let mut group = stop.group::<u8, &str>();
        group.spawn("done", |_| async { Ok(1) }).expect("running");
        group
            .spawn("failed", |_| async { Err("bad") })
            .expect("running");
        group.spawn("endless", |_| pending()).expect("running");
        let slow = |stop: Stop| async move {
            stop.shield(tokio::time::sleep(secs(5))).await;
            Ok(4)
        };
        group.spawn("shielded", slow).expect("running");
        tokio::time::sleep(millis(10)).await;
        let found = group.cancel(secs(1)).await;
        let mut done: Vec<_> = found
            .done
            .iter()
            .map(|(name, end)| (&**name, end.is_ok()))
            .collect();
        done.sort_unstable();
        assert_eq!(done, [("done", true), ("failed", false)]);
        assert_eq!(found.cancelled, ["endless"]);
        assert_eq!(found.pending, ["shielded"]);
    })
    .await;
    // The pending one stayed tracked: the service ended only after it.
    assert_eq!(report.exit_code(), 0, "{report}");
    assert!(
        report
            .timeline()
            .last()
            .is_some_and(|(at, _)| *at >= secs(5)),
        "{report}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_dropped_group_cancels_its_members_and_their_children() {
    let (member, child) = (Flag::default(), Flag::default());
    let flags = (member.clone(), child.clone());
    let report = in_task(|stop| async move {
        let (member, child) = flags;
        let mut group = stop.group::<(), io::Error>();
        let code = move |stop: Stop| async move {
            let _guard = member.on_drop();
            let work = async move {
                let _guard = child.on_drop();
                pending::<()>().await;
            };
            drop(stop.spawn("child", work).expect("running"));
            pending().await
        };
        group.spawn("member", code).expect("running");
        tokio::time::sleep(millis(10)).await;
        drop(group);
    })
    .await;
    assert!(member.is_set() && child.is_set());
    assert_eq!(report.exit_code(), 0, "{report}");
    assert!(report.took() < secs(1), "{report}");
}

#[tokio::test(start_paused = true)]
async fn a_group_inside_a_group_is_cancelled_with_it() {
    let inner = Flag::default();
    let theirs = inner.clone();
    let _ = in_task(|stop| async move {
        let mut group = stop.group::<(), &str>();
        let nest = move |stop: Stop| async move {
            let mut nested = stop.group::<(), &str>();
            let endless = move |_| async move {
                let _guard = theirs.on_drop();
                pending().await
            };
            nested.spawn("inner", endless).expect("running");
            nested.join().await.map(drop).map_err(|_| "inner failed")
        };
        group.spawn("nest", nest).expect("running");
        let failing = |_| async {
            tokio::time::sleep(millis(10)).await;
            Err("enough")
        };
        group.spawn("failing", failing).expect("running");
        assert_eq!(group.join().await.expect_err("failing").task, "failing");
    })
    .await;
    assert!(inner.is_set());
}

#[tokio::test(start_paused = true)]
async fn cleanup_spawned_while_the_group_is_cancelled_still_runs() {
    let diary = Diary::default();
    let theirs = diary.clone();
    let _ = in_task(|stop| async move {
        let mut group = stop.group::<(), &str>();
        let member = move |stop: Stop| async move {
            let _guard = OnDrop(Some(move || {
                let work = async move {
                    tokio::time::sleep(millis(10)).await;
                    theirs.write("cleaned up");
                };
                drop(stop.spawn("cleanup", work).expect("running"));
            }));
            pending().await
        };
        group.spawn("member", member).expect("running");
        tokio::time::sleep(millis(10)).await;
        assert_eq!(group.cancel(secs(1)).await.cancelled, ["member"]);
    })
    .await;
    assert_eq!(diary.lines(), ["cleaned up"]);
}

#[tokio::test(start_paused = true)]
async fn the_services_own_cancelling_is_told_as_such() {
    let report = stopped_after_a_second()
        .run(async |app| {
            app.task("parent", |stop| async move {
                let mut group = stop.group::<(), io::Error>();
                group.spawn("member", |_| pending()).expect("running");
                let error = stop.shield(group.join()).await.expect_err("cut");
                assert!(
                    matches!(error.cause, GroupCause::Task(TaskError::Cancelled)),
                    "{error:?}"
                );
            });
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 3, "{report}");
    assert_eq!(report.lost()[0].name, "member");
}

#[tokio::test(start_paused = true)]
async fn a_failed_group_is_a_failed_task_with_the_whole_chain() {
    let report = calm()
        .run(async |app| {
            app.task("importer", |stop| async move {
                let mut group = stop.group::<(), io::Error>();
                group.spawn("page 7", |_| async {
                    Err(io::Error::other("the page is torn"))
                })?;
                group.join().await?;
                Ok::<_, adieu::BoxError>(())
            });
            Ok(())
        })
        .await;
    let failure = report
        .part("importer")
        .unwrap()
        .failure
        .clone()
        .expect("it failed");
    assert!(
        failure.causes[0].contains("`page 7` of a group failed"),
        "{failure}"
    );
    assert_eq!(failure.causes[1], "the page is torn");
}
