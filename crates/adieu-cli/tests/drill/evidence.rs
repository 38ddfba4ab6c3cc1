//! What is shown of a failure is what was seen.

use crate::support::{Judged, Test, URL};

/// Streams a hundred bytes, forty at first; at the signal it leaves out the rest.
const CUTS: &str = r#"
import signal, socket, sys, threading
stopping = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stopping.set())
def serve(peer):
    with peer:
        path = (peer.recv(65536).split(b" ") + [b""])[1]
        if path != b"/stream":
            return peer.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        peer.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n" + b"x" * 40)
        if not stopping.wait(0.5):
            peer.sendall(b"x" * 60)
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
listener.settimeout(0.02)
while not stopping.is_set():
    try:
        peer, _ = listener.accept()
    except TimeoutError:
        continue
    peer.settimeout(None)
    threading.Thread(target=serve, args=(peer,)).start()
"#;

/// The head counts: it is 40 bytes long, as is what came of the body.
#[test]
fn a_stream_that_is_cut_is_shown_with_as_many_bytes_as_came() {
    let test = Test::new().file("cuts.py", CUTS);
    let words = ["--http", URL, "--check", "stream-whole"];
    let command = [
        "--json", "--stream", "/stream", "--", "python3", "cuts.py", "{port}",
    ];
    let ran = test.run(&[&words[..], &command].concat());
    let judged = Judged(serde_json::from_str(&ran.out()).expect("one object"));
    let seen = "truncated: 80 bytes of the answer, then closed";
    judged.is("stream-whole", "failed", &[seen]);
}

/// The connections of a parent that is gone are open for as long as a child has them.
const LEAVES: &str = r#"
import os, signal, socket, sys, threading, time
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
def stop(*_):
    if os.fork() == 0:
        time.sleep(60)
    os._exit(0)
signal.signal(signal.SIGTERM, stop)
def serve(peer):
    while peer.recv(65536):
        peer.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
listener.settimeout(0.02)
while True:
    try:
        peer, _ = listener.accept()
    except TimeoutError:
        continue
    peer.settimeout(None)
    threading.Thread(target=serve, args=(peer,), daemon=True).start()
"#;

#[test]
fn connections_that_outlive_the_program_are_not_said_to_be_closed() {
    let test = Test::new().file("leaves.py", LEAVES);
    let words = ["--http", URL, "--check", "idle-keepalive", "--json"];
    let command = ["--", "python3", "leaves.py", "{port}"];
    let ran = test.run(&[&words[..], &command].concat());
    let judged = Judged(serde_json::from_str(&ran.out()).expect("one object"));
    judged.is("idle-keepalive", "failed", &["8 of 8", "still open"]);
}

/// An answer that blames the server is one, whatever it says besides.
#[test]
fn a_server_error_in_the_drain_is_shown_by_its_class() {
    let checks = ["--quick", "--check", "keepalive-race"];
    let judged = Test::new().judge(&checks, "root-500");
    judged.is("keepalive-race", "failed", &["5xx: status 500"]);
}
