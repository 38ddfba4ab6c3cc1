//! WebSockets as strict servers have them.

use crate::support::{Judged, Test, URL};

/// Demands a key of sixteen bytes, as RFC 6455 does, and says the code it was given at the stop.
const STRICT: &str = r#"
import base64, signal, socket, sys, threading
stopping = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stopping.set())
def serve(peer):
    with peer:
        lines = peer.recv(65536).decode().split("\r\n")
        path = (lines[0] + "  ").split(" ")[1]
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        key = base64.b64decode(fields.get("sec-websocket-key", ""))
        if path == "/socket" and len(key) == 16:
            peer.sendall(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n")
            stopping.wait()
            peer.sendall(b"\x88\x02" + int(sys.argv[2]).to_bytes(2, "big"))
            peer.recv(64)
        else:
            status = b"400 Bad Request" if path == "/socket" else b"200 OK"
            peer.sendall(b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
listener.settimeout(0.02)
while not stopping.is_set():
    try:
        threading.Thread(target=serve, args=(listener.accept()[0],)).start()
    except TimeoutError:
        pass
listener.close()
"#;

fn judge(path: &str, code: &str) -> Judged {
    let test = Test::new().file("strict.py", STRICT);
    let words = ["--http", URL, "--check", "websocket-1001", "--ws", path];
    let command = ["--json", "--", "python3", "strict.py", "{port}", code];
    let ran = test.run(&[&words[..], &command].concat());
    Judged(serde_json::from_str(&ran.out()).expect("one object"))
}

#[test]
fn a_server_that_looks_at_the_key_opens_a_websocket() {
    judge("/socket", "1001").is("websocket-1001", "passed", &["code 1001"]);
}

#[test]
fn another_code_is_shown_with_those_that_are_demanded() {
    let words = ["with code 1000", "demanded: 1001 or 1012"];
    judge("/socket", "1000").is("websocket-1001", "failed", &words);
    judge("/socket", "1012").is("websocket-1001", "passed", &["code 1012"]);
}
