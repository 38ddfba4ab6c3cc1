//! The page, and one WebSocket from its first message to its last.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use adieu::App;
use adieu::http::{WebSocket, WebSocketUpgrade};
use adieu::net::Carried;
use adieu::report::Notice;
use axum::Router;
use axum::extract::ws::Message;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use clap::Parser;
use serde::{Deserialize, Serialize};

use crate::rooms::{Room, Rooms};

/// The longest message.
const LONGEST: usize = 4 * 1_024;

/// A chat whose rooms survive a deploy
#[derive(Parser)]
struct Options {
    /// Where to listen
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: String,
    /// The directory of the rooms
    #[arg(long, default_value = "rooms")]
    rooms: PathBuf,
}

pub(crate) fn run() -> adieu::Report {
    let options = Options::parse();
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        // tracing would report it with eprintln!, which panics if standard error is closed.
        .log_internal_errors(false)
        .init();
    adieu::service("chat")
        .handoff()
        .on_notice(|notice| {
            if let Notice::TookOver { pid } = notice {
                say(&format!("took over from {pid}"));
            }
        })
        .run(async move |app: &mut App| setup(app, options).await)
}

async fn setup(app: &mut App, options: Options) -> adieu::Result {
    let rooms = Rooms::open(options.rooms)?;
    let listener = app.listen("chat", options.listen).await?;
    let listener = listener.on_listening(|address| {
        say(&format!("listening on {address} as {}", std::process::id()));
    });
    let router = Router::new()
        .route("/", get(async || Html(include_str!("page.html"))))
        .route("/chat", get(join))
        .with_state(rooms);
    app.http(listener, router);
    Ok(())
}

/// Not println!, which panics if standard output is closed.
fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}

/// Who joins which room.
#[derive(Deserialize)]
struct Guest {
    room: String,
    name: String,
}

async fn join(
    State(rooms): State<Rooms>,
    Query(guest): Query<Guest>,
    upgrade: WebSocketUpgrade,
) -> Response {
    let name = guest.name.trim().to_owned();
    if name.is_empty() || name.len() > 64 {
        return (StatusCode::BAD_REQUEST, "a name has 1 to 64 bytes\n").into_response();
    }
    let Some(room) = rooms.room(&guest.room) else {
        let why = "the name of a room is 1 to 32 of a-z, 0-9 and -\n";
        return (StatusCode::BAD_REQUEST, why).into_response();
    };
    let (again, again_name) = (room.clone(), name.clone());
    upgrade
        .max_message_size(LONGEST)
        .adopt(
            async move |socket, state| match (state.name(), state.version()) {
                ("chat", 1) => {
                    let seen = std::str::from_utf8(state.bytes())?.parse()?;
                    talk(socket, again, again_name, seen).await
                }
                _ => Err("a state of another version".into()),
            },
        )
        .on_upgrade(async move |socket| {
            let from = room.recent().await?;
            talk(socket, room, name, from).await
        })
}

/// A line of a room.
#[derive(Serialize)]
struct Line<'text> {
    name: &'text str,
    text: &'text str,
    /// The process that has taken it.
    by: u32,
}

/// Sends what is said in the room, from this place in it on, and says what the client sends.
async fn talk(mut socket: WebSocket, room: Room, name: String, mut seen: u64) -> adieu::Result {
    let mut changes = room.changes();
    loop {
        let lines = room.read(seen).await?;
        for line in lines.text.lines() {
            socket.send(Message::text(line)).await?;
        }
        seen = lines.end;
        if lines.has_more {
            continue;
        }
        tokio::select! {
            message = socket.recv() => match message {
                None => break,
                Some(message) => if let Message::Text(text) = message? {
                    let by = std::process::id();
                    let line = Line { name: &name, text: &text, by };
                    room.say(serde_json::to_string(&line)?).await?;
                },
            },
            changed = changes.changed() => changed?,
        }
    }
    // The client has hung up, or the service stops. The room and the name are in the request.
    Ok(socket.carry(Carried::new("chat", 1, seen.to_string()))?)
}
