//! Who comes after the signal.

use crate::support::{Judged, Test, URL};

/// Sends lines back. After the signal it does not accept any more, and the listener stays open for two seconds.
const SILENT: &str = r#"
import os, signal, socket, sys, threading, time
stopping = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stopping.set())
def serve(peer):
    with peer:
        for line in peer.makefile("rb"):
            peer.sendall(line)
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=200)
listener.settimeout(0.02)
while not stopping.is_set():
    try:
        peer, _ = listener.accept()
    except TimeoutError:
        continue
    peer.settimeout(None)
    threading.Thread(target=serve, args=(peer,), daemon=True).start()
time.sleep(2)
os._exit(0)
"#;

/// The kernel accepts for every listener: only an echo shows that a program is there.
#[test]
fn a_connection_without_an_echo_is_unanswered() {
    let test = Test::new().file("silent.py", SILENT);
    let words = [
        "--tcp",
        "127.0.0.1:{port}",
        "--check",
        "listener-refuses",
        "--json",
    ];
    let command = ["--", "python3", "silent.py", "{port}"];
    let ran = test.run(&[&words[..], &command].concat());
    let judged = Judged(serde_json::from_str(&ran.out()).expect("one object"));
    judged.is("listener-refuses", "failed", &["left in silence"]);
}

/// Who waits no longer than before the stop is not left in silence.
#[test]
fn a_slow_answer_is_no_silence() {
    let checks = ["--check", "listener-refuses", "--ready-line", "listening"];
    let judged = Test::new().judge(&checks, "root-slow");
    judged.is("listener-refuses", "passed", &["refused from"]);
}

/// Answers every client, also during the drain, and is gone with the answer to the slow request; or closes its door so many
/// seconds after the signal.
const OPEN: &str = r#"
import os, signal, socket, sys, threading, time
closes_after = float(sys.argv[2])
signalled = slow = 0
def stop(*_):
    global signalled
    signalled = signalled or time.monotonic()
signal.signal(signal.SIGTERM, stop)
def serve(peer):
    global slow
    with peer:
        ms = peer.recv(65536).split(b"\r\n")[0].partition(b"ms=")[2].split(b" ")[0]
        slow += bool(ms)
        time.sleep(int(ms or 0) / 1000)
        peer.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok")
        if ms and signalled:
            os._exit(0)
        slow -= bool(ms)
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=200)
listener.settimeout(0.005)
while not signalled or slow or time.monotonic() < signalled + min(closes_after, 2):
    if signalled and time.monotonic() > signalled + closes_after:
        listener.close()
        time.sleep(0.005)
        continue
    try:
        peer, _ = listener.accept()
    except TimeoutError:
        continue
    peer.settimeout(None)
    threading.Thread(target=serve, args=(peer,), daemon=True).start()
os._exit(0)
"#;

fn open_for(seconds: &str) -> Judged {
    let test = Test::new().file("open.py", OPEN);
    let slow = ["--slow", "/slow?ms={ms}", "--check", "listener-refuses"];
    let command = ["--json", "--", "python3", "open.py", "{port}", seconds];
    let ran = test.run(&[&["--http", URL], &slow[..], &command].concat());
    Judged(serde_json::from_str(&ran.out()).expect("one object"))
}

/// That no process listens once the program is gone is not a refusal.
#[test]
fn a_listener_that_only_the_exit_closes_was_never_closed() {
    let judged = open_for("1000");
    judged.is(
        "listener-refuses",
        "failed",
        &["never refuses a connection"],
    );
    let measured = &judged.check("listener-refuses")["measured"];
    assert_eq!(measured, "never refused while it ran");
}

/// Nothing holds it, and it goes on all the same: that is not a drain.
#[test]
fn who_never_stops_does_not_refuse() {
    let deaf = SILENT.replace("lambda *_: stopping.set()", "signal.SIG_IGN");
    let test = Test::new().file("deaf.py", &deaf);
    let address = ["--tcp", "127.0.0.1:{port}", "--grace", "4s"];
    let command = ["--json", "--", "python3", "deaf.py", "{port}"];
    let checks = ["--check", "listener-refuses"];
    let ran = test.run(&[&address[..], &checks, &command].concat());
    let judged = Judged(serde_json::from_str(&ran.out()).expect("one object"));
    judged.is(
        "listener-refuses",
        "failed",
        &["never refuses a connection"],
    );
}

/// A lame duck serves for as long as any stop of it takes.
#[test]
fn a_listener_that_closes_in_the_drain_is_right_early_and_late() {
    for seconds in ["0", "1.5"] {
        open_for(seconds).is("listener-refuses", "passed", &["refused from"]);
    }
}
