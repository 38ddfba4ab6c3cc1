//! The stop handle: it completes at the stop, and not before.

use std::future::{pending, ready};
use std::sync::{Arc, Mutex};

use adieu::report::Outcome;
use tokio::time::Instant;

use crate::clues::{Flag, OnDrop, calm, millis, secs, stopped_after_a_second};

#[tokio::test(start_paused = true)]
async fn requested_wakes_every_task_at_the_moment_of_the_stop() {
    let began = Instant::now();
    let woken = Arc::new(Mutex::new(Vec::new()));
    let theirs = Arc::clone(&woken);
    let report = stopped_after_a_second()
        .run(async move |app| {
            for number in 0..10 {
                let woken = Arc::clone(&theirs);
                app.task(format!("task {number}"), move |stop| async move {
                    assert!(!stop.is_requested());
                    stop.requested().await;
                    assert!(stop.is_requested());
                    woken.lock().unwrap().push(began.elapsed());
                });
            }
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
    assert!(report.took() < millis(10), "{report}");
    let woken = woken.lock().unwrap();
    assert_eq!(woken.len(), 10);
    assert!(
        woken.iter().all(|at| (secs(1)..millis(1_010)).contains(at)),
        "{woken:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn sleep_says_whether_the_whole_time_passed() {
    let report = stopped_after_a_second()
        .run(async |app| {
            app.task("sleeper", |stop| async move {
                assert!(stop.sleep(millis(500)).await);
                assert!(!stop.sleep(secs(3_600)).await);
                assert!(!stop.sleep(millis(1)).await, "already stopping");
            });
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
    assert!(report.took() < millis(10), "{report}");
}

#[tokio::test(start_paused = true)]
async fn until_gives_the_result_or_drops_the_future() {
    let dropped = Flag::default();
    let guard = dropped.on_drop();
    let report = stopped_after_a_second()
        .run(async move |app| {
            app.task("waiter", |stop| async move {
                assert_eq!(stop.until(ready(7)).await, Some(7));
                let endless = async move {
                    let _guard = guard;
                    pending::<()>().await;
                };
                assert_eq!(stop.until(endless).await, None);
            });
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
    assert!(dropped.is_set());
}

#[tokio::test(start_paused = true)]
async fn a_loop_over_a_source_that_is_always_ready_ends_too() {
    let report = stopped_after_a_second()
        .run(async |app| {
            app.task("busy", |stop| async move {
                while stop.until(ready(())).await.is_some() {
                    tokio::time::sleep(millis(1)).await;
                }
                while stop.until(ready(())).await.is_some() {}
            });
            Ok(())
        })
        .await;
    assert_eq!(
        report.part("busy").unwrap().outcome,
        Outcome::Finished,
        "{report}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_deadline_is_when_work_is_cancelled() {
    let cut = Arc::new(Mutex::new(None));
    let theirs = Arc::clone(&cut);
    let report = stopped_after_a_second()
        .run(async move |app| {
            app.task("stuck", |stop| async move {
                assert_eq!(stop.deadline(), None);
                stop.requested().await;
                let deadline = stop.deadline().expect("the stop is requested");
                assert!(deadline > Instant::now() && deadline < Instant::now() + secs(10));
                let _guard = OnDrop(Some(move || {
                    *theirs.lock().unwrap() = Some((Instant::now(), deadline))
                }));
                pending::<()>().await;
            });
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 3, "{report}");
    let (cut, deadline) = cut.lock().unwrap().expect("it was cut");
    assert!(
        cut >= deadline && cut < deadline + millis(10),
        "{cut:?} {deadline:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn in_the_lame_duck_no_task_is_told() {
    let report = stopped_after_a_second()
        .lame_duck(secs(2))
        .run(async |app| {
            app.task("worker", |stop| async move {
                let began = Instant::now();
                stop.requested().await;
                assert!(began.elapsed() >= secs(3));
            });
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
}

#[tokio::test(start_paused = true)]
async fn it_stays_valid_after_the_end() {
    let mut kept = None;
    let report = calm()
        .run(async |app| {
            kept = Some((app.stop(), app.shutdown_handle()));
            app.task("once", |_stop| async {});
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
    let (stop, handle) = kept.expect("setup has run");
    assert!(stop.is_requested());
    assert!(stop.deadline().is_some());
    stop.requested().await;
    assert!(!stop.sleep(secs(1)).await);
    assert_eq!(stop.until(ready(1)).await, None);
    assert_eq!(stop.shield(ready(1)).await, 1);
    handle.stop("too late to matter");
    let refused = stop.spawn("late", async {}).unwrap_err().to_string();
    assert!(refused.contains("`late` was not started"), "{refused}");
    assert!(stop.blocking("late", || ()).is_err());
    assert!(
        stop.group::<(), ()>()
            .spawn("late", |_| ready(Ok(())))
            .is_err()
    );
    assert_eq!(stop.group::<(), std::io::Error>().join().await.unwrap(), []);
}
