//! A drain that lasts the same time whatever is in flight, and a stop that only looks like one.

use crate::support::{Judged, Test, URL};

/// At SIGTERM it refuses newcomers at once, or serves on for a second and a half like a lame duck; then it is gone, whatever
/// is in flight.
const FIXED: &str = r#"
import os, signal, socket, sys, threading, time
LAME_DUCK = sys.argv[2] == "lame-duck"
stopping = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stopping.set())
def serve(peer):
    with peer:
        head, _, body = peer.recv(65536).partition(b"\r\n\r\n")
        path = (head.split(b" ") + [b""])[1]
        if path == b"/upload":
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            while len(body) < length:
                more = peer.recv(65536)
                if not more:
                    return
                body += more
        if path.startswith(b"/slow"):
            time.sleep(int(path.split(b"ms=")[1]) / 1000)
        found = path in (b"/", b"/upload") or path.startswith(b"/slow")
        status = b"200 OK" if found else b"404 Not Found"
        peer.sendall(b"HTTP/1.1 " + status + b"\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok")
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=200)
listener.settimeout(0.02)
ends = None
while ends is None or time.monotonic() < ends:
    if stopping.is_set() and ends is None:
        ends = time.monotonic() + 1.5
        if not LAME_DUCK:
            listener.close()
    if ends is not None and not LAME_DUCK:
        time.sleep(0.02)
        continue
    try:
        peer, _ = listener.accept()
    except TimeoutError:
        continue
    threading.Thread(target=serve, args=(peer,), daemon=True).start()
os._exit(0)
"#;

fn judge(kind: &str) -> Judged {
    let test = Test::new().file("fixed.py", FIXED);
    let words = [
        "--http",
        URL,
        "--check",
        "inflight-finishes,term-twice,slow-upload",
        "--json",
    ];
    let command = ["--", "python3", "fixed.py", "{port}", kind];
    let ran = test.run(&[&words[..], &command].concat());
    Judged(serde_json::from_str(&ran.out()).expect("one object"))
}

/// As `HttpServer.stop(2)` of Java: what is shorter than the drain is answered, and the report says what was held.
#[test]
fn requests_are_held_for_less_than_a_drain_that_always_lasts_as_long() {
    let judged = judge("drain");
    let words = [
        "all 4 requests",
        "was cut ",
        "after the signal, and an idle stop takes ",
        "lasts the same time whatever",
        "were held",
    ];
    judged.is("inflight-finishes", "passed", &words);
    judged.is("term-twice", "passed", &["answered all 2 requests"]);
    judged.is("slow-upload", "passed", &["was finished and answered 200"]);
}

/// It takes new requests until it is gone, and never drains.
#[test]
fn a_lame_duck_without_a_drain_is_none() {
    let judged = judge("lame-duck");
    let words = ["4 of 4 requests in flight were lost", "after the signal"];
    judged.is("inflight-finishes", "failed", &words);
}
