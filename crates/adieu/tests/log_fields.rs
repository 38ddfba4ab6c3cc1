//! What a subscriber of `tracing` gets: fields, and not only text.
//!
//! A binary of its own: its subscriber is that of the process.

use std::collections::BTreeMap;
use std::fmt;
use std::future::pending;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use adieu::{App, Restart};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// One event: its level and its fields, `message` among them.
type Line = (Level, BTreeMap<&'static str, String>);

/// Keeps the events of this library.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<Line>>>);

struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl Subscriber for Kept {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "adieu"
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(BTreeMap::new());
        event.record(&mut fields);
        let line = (*event.metadata().level(), fields.0);
        self.0.lock().expect("never poisoned").push(line);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::test(start_paused = true)]
async fn each_line_has_its_fields() {
    let kept = Kept::default();
    tracing::subscriber::set_global_default(kept.clone()).expect("the only one");
    let mut attempts = 0;
    let made_at = line!() + 6;
    let report = adieu::scope("orders")
        .grace(Duration::from_secs(10))
        .run(async move |app: &mut App| {
            app.resource("db", async { Ok::<_, io::Error>(()) }).await?;
            // One line, so that its number is known.
            app.task("metrics", |_stop| async {
                Err::<(), _>(io::Error::other("no disk"))
            })
            .report_only();
            app.restarting("listener", Restart::default(), move |stop| {
                attempts += 1;
                let is_first = attempts == 1;
                async move {
                    if is_first {
                        return Err(io::Error::other("port is taken"));
                    }
                    stop.requested().await;
                    Ok(())
                }
            });
            app.task("stuck", |_stop| pending::<()>());
            let handle = app.shutdown_handle();
            app.task("main", move |stop| async move {
                let _child = stop.spawn("upload", pending::<()>());
                stop.sleep(Duration::from_secs(1)).await;
                handle.stop("enough");
            });
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 3, "{report}");
    let kept = kept.0.lock().expect("never poisoned");
    let find = |level: Level, wanted: &[(&str, &str)]| {
        let has = |line: &&Line| {
            let found =
                |(name, value): &(&str, &str)| line.1.get(name).is_some_and(|it| it == value);
            line.0 == level && wanted.iter().all(found)
        };
        let found = kept.iter().find(has);
        found.unwrap_or_else(|| panic!("no {level} line with {wanted:?} in {kept:#?}"))
    };
    for (_, fields) in kept.iter() {
        assert_eq!(
            fields.get("service").map(String::as_str),
            Some("orders"),
            "{fields:?}"
        );
        assert!(fields.contains_key("message"), "{fields:?}");
    }
    let place = |line: &Line| line.1.get("place").cloned().unwrap_or_default();
    find(Level::INFO, &[("part", "db"), ("message", "opened db")]);
    find(Level::INFO, &[("cause", "requested: enough")]);
    for phase in ["announce", "drain", "cancel", "release", "save"] {
        find(Level::INFO, &[("phase", phase)]);
    }
    let failed = find(
        Level::WARN,
        &[
            ("part", "metrics"),
            ("kind", "task"),
            ("outcome", "failed"),
            ("failure", "no disk"),
        ],
    );
    let file = format!("tests/log_fields.rs:{made_at}:");
    assert!(place(failed).contains(&file), "{failed:?} is not at {file}");
    let again = find(
        Level::WARN,
        &[("part", "listener"), ("failure", "port is taken")],
    );
    assert!(place(again).contains("tests/log_fields.rs:"), "{again:?}");
    find(
        Level::WARN,
        &[
            ("part", "stuck"),
            ("kind", "task"),
            ("outcome", "cancelled"),
        ],
    );
    let lost = find(Level::WARN, &[("task", "upload")]);
    assert!(place(lost).contains("tests/log_fields.rs:"), "{lost:?}");
    find(
        Level::INFO,
        &[("part", "db"), ("kind", "resource"), ("outcome", "closed")],
    );
    find(Level::INFO, &[("exit", "3")]);
}
