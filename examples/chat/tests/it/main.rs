//! The chat as a process, with clients that are not ours: deploys, a new version that fails, a crash.
#![cfg(target_os = "linux")]

mod drilled;

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tempfile::TempDir;
use tungstenite::{Message, WebSocket};

/// Only a broken promise takes this long.
const PATIENCE: Duration = Duration::from_secs(40);

/// The chat through its deploys. All its processes write to the pipe of the first one.
struct Chat {
    first: Child,
    /// The process that serves.
    pid: u32,
    lines: Receiver<String>,
    address: String,
}

impl Chat {
    fn start(rooms: &TempDir) -> Self {
        // Any process id says yes: orphans come to this process, which can then wait for them.
        rustix::process::set_child_subreaper(Pid::from_raw(2)).expect("orphans come to us");
        let mut first = Command::new(env!("CARGO_BIN_EXE_example-chat"))
            .args(["--listen", "127.0.0.1:0", "--rooms"])
            .arg(rooms.path())
            .env_remove("KUBERNETES_SERVICE_HOST")
            .env_remove("NOTIFY_SOCKET")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let (tell, lines) = mpsc::channel();
        let stdout = first.stdout.take().expect("its output");
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = tell.send(line);
            }
        });
        let mut chat = Self {
            pid: first.id(),
            first,
            lines,
            address: String::new(),
        };
        (chat.address, _) = chat.listening();
        chat
    }

    /// The next process that listens: where, and which.
    #[track_caller]
    fn listening(&self) -> (String, u32) {
        let line = self.wait_for("listening on ");
        let (address, pid) = line.split_once(" as ").expect("it says who");
        (address.to_owned(), pid.parse().expect("a number"))
    }

    #[track_caller]
    fn wait_for(&self, words: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(PATIENCE).expect(words);
            if let Some(rest) = line.strip_prefix(words) {
                return rest.to_owned();
            }
        }
    }

    /// A hand-off, up to the end of the old process, which is clean.
    #[track_caller]
    fn deploy(&mut self) {
        let old = self.pid;
        send(old, Signal::USR2);
        (_, self.pid) = self.listening();
        assert_eq!(self.end(old), Some(0));
    }

    #[track_caller]
    fn end(&mut self, pid: u32) -> Option<i32> {
        if pid == self.first.id() {
            return self.first.wait().expect("it can be waited for").code();
        }
        let status = waitid(WaitId::Pid(number(pid)), WaitIdOptions::EXITED).expect("it is ours");
        status.and_then(|status| status.exit_status())
    }

    #[track_caller]
    fn stop(&mut self) -> Option<i32> {
        send(self.pid, Signal::TERM);
        self.end(self.pid)
    }
}

impl Drop for Chat {
    fn drop(&mut self) {
        // After it was waited for, its number is free, or belongs to another process.
        if thread::panicking() {
            let _ = kill_process(number(self.pid), Signal::KILL);
            let _ = self.first.kill();
        }
        let _ = self.first.wait();
    }
}

fn send(pid: u32, signal: Signal) {
    kill_process(number(pid), signal).expect("it is there");
}

fn number(pid: u32) -> Pid {
    Pid::from_raw(i32::try_from(pid).expect("a number")).expect("not zero")
}

/// One of those who chat, with one connection.
struct Guest {
    name: &'static str,
    socket: WebSocket<TcpStream>,
}

impl Guest {
    #[track_caller]
    fn join(chat: &Chat, room: &str, name: &'static str) -> Self {
        let stream = TcpStream::connect(&chat.address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        let url = format!("ws://{}/chat?room={room}&name={name}", chat.address);
        let (socket, _) = tungstenite::client(url, stream).expect("a WebSocket");
        Self { name, socket }
    }

    #[track_caller]
    fn say(&mut self, text: &str) {
        self.socket.send(Message::text(text)).expect("it is open");
    }

    /// The next line: who, what, and the process that has taken it.
    #[track_caller]
    fn hear(&mut self) -> (String, String, u64) {
        loop {
            match self.socket.read().expect("it is open") {
                Message::Text(text) => {
                    let line: serde_json::Value = serde_json::from_str(&text).expect("JSON");
                    let word = |key: &str| line[key].as_str().expect("text").to_owned();
                    return (
                        word("name"),
                        word("text"),
                        line["by"].as_u64().expect("a pid"),
                    );
                }
                Message::Close(frame) => panic!("{} got {frame:?}", self.name),
                _ => {}
            }
        }
    }

    /// The code of the close frame that comes next.
    #[track_caller]
    fn closed(&mut self) -> u16 {
        match self.socket.read().expect("a close frame") {
            Message::Close(Some(frame)) => frame.code.into(),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_rooms_survive_deploys_and_no_guest_notices() {
    let rooms = TempDir::new().expect("a directory");
    let mut chat = Chat::start(&rooms);
    let mut guests = ["ada", "grace", "alan"].map(|name| Guest::join(&chat, "tea", name));
    let mut elsewhere = Guest::join(&chat, "coffee", "kurt");
    for said in 0..4 {
        // Both before the deploy and while it goes on: the lines are in the kernel, in the old process or in the new one.
        for guest in &mut guests {
            guest.say(&format!("{} says {said}", guest.name));
        }
        chat.deploy();
        let mut heard = Vec::new();
        for guest in &mut guests {
            let lines = [guest.hear(), guest.hear(), guest.hear()];
            heard.push(lines);
        }
        assert_eq!(heard[0], heard[1], "all hear the same in the same order");
        assert_eq!(heard[0], heard[2]);
        let mut texts: Vec<_> = heard[0].iter().map(|(_, text, _)| text.as_str()).collect();
        texts.sort_unstable();
        let all = ["ada", "alan", "grace"].map(|name| format!("{name} says {said}"));
        assert_eq!(texts, all);
        elsewhere.say("alone");
        let (name, text, by) = elsewhere.hear();
        assert_eq!((name.as_str(), text.as_str()), ("kurt", "alone"));
        assert_eq!(by, u64::from(chat.pid));
    }
    let [mut ada, ..] = guests;
    assert_eq!(chat.stop(), Some(0));
    assert_eq!(ada.closed(), 1001);
}

#[test]
fn a_crash_ends_the_connections_and_not_the_rooms() {
    let rooms = TempDir::new().expect("a directory");
    let mut chat = Chat::start(&rooms);
    let mut ada = Guest::join(&chat, "tea", "ada");
    ada.say("before");
    assert_eq!(ada.hear().1, "before");
    send(chat.pid, Signal::KILL);
    assert_eq!(chat.end(chat.pid), None);
    drop(chat);
    let mut chat = Chat::start(&rooms);
    let mut ada = Guest::join(&chat, "tea", "ada");
    assert_eq!(ada.hear().1, "before");
    assert_eq!(chat.stop(), Some(0));
}

#[test]
fn a_bad_name_is_refused_with_the_rule() {
    let rooms = TempDir::new().expect("a directory");
    let mut chat = Chat::start(&rooms);
    for (room, name, rule) in [
        ("..%2Fetc", "ada", "1 to 32 of a-z, 0-9 and -"),
        ("tea", "", "1 to 64 bytes"),
    ] {
        let stream = TcpStream::connect(&chat.address).expect("it listens");
        let url = format!("ws://{}/chat?room={room}&name={name}", chat.address);
        let error = tungstenite::client(url, stream).expect_err("it is refused");
        let tungstenite::HandshakeError::Failure(tungstenite::Error::Http(response)) = error else {
            panic!("{error}");
        };
        let (status, body) = (response.status(), response.into_body().unwrap_or_default());
        assert_eq!(status, 400);
        assert!(String::from_utf8_lossy(&body).contains(rule));
    }
    assert_eq!(chat.stop(), Some(0));
}
