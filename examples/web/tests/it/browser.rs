//! A real browser: a page with a WebSocket, and the spare sockets that browsers open.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;

use axum::Router;
use axum::extract::ws::{WebSocket, WebSocketUpgrade};
use axum::response::Html;
use axum::routing::{any, get};
use rustix::process::{self, Pid, Signal};
use tempfile::TempDir;

use crate::live::PATIENCE;
use crate::own::Own;

/// What the page tells, told by the request lines that arrive here: the service itself will be gone.
fn ear() -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let (told_to, told) = mpsc::channel();
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let told_to = told_to.clone();
            thread::spawn(move || hear(socket, &told_to));
        }
    });
    (address, told)
}

fn hear(mut socket: TcpStream, told: &mpsc::Sender<String>) {
    let mut line = String::new();
    let Ok(reading) = socket.try_clone() else {
        return;
    };
    let _ = BufReader::new(reading).read_line(&mut line);
    let _ = socket.write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n");
    if let Some(path) = line.split(' ').nth(1) {
        let _ = told.send(path.to_owned());
    }
}

fn page(ear: &str) -> String {
    format!(
        "<!doctype html><title>open</title><link rel=preconnect href=/><script>
         const tell = what => fetch('http://{ear}/' + what, {{mode: 'no-cors'}});
         const socket = new WebSocket('ws://' + location.host + '/ws');
         socket.onmessage = () => tell('open');
         socket.onclose = event => tell('closed-' + event.code + '-' + event.wasClean);
         </script>"
    )
}

async fn greet(mut socket: WebSocket) {
    let _ = socket.send("hello".into()).await;
    while let Some(Ok(_)) = socket.recv().await {}
}

/// A browser that is ended with the test: all of its processes, which are a group of their own.
struct Browser {
    child: Child,
    _profile: TempDir,
}

impl Browser {
    /// None if there is none here.
    fn open(url: &str) -> Option<Self> {
        let profile = TempDir::new().expect("a directory for the profile");
        ["chromium", "chromium-browser", "google-chrome"]
            .iter()
            .find_map(|name| {
                Command::new(name)
                    .args(["--headless=new", "--no-sandbox", "--disable-gpu"])
                    .args([
                        "--disable-dev-shm-usage",
                        "--no-first-run",
                        "--no-proxy-server",
                    ])
                    .arg(format!("--user-data-dir={}", profile.path().display()))
                    .arg(url)
                    .process_group(0)
                    .stdin(Stdio::null())
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .spawn()
                    .ok()
            })
            .map(|child| Self {
                child,
                _profile: profile,
            })
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = process::kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}

#[test]
fn a_page_sees_the_close_and_its_spare_sockets_hold_nothing() {
    let (ear, told) = ear();
    let page = page(&ear);
    let router = Router::new()
        .route("/", get(async move || Html(page)))
        .route(
            "/ws",
            any(async |upgrade: WebSocketUpgrade| upgrade.on_upgrade(greet)),
        );
    let mut live = Own::new(router).start();
    let Some(_browser) = Browser::open(&format!("http://{}/", live.address)) else {
        fixture_skip::missing("chromium, chromium-browser or google-chrome");
        live.stop();
        live.finish().exits(0);
        return;
    };
    assert_eq!(told.recv_timeout(PATIENCE).as_deref(), Ok("/open"));
    live.stop();
    assert_eq!(
        told.recv_timeout(PATIENCE).as_deref(),
        Ok("/closed-1001-true")
    );
    live.finish()
        .exits(0)
        .within_ms(700)
        .loses_nothing()
        .closes_no_other_connection();
}
