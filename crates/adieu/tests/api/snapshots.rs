//! What is written and printed, kept as snapshots: a change of them is a change for users.

use std::future::pending;

use adieu::{Report, Restart};
use serde_json::Value;

use crate::clues::{millis, nothing, secs};

/// A life with a bit of everything.
async fn eventful() -> Report {
    adieu::scope("orders")
        .grace(secs(20))
        .stop_when(tokio::time::sleep(secs(60)))
        .run(async |app| {
            app.on_shutdown("deregister", || async {});
            app.resource("postgres", nothing())
                .stop(|()| tokio::time::sleep(millis(250)))
                .await?;
            app.resource("cache", nothing())
                .stop(|()| async { Err::<(), _>("connection reset") })
                .await?;
            app.resource("queue", nothing())
                .stop(|()| pending::<()>())
                .limit(millis(100))
                .await?;
            app.task("importer", |stop| async move {
                for _ in 0..2 {
                    drop(stop.spawn("page", pending::<()>())?);
                }
                stop.requested().await;
                tokio::time::sleep(secs(2)).await;
                Ok::<_, adieu::TooLate>(())
            });
            app.task("stuck", |_stop| pending::<()>());
            let restart = Restart {
                first: millis(1),
                longest: millis(1),
                limit: 1,
                window: secs(60),
            };
            app.restarting("flaky", restart, |_stop| async {
                Err::<(), _>("no answer")
            })
            .report_only();
            app.on_exit("flush", || async {});
            Ok(())
        })
        .await
}

/// Line numbers, random delays and process numbers differ from run to run.
fn without_chance(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(without_chance),
        Value::Object(fields) => {
            for (name, field) in fields {
                match (&**name, &mut *field) {
                    (
                        "pid" | "started_unix_ms" | "delay_ms" | "uptime_ms" | "age_ms" | "at_ms",
                        field,
                    ) => {
                        *field = Value::from(format!("[{name}]"));
                    }
                    // The paused clock goes in steps of a millisecond, and some steps are rounded up.
                    (name, Value::Number(number)) if name.ends_with("_ms") => {
                        let rounded = number.as_f64().map(|ms| (ms / 10.0).round() * 10.0);
                        *field = Value::from(rounded);
                    }
                    ("place", Value::String(place)) => *place = without_line(place),
                    (_, field) => without_chance(field),
                }
            }
        }
        _ => {}
    }
}

fn without_line(place: &str) -> String {
    let file = place.split(':').next().unwrap_or_default();
    let name = file.rsplit('/').next().unwrap_or_default();
    format!("{name}:[line]")
}

#[tokio::test(start_paused = true)]
async fn the_report_as_json() {
    let report = eventful().await;
    let mut value: Value = serde_json::from_str(&report.to_json()).expect("it is JSON");
    without_chance(&mut value);
    insta::assert_snapshot!(format!("{value:#}"));
}

#[tokio::test(start_paused = true)]
async fn the_report_as_text() {
    let text = eventful().await.to_string();
    let lines: Vec<_> = text
        .lines()
        .map(|line| match line.split_once(" at ") {
            Some((before, place)) => format!("{} at {}", without_age(before), without_line(place)),
            None => line.to_owned(),
        })
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
}

/// The age of a task is read from the system's coarse clock.
fn without_age(line: &str) -> String {
    match line.split_once(" old,") {
        Some((before, after)) => {
            let kept = before.rsplit_once(", ").map_or(before, |(kept, _)| kept);
            format!("{kept}, [age] old,{after}")
        }
        None => line.to_owned(),
    }
}

#[tokio::test(start_paused = true)]
async fn the_plan() {
    let mut plan = String::new();
    let report = adieu::scope("orders")
        .grace(secs(20))
        .lame_duck(secs(3))
        .run(async |app| {
            app.on_shutdown("deregister", || async {});
            app.resource("postgres", nothing()).await?;
            app.resource("queue", nothing()).await?;
            app.task("importer", |stop| async move { stop.requested().await });
            app.on_cleanup("sweep", || async {});
            app.on_exit("flush", || async {});
            plan = app.plan().to_string();
            app.shutdown_handle().stop("enough");
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0);
    insta::assert_snapshot!(plan);
}

#[tokio::test]
async fn a_life_that_never_began() {
    let report = adieu::scope("orders")
        .grace(secs(0))
        .run(async |_app| Ok(()))
        .await;
    insta::assert_snapshot!(report.to_string());
}
