//! The service: it counts on every connection, and each number says which process has counted.

use std::io::{self, Read, Write};
use std::process::{ExitCode, Termination, id};
use std::thread;
use std::time::Duration;

use adieu::App;
use adieu::http::{EventStream, ServerSentEvents, WebSocket, WebSocketUpgrade};
use adieu::net::Carried;
use adieu::report::Notice;
use axum::Router;
use axum::response::Response;
use axum::response::sse::Event;
use axum::routing::get;

use super::client::ASK_INTERVAL;

/// Serves on a free port until a signal asks it to stop, or its standard input ends.
pub(in crate::demo) fn serve() -> ExitCode {
    thread::spawn(|| {
        // Nothing is ever written to it: its end is that of the program that shows the demo.
        let _ = io::stdin().lock().read(&mut [0]);
        let _ =
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM);
    });
    adieu::service("counter")
        .grace(Duration::from_secs(10))
        .handoff()
        .on_notice(tell)
        .run(async |app: &mut App| {
            let listener = app.listen("web", "127.0.0.1:0").await?;
            let listener = listener.on_listening(|address| say(&format!("listening on {address}")));
            app.http(listener, router());
            Ok(())
        })
        .report()
}

fn tell(notice: &Notice) {
    match notice {
        Notice::HandOffFailed { why } | Notice::HandOffRefused { why } => {
            say(&format!("hand-off failed: {why}"))
        }
        Notice::HandedOver { pid } => say(&format!("handed over to {pid}")),
        _ => {}
    }
}

/// A closed standard output does not matter.
fn say(line: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

fn router() -> Router {
    Router::new()
        .route("/keep-alive", get(async || id().to_string()))
        .route("/websocket", get(websocket))
        .route("/events", get(events))
}

async fn websocket(upgrade: WebSocketUpgrade) -> Response {
    upgrade
        .adopt(async |socket, state| answer(socket, number(&state)?).await)
        .on_upgrade(|socket| answer(socket, 0))
}

/// Answers each message with its number.
async fn answer(mut socket: WebSocket, mut count: u64) -> adieu::Result {
    while let Some(message) = socket.recv().await {
        message?;
        count += 1;
        socket.send(format!("{count} {}", id()).into()).await?;
    }
    Ok(socket.carry(Carried::new("count", 1, count.to_string()))?)
}

async fn events(events: ServerSentEvents) -> Response {
    events
        .adopt(async |stream, state| count(stream, number(&state)?).await)
        .respond(|stream| count(stream, 0))
}

/// Sends a number again and again.
async fn count(mut stream: EventStream, mut count: u64) -> adieu::Result {
    while stream
        .until(tokio::time::sleep(ASK_INTERVAL))
        .await
        .is_some()
    {
        count += 1;
        let event = Event::default()
            .id(count.to_string())
            .data(id().to_string());
        stream.send(event).await?;
    }
    Ok(stream.carry(Carried::new("count", 1, count.to_string()))?)
}

fn number(state: &Carried) -> adieu::Result<u64> {
    match (state.name(), state.version()) {
        ("count", 1) => Ok(std::str::from_utf8(state.bytes())?.parse()?),
        _ => Err("a state of another version".into()),
    }
}
