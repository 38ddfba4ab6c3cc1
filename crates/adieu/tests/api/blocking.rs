//! Blocking code: on its own pool, known to the stop (R25).

use std::sync::mpsc;

use adieu::TaskError;
use adieu::report::{Cause, Outcome};

use crate::clues::{calm, nothing};

#[tokio::test]
async fn its_value_comes_back() {
    let report = calm()
        .run(async |app| {
            app.task("parent", |stop| async move {
                let sum = stop.blocking("sum", || (1..=100).sum::<u32>())?;
                assert_eq!(sum.await?, 5_050);
                Ok::<_, adieu::BoxError>(())
            });
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
}

#[tokio::test]
async fn the_stop_waits_for_it_and_it_can_look_at_the_stop() {
    let report = calm()
        .run(async |app| {
            let (seen, look) = mpsc::channel::<()>();
            app.blocking("export", move |stop| {
                let _ = look.recv();
                assert!(stop.is_requested());
            });
            app.task("trigger", |stop| async move {
                stop.requested().await;
                let _ = seen.send(());
            });
            app.shutdown_handle().stop("enough");
            app.resource("db", nothing()).await?;
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
    assert_eq!(report.part("export").unwrap().outcome, Outcome::Finished);
}

#[tokio::test]
async fn an_error_from_it_stops_the_service() {
    let report = calm()
        .run(async |app| {
            app.blocking("export", |_stop| Err::<(), _>("the disk is full"));
            app.task("other", |stop| async move { stop.requested().await });
            Ok(())
        })
        .await;
    assert_eq!(
        report.cause(),
        Some(&Cause::Error("export".into())),
        "{report}"
    );
    assert_eq!(report.exit_code(), 1);
    assert!(report.to_string().contains("the disk is full"));
}

#[tokio::test]
async fn a_panic_in_it_stops_the_service_as_a_panic() {
    let report = calm()
        .run(async |app| {
            app.blocking("export", |_stop| -> () { panic!("out of luck") });
            app.task("other", |stop| async move { stop.requested().await });
            Ok(())
        })
        .await;
    assert_eq!(
        report.cause(),
        Some(&Cause::Panic("export".into())),
        "{report}"
    );
    let failure = report
        .part("export")
        .unwrap()
        .failure
        .clone()
        .expect("it failed");
    assert!(
        failure
            .panicked_at
            .is_some_and(|place| place.contains("blocking.rs:"))
    );
}

#[tokio::test]
async fn a_panic_in_a_blocking_child_comes_back_to_its_parent() {
    let report = calm()
        .run(async |app| {
            app.task("parent", |stop| async move {
                let child = stop.blocking("child", || panic!("out of luck"))?;
                let end: Result<(), TaskError> = child.await;
                assert!(matches!(end, Err(TaskError::Panicked { .. })), "{end:?}");
                Ok::<_, adieu::BoxError>(())
            });
            Ok(())
        })
        .await;
    assert_eq!(
        report.cause(),
        Some(&Cause::Panic("child".into())),
        "{report}"
    );
}
