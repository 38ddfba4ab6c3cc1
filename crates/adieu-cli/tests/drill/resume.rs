//! What is on the books before a restart, and after it.

use crate::support::{Judged, Test, URL};

/// Keeps each upload as a line of a file, and after a restart each line once. Told `alike`, it writes the same line for
/// each of them.
const BOOKS: &str = r#"
import os, signal, socket, sys
PORT, BOOKS, ALIKE = int(sys.argv[1]), sys.argv[2], "alike" in sys.argv
lines = list(dict.fromkeys(open(BOOKS).read().splitlines())) if os.path.exists(BOOKS) else []
def save():
    with open(BOOKS, "w") as file:
        file.writelines(line + "\n" for line in lines)
save()
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
listener = socket.create_server(("127.0.0.1", PORT))
while True:
    with listener.accept()[0] as peer:
        head, _, body = peer.recv(65536).decode().partition("\r\n\r\n")
        if head.startswith("POST"):
            lines.append("order" if ALIKE else body)
            save()
        peer.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
"#;

fn judge(books: &str) -> Judged {
    let test = Test::new().file("books.py", BOOKS);
    let words = ["--http", URL, "--check", "resume", "--upload", "/upload"];
    let ledger = ["--ledger", "cat {dir}/books", "--json"];
    let command = ["--", "python3", "books.py", "{port}", "{dir}/books", books];
    let ran = test.run(&[&words[..], &ledger, &command].concat());
    Judged(serde_json::from_str(&ran.out()).expect("one object"))
}

#[test]
fn five_entries_that_look_alike_are_five() {
    judge("alike").is("resume", "failed", &["gone: order"]);
}

/// A program that knows what it was given already keeps it once: each upload has to be another one.
#[test]
fn uploads_can_be_told_apart() {
    // And the one by which the drill saw that the path takes uploads.
    judge("as-given").is("resume", "passed", &["all 6 entries are there"]);
}
