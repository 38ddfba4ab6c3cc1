//! Work may create work until the release begins; after that it is an error the caller sees (R29).

use crate::clues::{Diary, Flag, calm, millis, nothing};

#[tokio::test(start_paused = true)]
async fn a_cleanup_hook_may_start_work_and_the_release_waits_for_it() {
    let diary = Diary::default();
    let theirs = diary.clone();
    let report = calm()
        .run(async move |app| {
            let (close, stop) = (theirs.clone(), app.stop());
            app.resource("db", nothing())
                .stop(move |()| async move { close.write("close") })
                .await?;
            app.on_cleanup("flush", move || async move {
                drop(stop.spawn("flusher", async move {
                    tokio::time::sleep(millis(200)).await;
                    theirs.write("flushed");
                })?);
                Ok::<_, adieu::TooLate>(())
            });
            app.shutdown_handle().stop("enough");
            Ok(())
        })
        .await;
    assert_eq!(diary.lines(), ["flushed", "close"], "{report}");
    assert_eq!(report.exit_code(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_close_cannot_start_work_and_sees_why() {
    let ran = Flag::default();
    let theirs = ran.clone();
    let report = calm()
        .run(async move |app| {
            let stop = app.stop();
            app.resource("db", nothing())
                .stop(move |()| async move {
                    drop(stop.spawn("straggler", async move { theirs.set() })?);
                    Ok::<_, adieu::TooLate>(())
                })
                .await?;
            app.shutdown_handle().stop("enough");
            Ok(())
        })
        .await;
    assert!(!ran.is_set());
    assert_eq!(report.exit_code(), 1, "{report}");
    assert!(
        report.to_string().contains("`straggler` was not started"),
        "{report}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_exit_hook_cannot_start_work() {
    let report = calm()
        .run(async |app| {
            let stop = app.stop();
            app.on_exit("last", move || async move {
                assert!(stop.spawn("straggler", async {}).is_err());
                assert!(stop.blocking("straggler", || ()).is_err());
            });
            app.shutdown_handle().stop("enough");
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
}

#[tokio::test(start_paused = true)]
async fn a_task_may_start_work_in_its_last_breath() {
    let diary = Diary::default();
    let theirs = diary.clone();
    let report = calm()
        .run(async move |app| {
            app.task("worker", |stop| async move {
                stop.requested().await;
                drop(stop.spawn("farewell", async move { theirs.write("farewell") })?);
                Ok::<_, adieu::TooLate>(())
            });
            app.shutdown_handle().stop("enough");
            Ok(())
        })
        .await;
    assert_eq!(diary.lines(), ["farewell"]);
    assert_eq!(report.exit_code(), 0, "{report}");
}
