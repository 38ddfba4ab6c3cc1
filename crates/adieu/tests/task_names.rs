//! The names that tokio-console shows. Only in a build with `--cfg tokio_unstable`, in which tokio has names:
//! `cargo xtask test` makes one.
//!
//! A binary of its own: its subscriber is that of the process.
#![cfg(tokio_unstable)]

use std::fmt;
use std::sync::{Arc, Mutex};

use adieu::{App, Stop};
use tracing::Subscriber;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::{Layer, Registry};

/// The names of the tasks that tokio tells of, each with its kind.
#[derive(Clone, Default)]
struct Names(Arc<Mutex<Vec<(String, String)>>>);

#[derive(Default)]
struct Named {
    name: String,
    kind: String,
}

impl Visit for Named {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "task.name" => self.name = format!("{value:?}"),
            "kind" => self.kind = format!("{value:?}"),
            _ => {}
        }
    }
}

impl<S: Subscriber> Layer<S> for Names {
    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        if attributes.metadata().name() == "runtime.spawn" {
            let mut named = Named::default();
            attributes.record(&mut named);
            let mut names = self.0.lock().expect("never poisoned");
            names.push((named.kind, named.name));
        }
    }
}

#[tokio::test]
async fn tasks_and_blocking_code_have_the_names_they_were_given() {
    let names = Names::default();
    let subscriber = Registry::default().with(names.clone());
    tracing::subscriber::set_global_default(subscriber).expect("the only one");
    let report = adieu::scope("orders")
        .run(async |app: &mut App| {
            app.task("mailer", async |stop: Stop| {
                stop.spawn("letter", async {})?.await?;
                stop.blocking("print", || ())?.await?;
                let mut group = stop.group::<(), std::io::Error>();
                group.spawn("page", async |_stop| Ok(()))?;
                group.join().await?;
                Ok::<(), adieu::BoxError>(())
            });
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
    let names = names.0.lock().expect("never poisoned");
    for (kind, name) in [
        ("task", "mailer"),
        ("task", "letter"),
        ("blocking", "print"),
        ("task", "page"),
    ] {
        let is_it = |it: &&(String, String)| it.0 == kind && it.1 == name;
        assert_eq!(names.iter().filter(is_it).count(), 1, "{name}: {names:?}");
    }
}
