//! `deploy-unnoticed`: what the clients that are connected see of a restart.

use serde_json::Value;

use crate::support::{Test, URL};

/// Keeps connections open. At SIGHUP it does what its second argument says.
const KEEPS: &str = r#"
import os, signal, sys, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
what = sys.argv[2]
reloaded = []
class Keeps(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        if reloaded and what == "hang":
            threading.Event().wait()
        self.send_response(503 if reloaded and what == "fail" else 200)
        if reloaded and what == "close":
            self.send_header("connection", "close")
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"ok")
    def log_message(self, *_):
        pass
class Server(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True
    def handle_error(self, *_):
        pass
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
if what != "end":
    signal.signal(signal.SIGHUP, lambda *_: reloaded.append(True))
Server(("127.0.0.1", int(sys.argv[1])), Keeps).serve_forever()
"#;

/// Answers on a Unix socket, for the front of `adieu run`.
const BEHIND_FRONT: &str = r#"
import os, signal, socket, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
if os.path.exists(sys.argv[1]):
    os.unlink(sys.argv[1])
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen(64)
while True:
    peer, _ = listener.accept()
    with peer:
        if peer.recv(65536):
            peer.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello")
"#;

fn judge(test: &Test, command: &[&str]) -> Value {
    let words = [
        "--check",
        "deploy-unnoticed",
        "--restart-signal",
        "HUP",
        "--quick",
        "--clients",
        "8",
        "--json",
        "--http",
        URL,
        "--",
    ];
    let ran = test.run(&[&words[..], command].concat());
    let report: Value = serde_json::from_str(&ran.out())
        .unwrap_or_else(|error| panic!("{error}: {} {}", ran.out(), ran.err()));
    let mut checks = report["checks"].as_array().expect("checks").iter();
    let found = checks.find(|check| check["id"] == "deploy-unnoticed");
    found.expect("the check").clone()
}

fn judge_keeps(what: &str) -> Value {
    let test = Test::new().file("keeps.py", KEEPS);
    judge(&test, &["python3", "keeps.py", "{port}", what])
}

#[track_caller]
fn noticed(check: &Value, words: &[&str]) {
    assert_eq!(check["outcome"], "failed", "{check:#}");
    let told = format!("{} {}", check["reason"], check["evidence"]);
    for words in words {
        assert!(told.contains(words), "no `{words}` in {check:#}");
    }
}

#[test]
fn a_reload_that_keeps_connections_is_not_noticed() {
    let check = judge_keeps("nothing");
    assert_eq!(check["outcome"], "passed", "{check:#}");
    let reason = check["reason"].to_string();
    assert!(
        reason.contains("0 of 8 clients noticed a restart: 8 keep-alive connections"),
        "{reason}"
    );
    // It is not taken for a new version.
    assert!(reason.contains("no process was replaced"), "{reason}");
}

#[test]
fn a_close_is_noticed_even_if_it_is_announced() {
    let words = [
        "8 of 8 clients noticed a restart: 8 keep-alive connections closed",
        "answered with `Connection: close`",
        "after SIGHUP",
    ];
    noticed(&judge_keeps("close"), &words);
}

#[test]
fn an_error_is_noticed() {
    noticed(&judge_keeps("fail"), &["answered with 503"]);
}

#[test]
fn an_answer_that_never_comes_is_noticed() {
    noticed(&judge_keeps("hang"), &["no answer to a request"]);
}

#[test]
fn a_program_that_ends_at_the_signal_is_told_as_that() {
    let words = [
        "it ended at the SIGHUP: ended by SIGHUP, and no other process took its place",
        "no answer to a request",
    ];
    noticed(&judge_keeps("end"), &words);
}

#[test]
fn the_front_of_adieu_run_keeps_every_connection_over_a_restart() {
    let test = Test::new().file("behind_front.py", BEHIND_FRONT);
    let adieu = env!("CARGO_BIN_EXE_adieu");
    let front = ["run", "--front", "tcp:127.0.0.1:{port}", "--"];
    let server = ["python3", "behind_front.py", "{socket}"];
    let check = judge(&test, &[&[adieu], &front[..], &server].concat());
    assert_eq!(check["outcome"], "passed", "{check:#}");
    let reason = check["reason"].to_string();
    assert!(reason.contains("0 of 8 clients"), "{reason}");
    // There was a restart: another process serves.
    assert!(!reason.contains("no process was replaced"), "{reason}");
}

#[test]
fn without_a_restart_signal_it_does_not_apply() {
    let test = Test::new();
    let command = ["--", "python3", "hello.py", "{port}"];
    let words = ["--check", "deploy-unnoticed", "--http", URL];
    let ran = test.run(&[&words[..], &command].concat());
    assert_eq!(ran.code(), Some(3), "{}", ran.out());
    assert!(ran.out().contains("--restart-signal"), "{}", ran.out());
}
