//! Restart with backoff, a limit and a window (R31).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use adieu::report::{Cause, Notice, Outcome};
use adieu::{Report, Restart};

use crate::clues::{calm, millis, secs, stopped_after_a_second};

fn delays(report: &Report) -> Vec<Duration> {
    let delay = |(_, notice): &(Duration, Notice)| match notice {
        Notice::Restarting { delay, .. } => Some(*delay),
        _ => None,
    };
    report.timeline().iter().filter_map(delay).collect()
}

async fn always_failing(restart: Restart) -> Report {
    calm()
        .run(async move |app| {
            app.restarting("bad", restart, |_stop| async { Err::<(), _>("again") });
            Ok(())
        })
        .await
}

#[tokio::test(start_paused = true)]
async fn the_delay_doubles_up_to_the_longest_with_jitter() {
    let restart = Restart {
        first: millis(100),
        longest: secs(1),
        limit: 7,
        window: secs(60),
    };
    let report = always_failing(restart).await;
    let full = [100, 200, 400, 800, 1_000, 1_000, 1_000].map(millis);
    let delays = delays(&report);
    assert_eq!(delays.len(), 7, "{report}");
    for (delay, full) in delays.iter().zip(full) {
        assert!((full / 2..=full).contains(delay), "{delays:?}");
    }
    let part = report.part("bad").unwrap();
    assert_eq!((part.restarts, part.outcome), (7, Outcome::Failed));
    assert_eq!(report.cause(), Some(&Cause::Error("bad".into())));
    assert_eq!(report.exit_code(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_zero_is_no_restart() {
    let restart = Restart {
        limit: 0,
        ..Restart::default()
    };
    let report = always_failing(restart).await;
    assert_eq!(report.part("bad").unwrap().restarts, 0);
    assert_eq!(report.exit_code(), 1);
}

#[tokio::test(start_paused = true)]
async fn extreme_delays_are_no_overflow() {
    let restart = Restart {
        first: Duration::MAX,
        longest: Duration::MAX,
        ..Restart::default()
    };
    let report = stopped_after_a_second()
        .run(async move |app| {
            app.restarting("bad", restart, |_stop| async { Err::<(), _>("again") });
            Ok(())
        })
        .await;
    assert_eq!(
        report.part("bad").unwrap().outcome,
        Outcome::Failed,
        "{report}"
    );
    let failure = report
        .part("bad")
        .unwrap()
        .failure
        .clone()
        .expect("it failed");
    assert_eq!(failure.causes, ["again"], "{report}");
}

#[tokio::test(start_paused = true)]
async fn the_first_delay_is_no_longer_than_the_longest() {
    let restart = Restart {
        first: secs(50),
        longest: millis(10),
        limit: 1,
        window: secs(60),
    };
    let report = always_failing(restart).await;
    assert!(delays(&report)[0] <= millis(10), "{:?}", delays(&report));
}

#[tokio::test(start_paused = true)]
async fn failures_outside_the_window_are_forgotten() {
    let restart = Restart {
        first: millis(10),
        longest: millis(10),
        limit: 2,
        window: secs(10),
    };
    let starts = Arc::new(AtomicU32::new(0));
    let theirs = Arc::clone(&starts);
    let report = calm()
        .run(async move |app| {
            app.restarting("rare", restart, move |_stop| {
                let number = theirs.fetch_add(1, Ordering::Relaxed);
                async move {
                    if number == 20 {
                        return Ok(());
                    }
                    tokio::time::sleep(secs(6)).await;
                    Err("rarely")
                }
            });
            Ok(())
        })
        .await;
    assert_eq!(
        report.exit_code(),
        0,
        "two failures in a window are borne: {report}"
    );
    assert_eq!(report.part("rare").unwrap().restarts, 20);
}

#[tokio::test(start_paused = true)]
async fn after_a_whole_window_without_failure_the_delay_starts_again() {
    let restart = Restart {
        first: millis(100),
        longest: secs(30),
        limit: 5,
        window: secs(10),
    };
    let starts = Arc::new(AtomicU32::new(0));
    let report = calm()
        .run(async move |app| {
            app.restarting("bad", restart, move |_stop| {
                let number = starts.fetch_add(1, Ordering::Relaxed);
                async move {
                    match number {
                        0..=2 => Err("early"),
                        3 => {
                            tokio::time::sleep(secs(11)).await;
                            Err("late")
                        }
                        _ => Ok(()),
                    }
                }
            });
            Ok(())
        })
        .await;
    let delays = delays(&report);
    assert_eq!(delays.len(), 4, "{report}");
    assert!(delays[3] <= millis(100), "{delays:?}");
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_closure_itself_is_a_failure_too() {
    let starts = Arc::new(AtomicU32::new(0));
    let report = calm()
        .run(async move |app| {
            app.restarting("bad", Restart::default(), move |_stop| {
                assert!(
                    starts.fetch_add(1, Ordering::Relaxed) > 0,
                    "the first start fails"
                );
                async {}
            });
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
    assert_eq!(report.part("bad").unwrap().restarts, 1);
}

#[tokio::test(start_paused = true)]
async fn a_stop_in_the_middle_of_a_delay_does_not_wait_for_it() {
    let restart = Restart {
        first: secs(3_600),
        longest: secs(3_600),
        ..Restart::default()
    };
    let report = stopped_after_a_second()
        .run(async move |app| {
            app.restarting("bad", restart, |_stop| async { Err::<(), _>("again") });
            Ok(())
        })
        .await;
    assert!(report.took() < millis(10), "{report}");
    assert_eq!(report.part("bad").unwrap().outcome, Outcome::Failed);
}

#[tokio::test(start_paused = true)]
async fn report_only_after_the_last_restart_goes_on_without_it() {
    let restart = Restart {
        limit: 1,
        ..Restart::default()
    };
    let report = stopped_after_a_second()
        .run(async move |app| {
            app.restarting("bad", restart, |_stop| async { Err::<(), _>("again") })
                .report_only();
            app.task("good", |stop| async move { stop.requested().await });
            Ok(())
        })
        .await;
    assert!(
        matches!(report.cause(), Some(Cause::Requested(_))),
        "{report}"
    );
    assert_eq!(report.part("bad").unwrap().restarts, 1);
    assert_eq!(report.exit_code(), 1);
}
