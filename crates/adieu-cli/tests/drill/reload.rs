//! What a reload does to connections that live for long.

use crate::support::{Judged, Test, URL};

/// Keeps connections. At SIGHUP it drops each that has had more than thirty answers, as an old process does that is
/// replaced; told `keeps`, it drops none.
const RELOADS: &str = r#"
import signal, socket, sys, threading
reloads = 0
def reload(*_):
    global reloads
    reloads += 1
signal.signal(signal.SIGHUP, reload)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
def serve(peer):
    answers, seen, buffer = 0, reloads, b""
    with peer:
        while True:
            while b"\r\n\r\n" not in buffer:
                piece = peer.recv(65536)
                if not piece:
                    return
                buffer += piece
            buffer = buffer.split(b"\r\n\r\n", 1)[1]
            answers += 1
            if reloads > seen:
                seen = reloads
                if answers > 30 and sys.argv[2] == "drops":
                    return
            peer.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=200)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"#;

fn judge(manner: &str) -> Judged {
    let test = Test::new().file("reloads.py", RELOADS);
    let words = [
        "--http",
        URL,
        "--reload",
        "--check",
        "hup-keeps-serving",
        "--json",
        "--clients",
        "8",
    ];
    let command = ["--", "python3", "reloads.py", "{port}", manner];
    let ran = test.run(&[&words[..], &command].concat());
    Judged(serde_json::from_str(&ran.out()).expect("one object"))
}

/// A client that closes its connection after a few requests never has one that is old at a reload.
#[test]
fn connections_that_live_for_long_meet_the_reload() {
    judge("drops").is("hup-keeps-serving", "failed", &["closed before a byte"]);
    judge("keeps").is("hup-keeps-serving", "passed", &["none was lost"]);
}
