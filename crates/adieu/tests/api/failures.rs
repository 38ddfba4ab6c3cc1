//! One handler for every failure that the program has not handled, and what the report says of many.

use std::future::pending;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use adieu::report::{AfterFailure, Unhandled};
use adieu::{App, BoxError, Report, Restart};

use crate::clues::calm;

/// Runs this, and gives what the handler of failures was called with.
async fn failures(setup: impl AsyncFnOnce(&mut App) -> adieu::Result) -> (Vec<Unhandled>, Report) {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let handler = Arc::clone(&kept);
    let report = calm()
        .on_failure(move |failed| handler.lock().expect("never poisoned").push(failed.clone()))
        .run(setup)
        .await;
    let kept = kept.lock().expect("never poisoned").clone();
    (kept, report)
}

/// Component, what it said, and what follows.
fn told(failures: &[Unhandled]) -> Vec<(&str, String, AfterFailure)> {
    let line = |it: &Unhandled| it.failure.causes.join(": ");
    failures
        .iter()
        .map(|it| (&*it.component, line(it), it.then))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn every_failure_comes_with_its_context() {
    let (failures, report) = failures(async |app: &mut App| {
        app.task("metrics", |_stop| async {
            Err::<(), _>(io::Error::other("no disk"))
        })
        .report_only();
        let restart = Restart {
            limit: 1,
            ..Restart::default()
        };
        app.restarting("listener", restart, |stop| async move {
            stop.sleep(Duration::from_secs(1)).await;
            panic!("port is taken")
        });
        app.on_exit("flush", || async {
            Err::<(), _>(io::Error::other("no collector"))
        });
        Ok(())
    })
    .await;
    assert_eq!(report.exit_code(), 1, "{report}");
    let told = told(&failures);
    assert_eq!(told.len(), 4, "{told:?}");
    assert_eq!(
        told[0],
        ("metrics", "no disk".to_owned(), AfterFailure::GoesOn)
    );
    assert_eq!(
        (told[1].0, &*told[1].1),
        ("listener", "panicked: port is taken")
    );
    assert!(
        matches!(told[1].2, AfterFailure::Restarts { .. }),
        "{told:?}"
    );
    assert_eq!(
        told[2],
        (
            "listener",
            "panicked: port is taken".to_owned(),
            AfterFailure::Stops
        )
    );
    assert_eq!(
        told[3],
        ("flush", "no collector".to_owned(), AfterFailure::Stops)
    );
    for failed in &failures {
        let place = failed.place.as_deref().unwrap_or_default();
        assert!(place.contains("tests/api/failures.rs:"), "{failed:?}");
    }
    let panicked_at = failures[1]
        .failure
        .panicked_at
        .as_deref()
        .unwrap_or_default();
    assert!(
        panicked_at.contains("tests/api/failures.rs:"),
        "{failures:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn so_do_those_of_setup_and_of_children() {
    let (failed, report) =
        failures(async |_app: &mut App| Err(BoxError::from("no configuration"))).await;
    assert_eq!(report.exit_code(), 1, "{report}");
    assert_eq!(
        told(&failed),
        [("setup", "no configuration".to_owned(), AfterFailure::Stops)]
    );
    let (failed, report) = failures(async |app: &mut App| {
        app.task("parent", |stop| async move {
            let _child = stop.spawn("child", async { panic!("no food") });
            stop.requested().await;
        });
        Ok(())
    })
    .await;
    assert_eq!(report.exit_code(), 1, "{report}");
    assert_eq!(
        told(&failed),
        [("child", "panicked: no food".to_owned(), AfterFailure::Stops)]
    );
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_is_not_called_again_and_the_listener_still_is() {
    let (calls, heard) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (handler, listener) = (Arc::clone(&calls), Arc::clone(&heard));
    let report = calm()
        .on_failure(move |_| {
            handler.fetch_add(1, Relaxed);
            panic!("cannot bear it");
        })
        .on_notice(move |_| {
            listener.fetch_add(1, Relaxed);
        })
        .run(async |app: &mut App| {
            for name in ["a", "b"] {
                app.task(name, |_stop| async { Err::<(), _>("gone") })
                    .report_only();
            }
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 1, "{report}");
    assert_eq!(calls.load(Relaxed), 1);
    assert_eq!(heard.load(Relaxed), report.timeline().len());
}

/// A million different names would be a report that no memory holds.
#[tokio::test(start_paused = true)]
async fn beyond_a_thousand_names_the_lost_are_counted() {
    let report = calm()
        .run(async |app: &mut App| {
            let handle = app.shutdown_handle();
            app.task("spawner", move |stop| async move {
                for number in 0..1_100 {
                    let _child = stop.spawn(format!("upload {number}"), pending::<()>())?;
                }
                handle.stop("enough");
                Ok::<_, BoxError>(())
            });
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 3, "{report}");
    assert_eq!(report.lost().len(), 1_000);
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).expect("JSON");
    assert_eq!(json["lost_unnamed"], 100);
    assert!(report.to_string().contains("lost: 100 more\n"));
}

/// A service may restart a task for years.
#[tokio::test(start_paused = true)]
async fn beyond_ten_thousand_the_timeline_leaves_out_what_came_before_the_stop() {
    let mut failures = 0;
    let report = calm()
        .run(async move |app: &mut App| {
            let restart = Restart {
                first: Duration::from_millis(1),
                longest: Duration::from_millis(1),
                limit: u32::MAX,
                ..Restart::default()
            };
            app.restarting("flaky", restart, move |_stop| {
                failures += 1;
                let is_over = failures > 10_100;
                async move { if is_over { Ok(()) } else { Err("x") } }
            });
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
    let json: serde_json::Value = serde_json::from_str(&report.to_json()).expect("JSON");
    let omitted = json["omitted"].as_u64().expect("a number");
    let kept = report.timeline().len() as u64;
    // Nothing is lost between the two: the restarts, and the other lines of a life.
    let restarts = report.timeline().iter();
    let restarts = restarts
        .filter(|(_, it)| matches!(it, adieu::report::Notice::Restarting { .. }))
        .count() as u64;
    assert_eq!(restarts + omitted, 10_100);
    assert!(omitted >= 100, "{omitted}");
    assert!(kept > restarts, "the stop is in it");
    assert!(report.to_json().len() < 10_000_000);
}

/// A task may write a note for each row of a table.
#[tokio::test(start_paused = true)]
async fn beyond_sixty_four_notes_a_component_says_no_more() {
    let report = calm()
        .run(async |app: &mut App| {
            app.task("importer", |stop| async move {
                for number in 1..=70 {
                    stop.note(format!("row {number}"));
                }
            });
            Ok(())
        })
        .await;
    let notes = &report.part("importer").expect("a part").notes;
    assert_eq!(notes.len(), 64);
    assert_eq!(notes[63], "row 64");
}
