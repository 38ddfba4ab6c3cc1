//! The spans of `tracing` that the library makes, and the span that goes along with work.
//!
//! A binary of its own: its subscriber is that of the process.
#![cfg(all(feature = "axum", feature = "schedule", unix))]

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use adieu::queue::MemoryQueue;
use adieu::{App, Stop};
use axum::Router;
use axum::routing::get;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Instrument, Subscriber, info, info_span};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry};

type Fields = BTreeMap<&'static str, String>;

#[derive(Clone, Debug)]
struct Seen {
    id: Id,
    name: &'static str,
    target: &'static str,
    parent: Option<&'static str>,
    follows: Option<&'static str>,
    fields: Fields,
    is_closed: bool,
}

#[derive(Default)]
struct Record {
    spans: Vec<Seen>,
    /// Each event of the test itself, with the spans it came in, the outermost first.
    events: Vec<(String, Vec<&'static str>)>,
}

#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Record>>);

impl Recorder {
    fn lock(&self) -> MutexGuard<'_, Record> {
        self.0.lock().expect("never poisoned")
    }

    /// The spans that have this field with this value.
    fn spans(&self, name: &str, field: &'static str, value: &str) -> Vec<Seen> {
        let is_it =
            |it: &&Seen| it.name == name && it.fields.get(field).is_some_and(|it| it == value);
        self.lock().spans.iter().filter(is_it).cloned().collect()
    }

    fn span(&self, name: &str, field: &'static str, value: &str) -> Seen {
        let spans = self.spans(name, field, value);
        assert_eq!(spans.len(), 1, "{name} {value}: {spans:?}");
        spans[0].clone()
    }

    /// In which spans this was logged.
    fn scope(&self, message: &str) -> Vec<&'static str> {
        let record = self.lock();
        let event = record.events.iter().find(|(said, _)| said == message);
        event
            .unwrap_or_else(|| panic!("not logged: {message}"))
            .1
            .clone()
    }
}

struct Visitor<'it>(&'it mut Fields);

impl Visit for Visitor<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl<S: Subscriber + for<'it> LookupSpan<'it>> Layer<S> for Recorder {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::new();
        attributes.record(&mut Visitor(&mut fields));
        let span = context.span(id).expect("it is new");
        self.lock().spans.push(Seen {
            id: id.clone(),
            name: span.name(),
            target: span.metadata().target(),
            parent: span.parent().map(|parent| parent.name()),
            follows: None,
            fields,
            is_closed: false,
        });
    }

    fn on_follows_from(&self, id: &Id, follows: &Id, context: Context<'_, S>) {
        let follows = context.span(follows).map(|span| span.name());
        let mut record = self.lock();
        let span = record.spans.iter_mut().rev().find(|span| span.id == *id);
        span.expect("it was made").follows = follows;
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if event.metadata().target() != module_path!() {
            return;
        }
        let mut fields = Fields::new();
        event.record(&mut Visitor(&mut fields));
        let scope = context.event_scope(event).into_iter();
        let names = scope.flat_map(|scope| {
            scope
                .from_root()
                .map(|span| span.name())
                .collect::<Vec<_>>()
        });
        let line = (
            fields.remove("message").unwrap_or_default(),
            names.collect(),
        );
        self.lock().events.push(line);
    }

    fn on_close(&self, id: Id, _: Context<'_, S>) {
        let mut record = self.lock();
        let span = record.spans.iter_mut().rev().find(|span| span.id == id);
        span.expect("it was made").is_closed = true;
    }
}

/// The one of this process.
fn recorder() -> &'static Recorder {
    static RECORDER: OnceLock<Recorder> = OnceLock::new();
    RECORDER.get_or_init(|| {
        let recorder = Recorder::default();
        let subscriber = Registry::default().with(recorder.clone());
        tracing::subscriber::set_global_default(subscriber).expect("the only one");
        recorder
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn setup_phases_and_components_have_spans_that_end() {
    let seen = recorder();
    let report = adieu::scope("orders")
        .run(async |app: &mut App| {
            let open = async {
                info!("connecting");
                std::io::Result::Ok(())
            };
            let close = |()| async { info!("disconnecting") };
            app.resource("database", open).stop(close).await?;
            app.on_exit("flush", || async { info!("flushing") });
            let handle = app.shutdown_handle();
            app.task("mailer", async move |stop: Stop| {
                info!("mailing");
                handle.stop("all is mailed");
                stop.requested().await;
            });
            app.blocking("indexer", |_stop| info!("indexing"));
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
    assert_eq!(seen.scope("connecting"), ["setup", "open"]);
    assert_eq!(seen.scope("disconnecting"), ["close"]);
    assert_eq!(seen.scope("flushing"), ["close"]);
    assert_eq!(seen.scope("mailing"), ["component"]);
    assert_eq!(seen.scope("indexing"), ["component"]);

    let setup = seen.span("setup", "service", "orders");
    assert_eq!((setup.target, setup.parent), ("adieu", None));
    assert_eq!(seen.span("open", "part", "database").parent, Some("setup"));
    let kinds = [
        ("close", "database", "resource"),
        ("close", "flush", "on_exit"),
        ("component", "mailer", "task"),
        ("component", "indexer", "blocking"),
    ];
    for (name, part, kind) in kinds {
        let span = seen.span(name, "part", part);
        assert_eq!(span.fields["kind"], kind, "{span:?}");
        assert_eq!(span.parent, None, "{span:?}");
        let target = if name == "component" {
            "adieu::component"
        } else {
            "adieu"
        };
        assert_eq!(span.target, target, "{span:?}");
    }
    let stop = seen.span("stop", "service", "orders");
    assert!(stop.fields["cause"].contains("all is mailed"), "{stop:?}");
    let phases = seen.spans("phase", "service", "orders");
    let names: Vec<&str> = phases.iter().map(|it| &*it.fields["phase"]).collect();
    assert_eq!(names, ["announce", "drain", "cancel", "release", "save"]);
    assert!(
        phases.iter().all(|it| it.parent == Some("stop")),
        "{phases:?}"
    );
    let of_this = |it: &Seen| {
        let names = ["database", "flush", "mailer", "indexer"];
        it.fields.get("service").is_some_and(|it| it == "orders")
            || it
                .fields
                .get("part")
                .is_some_and(|it| names.contains(&&**it))
    };
    let spans = seen.lock().spans.clone();
    let open: Vec<_> = spans
        .iter()
        .filter(|it| of_this(it) && !it.is_closed)
        .collect();
    assert!(open.is_empty(), "{open:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_current_span_goes_along_with_what_is_spawned() {
    let seen = recorder();
    let report = adieu::scope("spawner")
        .run(async |app: &mut App| {
            app.task("parent", |stop: Stop| {
                let request = info_span!("request");
                async move {
                    let inner = stop.clone();
                    let child = stop.spawn("child", async move {
                        info!("in a child");
                        // It is there at every poll, and not only at the first.
                        tokio::task::yield_now().await;
                        info!("in a child that was woken");
                        let grandchild =
                            inner.spawn("grandchild", async { info!("in a grandchild") });
                        drop(grandchild?.await);
                        Ok::<(), adieu::TooLate>(())
                    });
                    child?.await??;
                    stop.blocking("file", || info!("in blocking code"))?.await?;
                    let mut group = stop.group::<(), std::io::Error>();
                    group.spawn("member", |_stop| async {
                        info!("in a group");
                        Ok(())
                    })?;
                    group.join().await?;
                    Ok::<(), adieu::BoxError>(())
                }
                .instrument(request)
            });
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
    for message in [
        "in a child",
        "in a child that was woken",
        "in a grandchild",
        "in blocking code",
        "in a group",
    ] {
        assert_eq!(seen.scope(message), ["component", "request"], "{message}");
    }
}

/// Says so when it is dropped.
struct SaysGoodbye(&'static str);

impl Drop for SaysGoodbye {
    fn drop(&mut self) {
        info!("{}", self.0);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_cut_is_dropped_in_its_span() {
    let seen = recorder();
    let report = adieu::scope("cut")
        .grace(Duration::from_secs(5))
        .stop_when(async {})
        .run(async |app: &mut App| {
            app.task("stubborn", |_stop| async {
                let _goodbye = SaysGoodbye("cut in the middle");
                std::future::pending::<()>().await;
            });
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 3, "{report}");
    assert_eq!(seen.scope("cut in the middle"), ["component"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_job_begins_a_trace_of_its_own() {
    let seen = recorder();
    let queue = MemoryQueue::new(Duration::from_secs(30));
    queue.push("work");
    let report = adieu::scope("jobs")
        .run(async move |app: &mut App| {
            let handle = app.shutdown_handle();
            let (done, is_done) = tokio::sync::mpsc::channel::<()>(2);
            let scheduled = done.clone();
            app.consume("orders", queue, move |_job| {
                let done = done.clone();
                async move {
                    info!("doing a job");
                    let _ = done.try_send(());
                    Ok::<(), adieu::BoxError>(())
                }
            });
            app.every("report", Duration::from_millis(10), move |_run| {
                let done = scheduled.clone();
                async move {
                    info!("reporting");
                    let _ = done.try_send(());
                    Ok::<(), adieu::BoxError>(())
                }
            });
            app.task("end", async move |_stop: Stop| {
                let mut is_done = is_done;
                // One is of the queue, unless the schedule was so much faster that its message found no room.
                while is_done.recv().await.is_some() {
                    let record = recorder().lock();
                    let has = |said: &str| record.events.iter().any(|(it, _)| it == said);
                    if has("doing a job") && has("reporting") {
                        break;
                    }
                }
                handle.stop("both were seen");
            });
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 0, "{report}");
    assert_eq!(seen.scope("doing a job"), ["job"]);
    assert_eq!(seen.scope("reporting"), ["job"]);
    let job = seen.span("job", "part", "orders");
    assert_eq!(job.fields["attempt"], "1", "{job:?}");
    assert!(job.fields.contains_key("job"), "{job:?}");
    assert_eq!((job.parent, job.follows), (None, Some("component")));
    let runs = seen.spans("job", "job", "report");
    let run = runs.first().expect("a run");
    assert!(run.fields["scheduled"].ends_with('Z'), "{run:?}");
    assert_eq!((run.parent, run.follows), (None, Some("component")));
}

/// A request is the beginning of its own trace, and not a part of one that lasts as long as the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_is_in_no_span_of_the_server() {
    let seen = recorder();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let address = listener.local_addr().expect("an address");
    let router = Router::new().route("/", get(async || info!("answering")));
    let (done, is_done) = tokio::sync::oneshot::channel::<()>();
    let served = adieu::serve(listener, router)
        .with_graceful_shutdown(async { drop(is_done.await) })
        .into_future();
    let client = async {
        let mut stream = TcpStream::connect(address).await?;
        stream
            .write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        drop(done);
        std::io::Result::Ok(answer)
    };
    let (drained, answer) = tokio::join!(served, client);
    assert_eq!(drained.expect("it was served").report.exit_code(), 0);
    assert!(answer.expect("an answer").starts_with("HTTP/1.1 200 "));
    assert_eq!(seen.scope("answering"), Vec::<&str>::new());
}
