//! Tasks that run already when they are registered.

use std::future::pending;
use std::io;

use adieu::Stop;
use adieu::report::Outcome;
use tokio::sync::oneshot;

use crate::clues::{Diary, calm, collapse, millis, nothing, secs, stopped_after_a_second};

#[tokio::test(start_paused = true)]
async fn it_is_waited_for_and_resources_close_after_it() {
    let diary = Diary::default();
    let (work, closes) = (diary.clone(), diary.clone());
    let report = stopped_after_a_second()
        .run(async move |app| {
            app.resource("db", nothing())
                .stop(move |()| async move { closes.write("db closed") })
                .await?;
            let task = tokio::spawn(async move {
                tokio::time::sleep(secs(3)).await;
                work.write("import done");
            });
            app.register_task("import", task);
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
    assert_eq!(report.part("import").unwrap().outcome, Outcome::Finished);
    assert_eq!(diary.lines(), ["import done", "db closed"]);
    assert_eq!(report.took(), secs(2));
}

#[tokio::test(start_paused = true)]
async fn one_that_does_not_end_is_aborted_before_resources_close() {
    let diary = Diary::default();
    let (gone, closes) = (diary.on_drop("task dropped"), diary.clone());
    let report = stopped_after_a_second()
        .run(async move |app| {
            app.resource("db", nothing())
                .stop(move |()| async move { closes.write("db closed") })
                .await?;
            let task = tokio::spawn(async move {
                let _gone = gone;
                pending::<()>().await;
            });
            app.register_task("stuck", task);
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 3, "{report}");
    let stuck = report.part("stuck").unwrap();
    assert_eq!(stuck.outcome, Outcome::Cancelled);
    assert!(stuck.place.contains("registered.rs"), "{}", stuck.place);
    assert_eq!(diary.lines(), ["task dropped", "db closed"]);
}

/// An abort is asked for and not done: a task in the middle of a poll goes on to its next await.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abort_is_waited_for() {
    let diary = Diary::default();
    let (work, closes) = (diary.clone(), diary.clone());
    let (busy, is_busy) = oneshot::channel();
    let (go_on, told) = std::sync::mpsc::channel::<()>();
    let report = adieu::scope("test")
        .grace(secs(3))
        .on_notice(move |notice| {
            // The cancelling has begun; the task is still in its poll.
            if matches!(
                notice,
                adieu::report::Notice::Phase {
                    phase: adieu::report::Phase::Cancel,
                    ..
                }
            ) {
                let go_on = go_on.clone();
                std::thread::spawn(move || {
                    std::thread::sleep(millis(100));
                    go_on.send(())
                });
            }
        })
        .run(async move |app| {
            app.resource("db", nothing())
                .stop(move |()| async move { closes.write("db closed") })
                .await?;
            let task = tokio::spawn(async move {
                let _ = busy.send(());
                let _ = told.recv();
                work.write("poll done");
                pending::<()>().await;
            });
            app.register_task("busy", task).limit(millis(50));
            let _ = is_busy.await;
            app.shutdown_handle().stop("now");
            Ok(())
        })
        .await;
    assert_eq!(diary.lines(), ["poll done", "db closed"], "{report}");
    assert_eq!(report.part("busy").unwrap().outcome, Outcome::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn its_own_limit_counts() {
    let report = stopped_after_a_second()
        .run(async |app| {
            app.register_task("slow", tokio::spawn(pending::<()>()))
                .limit(secs(1));
            app.task("other", |stop| async move {
                stop.requested().await;
                tokio::time::sleep(secs(3)).await;
            });
            Ok(())
        })
        .await;
    let slow = report.part("slow").unwrap();
    assert_eq!(slow.outcome, Outcome::Cancelled, "{report}");
    assert_eq!(slow.ending, secs(1));
    assert_eq!(report.part("other").unwrap().outcome, Outcome::Finished);
}

#[tokio::test(start_paused = true)]
async fn its_failure_stops_the_service() {
    for panics in [false, true] {
        let report = calm()
            .run(async move |app| {
                let task = tokio::spawn(async move {
                    tokio::time::sleep(secs(1)).await;
                    if panics {
                        collapse("told to panic");
                    }
                    Err::<(), _>(io::Error::other("told to fail"))
                });
                app.register_task("bad", task);
                app.task("other", |stop| async move { stop.requested().await });
                Ok(())
            })
            .await;
        let bad = report.part("bad").unwrap();
        assert_eq!(bad.outcome, Outcome::Failed, "{report}");
        let (cause, why) = match panics {
            true => ("panic bad", "told to panic"),
            false => ("error bad", "told to fail"),
        };
        let stopped = report
            .timeline()
            .iter()
            .find_map(|(_, notice)| match notice {
                adieu::report::Notice::Stopping { cause } => Some(cause.to_string()),
                _ => None,
            });
        assert_eq!(stopped.as_deref(), Some(cause));
        assert!(report.to_string().contains(why), "{report}");
        assert_eq!(report.exit_code(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_the_program_aborts_itself_has_ended() {
    let report = stopped_after_a_second()
        .run(async |app| {
            let task = tokio::spawn(pending::<()>());
            let abort = task.abort_handle();
            app.register_task("fetcher", task);
            app.task("other", move |stop| async move {
                abort.abort();
                stop.requested().await;
            });
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
    let fetcher = report.part("fetcher").unwrap();
    assert_eq!(fetcher.outcome, Outcome::Finished);
    assert_eq!(fetcher.notes, ["aborted by the program"]);
}

#[tokio::test(start_paused = true)]
async fn while_running_a_task_registers_its_own() {
    let diary = Diary::default();
    let gone = diary.on_drop("task dropped");
    let report = stopped_after_a_second()
        .run(async move |app| {
            app.task("worker", |stop| async move {
                let quick = tokio::spawn(async { 7 });
                stop.register_task("quick", quick).expect("running");
                let task = tokio::spawn(async move {
                    let _gone = gone;
                    pending::<()>().await;
                });
                stop.register_task("stuck", task).expect("running");
                stop.requested().await;
            });
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 3, "{report}");
    assert_eq!(report.part("worker").unwrap().outcome, Outcome::Finished);
    let lost: Vec<_> = report
        .lost()
        .iter()
        .map(|loss| (&*loss.name, loss.outcome))
        .collect();
    assert_eq!(lost, [("stuck", Outcome::Cancelled)]);
    assert_eq!(diary.lines(), ["task dropped"]);
}

#[tokio::test(start_paused = true)]
async fn too_late_it_is_aborted() {
    let (keep, kept) = std::sync::mpsc::channel::<Stop>();
    let report = calm()
        .run(async move |app| {
            keep.send(app.stop()).expect("the test listens");
            app.task("once", |_stop| async {});
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
    let task = tokio::spawn(pending::<()>());
    let state = task.abort_handle();
    let stop = kept.recv().expect("setup has run");
    let late = stop.register_task("late", task).expect_err("it is over");
    assert!(late.to_string().contains("late"), "{late}");
    while !state.is_finished() {
        tokio::task::yield_now().await;
    }
}
