//! The export of a stop, to a collector of our own.
#![cfg(feature = "otel")]

use std::net::SocketAddr;
use std::time::Duration;

use adieu::{App, Report, scope};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// Takes one request: its first line, its type, and the JSON in it.
async fn take(stream: TcpStream, status: &str) -> (String, String, Value) {
    let mut stream = BufReader::new(stream);
    let (mut first, mut kind, mut length) = (String::new(), String::new(), 0);
    stream.read_line(&mut first).await.expect("a request");
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.expect("a header");
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        match &*name.to_ascii_lowercase() {
            "content-type" => kind = value.to_owned(),
            "content-length" => length = value.parse().expect("a number"),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.expect("a body");
    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 2\r\n\r\n{{}}");
    stream.write_all(answer.as_bytes()).await.expect("it reads");
    let json = serde_json::from_slice(&body).expect("JSON");
    (first.trim_end().to_owned(), kind, json)
}

async fn collector() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    (listener, address)
}

/// A service with a task, a deaf task and a resource, which is stopped at once.
async fn stopped(address: SocketAddr) -> Report {
    scope("orders")
        .grace(Duration::from_secs(20))
        .stop_when(async {})
        .run(async |app: &mut App| {
            app.resource("db", async { std::io::Result::Ok(()) })
                .await?;
            app.task("importer", |stop| async move { stop.requested().await });
            app.task("deaf", |_stop| std::future::pending::<()>())
                .limit(Duration::from_millis(1));
            app.export_stop(&format!("http://{address}"));
            Ok(())
        })
        .await
}

fn spans(trace: &Value) -> &Vec<Value> {
    let spans = &trace["resourceSpans"][0]["scopeSpans"][0]["spans"];
    spans.as_array().expect("spans")
}

fn span<'trace>(trace: &'trace Value, name: &str) -> &'trace Value {
    let found = spans(trace).iter().find(|span| span["name"] == name);
    found.unwrap_or_else(|| panic!("no span {name}: {trace:#}"))
}

fn attribute<'it>(of: &'it Value, key: &str) -> Option<&'it Value> {
    let all = of["attributes"].as_array().expect("attributes");
    let found = all.iter().find(|it| it["key"] == key)?;
    found["value"].as_object()?.values().next()
}

#[tokio::test]
async fn a_stop_is_a_trace_with_a_span_for_each_phase_and_component() {
    let (listener, address) = collector().await;
    let collecting = async {
        let (stream, _) = listener.accept().await.expect("a client");
        take(stream, "200 OK").await
    };
    let (report, (first, kind, trace)) = tokio::join!(stopped(address), collecting);
    assert_eq!(
        (&*first, &*kind),
        ("POST /v1/traces HTTP/1.1", "application/json")
    );
    let resource = &trace["resourceSpans"][0]["resource"];
    assert_eq!(attribute(resource, "service.name"), Some(&"orders".into()));
    let root = span(&trace, "adieu.stop");
    for phase in ["announce", "drain", "cancel", "release", "save"] {
        let of = span(&trace, &format!("adieu.phase.{phase}"));
        assert_eq!(of["parentSpanId"], root["spanId"], "{of:#}");
    }
    for (name, phase, outcome, error) in [
        ("task importer", "drain", "finished", None),
        ("task deaf", "drain", "cancelled", Some("timeout")),
        ("resource db", "release", "closed", None),
    ] {
        let of = span(&trace, name);
        let parent = span(&trace, &format!("adieu.phase.{phase}"));
        assert_eq!(of["parentSpanId"], parent["spanId"], "{of:#}");
        let event = &of["events"][0];
        assert_eq!(event["name"], "adieu.part.stop");
        assert_eq!(
            attribute(event, "adieu.part.outcome"),
            Some(&outcome.into())
        );
        assert_eq!(attribute(event, "adieu.part.phase"), Some(&phase.into()));
        assert_eq!(
            attribute(event, "error.type"),
            error.map(Value::from).as_ref()
        );
    }
    let mut ids: Vec<_> = spans(&trace)
        .iter()
        .map(|it| it["spanId"].as_str())
        .collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all, "each has a number of its own");
    assert!(ids.iter().all(|id| id.is_some_and(|id| id.len() == 16)));
    assert_eq!(root["traceId"].as_str().map(str::len), Some(32));
    let export = report.part("otlp").expect("it is a hook");
    assert!(export.notes.is_empty(), "{report}");
    assert_eq!(report.exit_code(), 3, "the deaf task was cut");
}

#[tokio::test]
async fn a_collector_that_refuses_or_is_gone_does_not_fail_the_stop() {
    let clean = async |address: SocketAddr| {
        scope("orders")
            .stop_when(async {})
            .run(async |app: &mut App| {
                app.export_stop(&format!("http://{address}/in"));
                Ok(())
            })
            .await
    };
    let (listener, address) = collector().await;
    let refusing = async {
        let (stream, _) = listener.accept().await.expect("a client");
        take(stream, "503 Service Unavailable").await
    };
    let (report, (first, ..)) = tokio::join!(clean(address), refusing);
    assert_eq!(first, "POST /in HTTP/1.1");
    let notes = &report.part("otlp").expect("it is a hook").notes;
    assert!(notes[0].contains("answers 503"), "{notes:?}");
    assert_eq!(report.exit_code(), 0, "{report}");
    drop(listener);
    let report = clean(address).await;
    let notes = &report.part("otlp").expect("it is a hook").notes;
    assert!(notes[0].contains("not exported to"), "{notes:?}");
    assert_eq!(report.exit_code(), 0, "{report}");
}

/// The clock is paused: it goes on when nothing else can, so the bound comes at once.
#[tokio::test(start_paused = true)]
async fn a_collector_that_never_answers_is_given_up_in_time() {
    let (_listener, address) = collector().await;
    let report = scope("orders")
        .grace(Duration::from_secs(4))
        .stop_when(async {})
        .run(async |app: &mut App| {
            app.export_stop(&format!("http://{address}"));
            Ok(())
        })
        .await;
    let export = report.part("otlp").expect("it is a hook");
    assert!(
        export.notes[0].contains("no answer within 1.00 s"),
        "{report}"
    );
    assert_eq!(report.exit_code(), 0, "{report}");
    assert!(report.took() <= Duration::from_millis(1_100), "{report}");
}

#[tokio::test]
async fn an_address_that_is_none_is_told_at_the_start() {
    let report = scope("orders")
        .run(async |app: &mut App| {
            app.export_stop("https://otel:4318");
            Ok(())
        })
        .await;
    assert_eq!(report.exit_code(), 2, "{report}");
    let problem = report.problem().expect("it says why").to_string();
    assert!(problem.contains("TLS is left to a collector"), "{problem}");
}
