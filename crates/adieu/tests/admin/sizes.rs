//! What clients send has bounds in the report, and does nothing to a terminal that shows it.

use std::future::pending;
use std::time::Duration;

use adieu::{App, Report};
use axum::Router;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};

use crate::client::within;

/// Asks for each of these paths, of a server that never answers, and stops it when all have arrived.
async fn cut(paths: Vec<String>) -> Report {
    let (say, said) = oneshot::channel();
    let (arrive, mut arrived) = mpsc::unbounded_channel();
    let scope =
        adieu::scope("orders")
            .grace(Duration::from_secs(1))
            .run(async move |app: &mut App| {
                let api = app.listen("api", "127.0.0.1:0").await?;
                let _ = say.send((api.local_addr(), app.shutdown_handle()));
                let hang = async move || {
                    let _ = arrive.send(());
                    pending::<()>().await;
                };
                app.http(api, Router::new().fallback(hang));
                Ok(())
            });
    let asking = async {
        let (address, handle) = said.await.expect("an address");
        let address = address.expect("a TCP address");
        let mut streams = Vec::new();
        for path in paths {
            let mut stream = loop {
                // It is bound, and listens a moment later.
                match TcpStream::connect(address).await {
                    Ok(stream) => break stream,
                    Err(_) => tokio::task::yield_now().await,
                }
            };
            let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
            let sent = stream.write_all(request.as_bytes()).await;
            sent.expect("the request is sent");
            within("the request", arrived.recv()).await;
            streams.push(stream);
        }
        handle.stop("the test is over");
        streams
    };
    let (report, _streams) = tokio::join!(scope, asking);
    assert_eq!(report.exit_code(), 3, "{report}");
    report
}

#[tokio::test(flavor = "multi_thread")]
async fn long_paths_make_no_long_report() {
    const REQUESTS: usize = 100;
    let long = "x".repeat(60_000);
    let report = cut((0..REQUESTS)
        .map(|number| format!("/{number}/{long}"))
        .collect())
    .await;
    assert_eq!(report.lost().len(), REQUESTS);
    for loss in report.lost() {
        assert!(loss.name.starts_with("GET /"), "{}", loss.name);
        // 200 characters, the mark, and who asked.
        assert!(loss.name.chars().count() < 240, "{}", loss.name);
    }
    // For each request a line that says what was lost, and one of the timeline.
    let (json, text) = (report.to_json().len(), report.to_string().len());
    assert!(json < REQUESTS * 1_500, "{json} bytes of JSON");
    assert!(text < REQUESTS * 500, "{text} bytes of text");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_controls_a_terminal_is_spelled_out() {
    let hidden = ['\u{9b}', '\u{202e}', '\u{2066}', '\u{85}'];
    let path = format!("/a{}b", String::from_iter(hidden));
    let report = cut(vec![path]).await;
    let name = &report.lost()[0].name;
    assert!(
        name.starts_with(r"GET /a\u{9b}\u{202e}\u{2066}\u{85}b from 127.0.0.1:"),
        "{name}"
    );
    for text in [report.to_string(), report.to_json()] {
        assert!(!text.contains(hidden), "{text:?}");
    }
}

/// Names of tasks, reasons, errors: also what the program itself has from elsewhere.
#[tokio::test(start_paused = true)]
async fn so_is_what_the_program_has_from_others() {
    let report = adieu::scope("or\u{9b}ders")
        .grace(Duration::from_secs(1))
        .run(async |app: &mut App| {
            app.task("up\u{1b}load", |stop| async move {
                let _child = stop.spawn("child\n\u{9b}", pending::<()>());
                stop.requested().await;
                Err::<(), _>("gone\n\u{9b}2J")
            })
            .report_only();
            app.shutdown_handle().stop("asked by\nMAINPID=1\u{202e}");
            Ok(())
        })
        .await;
    let text = report.to_string();
    let json = report.to_json();
    for hidden in ['\u{1b}', '\u{9b}', '\u{202e}'] {
        assert!(
            !text.contains(hidden) && !json.contains(hidden),
            "{text}\n{json}"
        );
    }
    assert!(
        text.starts_with(r"or\u{9b}ders stopped (requested: asked by\nMAINPID=1\u{202e})"),
        "{text}"
    );
    // An error may have several lines. None of them looks like a line of its own.
    assert!(text.contains("gone\n        \\u{9b}2J"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(
        json["parts"][0]["failure"]["causes"][0], "gone\n\u{9b}2J",
        "as it was"
    );
}
