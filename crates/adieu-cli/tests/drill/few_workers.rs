//! Servers that work on few requests at once, as most Django deployments do: a process for each, and the others wait in
//! the accept queue.

use crate::support::{Judged, Test, URL};

/// A parent and so many workers that share its listener. Each takes one request at a time. At SIGTERM a worker finishes
/// what it has; what it does with the accept queue and with the request in flight is the last argument.
const FEW: &str = r#"
import os, select, signal, socket, sys, time
PORT, WORKERS, MANNER = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
listener = socket.create_server(("127.0.0.1", PORT), backlog=64)
listener.setblocking(False)
stopping = False
def stop(*_):
    global stopping
    stopping = True
    if MANNER == "drops-what-was-read":
        os._exit(0)
def answer(peer):
    peer.setblocking(True)
    head = b""
    while b"\r\n\r\n" not in head and (piece := peer.recv(65536)):
        head += piece
    if not head:
        return
    path = head.split(b" ")[1]
    if path.startswith(b"/slow"):
        until = time.monotonic() + int(path.split(b"ms=")[1]) / 1000
        while (left := until - time.monotonic()) > 0:
            time.sleep(left)
    status = b"200 OK" if path.startswith((b"/slow", b"/?")) or path == b"/" else b"404 Not Found"
    peer.sendall(b"HTTP/1.1 " + status + b"\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok")
def work():
    signal.signal(signal.SIGTERM, stop)
    while not stopping or MANNER == "empties-the-queue":
        # A signal before the wait is seen after it.
        if not select.select([listener], [], [], 0.05)[0] and stopping:
            break
        try:
            peer, _ = listener.accept()
        except BlockingIOError:
            continue
        with peer:
            answer(peer)
    os._exit(0)
workers = []
for _ in range(WORKERS):
    workers.append(os.fork())
    if workers[-1] == 0:
        work()
def pass_on(*_):
    for worker in workers:
        os.kill(worker, signal.SIGTERM)
signal.signal(signal.SIGTERM, pass_on)
listener.close()
for worker in workers:
    os.waitpid(worker, 0)
"#;

const CHECKS: &[&str] = &["--check", "inflight-finishes,connection-close"];

fn judge(workers: &str, manner: &str) -> Judged {
    let test = Test::new().file("few.py", FEW);
    let slow = ["--http", URL, "--slow", "/slow?ms={ms}", "--json"];
    let command = ["--", "python3", "few.py", "{port}", workers, manner];
    let ran = test.run(&[&slow[..], CHECKS, &command].concat());
    Judged(serde_json::from_str(&ran.out()).unwrap_or_else(|_| panic!("{}", ran.err())))
}

/// The kernel accepted them, so their clients wait: they count, and the report says where they were.
#[test]
fn what_waits_in_the_accept_queue_and_is_reset_is_lost() {
    for (workers, lost) in [("1", "3 of 4"), ("2", "2 of 4")] {
        let judged = judge(workers, "drops-the-queue");
        let words = [
            &format!("{lost} requests in flight were lost")[..],
            "in the accept queue at the signal",
            "at the signal it waited in the accept queue",
        ];
        judged.is("inflight-finishes", "failed", &words);
        judged.is("connection-close", "passed", &["said `Connection: close`"]);
    }
}

#[test]
fn what_a_worker_had_read_is_told_from_what_was_queued() {
    let judged = judge("2", "drops-what-was-read");
    let words = ["4 of 4", "at the signal it had been read by the program"];
    judged.is("inflight-finishes", "failed", &words);
}

/// Answered in turns, which takes several times as long as one of them.
#[test]
fn few_workers_that_empty_their_queue_lose_nothing() {
    for workers in ["1", "2"] {
        let judged = judge(workers, "empties-the-queue");
        judged.is(
            "inflight-finishes",
            "passed",
            &["all 4 requests", "in the accept queue"],
        );
    }
}

const APP: &str = r#"
import time
from urllib.parse import parse_qs
def application(environ, start):
    if environ["PATH_INFO"] == "/slow":
        time.sleep(int(parse_qs(environ["QUERY_STRING"])["ms"][0]) / 1000)
    start("200 OK", [("content-length", "2")])
    return [b"ok"]
"#;

/// The real one, with the sync workers that it has if nothing else is said.
#[test]
fn gunicorn_with_sync_workers_is_judged() {
    let Some(python) = python_with("gunicorn") else {
        fixture_skip::missing("a Python with gunicorn, named in ADIEU_PYTHON");
        return;
    };
    let test = Test::new().file("app.py", APP);
    for (workers, outcome) in [("1", "failed"), ("2", "failed"), ("4", "passed")] {
        // It leaves a socket in the home directory otherwise.
        let home = ["--env", "HOME={dir}"];
        let slow = ["--http", URL, "--slow", "/slow?ms={ms}", "--json"];
        let server = ["--", &python, "-m", "gunicorn", "-w", workers];
        let rest = ["-b", "127.0.0.1:{port}", "app:application"];
        let ran = test.run(&[&home, &slow[..], CHECKS, &server, &rest].concat());
        let judged = serde_json::from_str(&ran.out()).unwrap_or_else(|_| panic!("{}", ran.err()));
        let judged = Judged(judged);
        let words = match outcome {
            "failed" => &["waited in the accept queue"][..],
            _ => &[],
        };
        judged.is("inflight-finishes", outcome, words);
        judged.is("connection-close", "passed", &[]);
    }
}

/// A Python that has this module: one that is named in `ADIEU_PYTHON`, or the system's.
pub(crate) fn python_with(module: &str) -> Option<String> {
    let named = std::env::var("ADIEU_PYTHON").ok();
    let mut pythons = named.into_iter().chain(["python3".to_owned()]);
    pythons.find(|python| {
        let import = format!("import {module}");
        let tried = std::process::Command::new(python)
            .args(["-c", &import])
            .output();
        tried.is_ok_and(|it| it.status.success())
    })
}
