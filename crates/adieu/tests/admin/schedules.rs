//! What runs next, and how it went, on the admin port.

use std::sync::Arc;
use std::time::Duration;

use adieu::App;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::client::{Running, within};

const LONG: Duration = Duration::from_secs(3_600);

/// The schedule with this name.
fn line<'a>(list: &'a Value, name: &str) -> &'a Value {
    let all = list["schedules"].as_array().expect("a list");
    let found = all.iter().find(|line| line["name"] == name);
    found.unwrap_or_else(|| panic!("{name} is not in {list}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_runs_come_first_and_the_past_ones_are_counted() {
    let (begun, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (beginning, going) = (Arc::clone(&begun), Arc::clone(&go));
    let service = Running::start(async move |app: &mut App| {
        app.every("rare", LONG * 24 * 365, |_| async {});
        app.cron("new year", "0 0 1 1 *", "Europe/Berlin", |_| async {});
        app.every("busy", Duration::from_millis(20), move |_| {
            let (begun, go) = (Arc::clone(&beginning), Arc::clone(&going));
            async move {
                begun.notify_one();
                go.notified().await;
                Err::<(), _>("broken")
            }
        })
        .at_start();
        Ok(())
    })
    .await;
    within("the run", begun.notified()).await;
    let list = service.get("/schedules").await.json();
    assert_eq!(
        (&list["service"], &list["count"]),
        (&json!("orders"), &json!(3))
    );
    let names: Vec<_> = list["schedules"].as_array().into_iter().flatten().collect();
    assert_eq!(names[0]["name"], "busy", "{list}");
    let busy = line(&list, "busy");
    assert_eq!((&busy["running"], &busy["runs"]), (&json!(1), &json!(0)));
    assert!(busy["last_ms"].is_u64(), "{busy}");
    let next = line(&list, "new year")["next"].as_str().expect("it comes");
    assert!(next.ends_with("-12-31T23:00:00Z"), "{next}");
    assert_eq!(line(&list, "new year")["last"], Value::Null);

    // When the second run has begun, the first is counted.
    go.notify_one();
    within("another run", begun.notified()).await;
    let list = service.get("/schedules").await.json();
    let busy = line(&list, "busy");
    assert_eq!(busy["running"], 1);
    assert_eq!((&busy["runs"], &busy["failed"]), (&json!(1), &json!(1)));
    go.notify_one();
    assert_eq!(service.stop().await.exit_code(), 0);
}
