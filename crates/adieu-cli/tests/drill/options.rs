//! Options that change how the program is started, asked and stopped.

use serde_json::Value;

use crate::support::{HELLO, Test, URL};

#[test]
fn ready_by_a_line_and_by_a_notice() {
    let test = Test::new();
    let notify = "import os, socket; s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); \
                  s.sendto(b'READY=1\\n', os.environ['NOTIFY_SOCKET']); ";
    let test = test.file(
        "notify.py",
        &HELLO.replace("print(\"listening\", flush=True)", notify),
    );
    for (ready, program) in [
        (&["--ready-line", "listening"][..], "hello.py"),
        (&["--ready-notify"], "notify.py"),
    ] {
        let before = [&["--http", URL, "--check", "exit-code"][..], ready].concat();
        let ran = test.run(&[&before[..], &["--", "python3", program, "{port}"]].concat());
        assert_eq!(ran.code(), Some(0), "{}", ran.err());
    }
}

/// Sends lines back, over TLS, a thread for each client.
const TLS: &str = r#"
import signal, socket, ssl, sys, threading
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("cert.pem", "key.pem")
def serve(peer):
    try:
        with context.wrap_socket(peer, server_side=True) as peer:
            for line in peer.makefile("rb"):
                peer.sendall(line)
    except OSError:
        pass
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"#;

/// Lines over TLS are traffic for a drill that is told of it; for one that is not, they are nothing it knows.
#[test]
fn lines_over_tls_are_understood_with_tls_only() {
    let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let test = Test::new()
        .file("tls.py", TLS)
        .file("cert.pem", &key.cert.pem())
        .file("key.pem", &key.signing_key.serialize_pem());
    // What this program loses is its own affair.
    let words = [
        "--tcp",
        "127.0.0.1:{port}",
        "--threshold",
        "keepalive-race=1000000",
        "--clients",
        "4",
    ];
    let words = [
        &words[..],
        &["--check", "keepalive-race", "--quick", "--json"],
    ]
    .concat();
    for (tls, outcome) in [(&["--tls"][..], "passed"), (&[], "skipped")] {
        let command = ["--", "python3", "tls.py", "{port}"];
        let ran = test.run(&[&words[..], tls, &command].concat());
        assert_eq!(ran.code(), Some(0), "{}", ran.err());
        let report: Value = serde_json::from_str(&ran.out()).expect("one object");
        assert_eq!(report["checks"][0]["outcome"], outcome, "{report}");
    }
    test.run(&["--http", URL, "--tls", "--", "x", "{port}"])
        .refuses(2, &["write https:// in the URL"]);
}

/// Takes its socket from outside, and never stops in the middle of an answer.
const HELD: &str = r#"
import os, select, signal, socket, sys
told, tell = os.pipe()
os.set_blocking(tell, False)
signal.set_wakeup_fd(tell)
signal.signal(signal.SIGTERM, lambda *_: None)
if os.environ.get("LISTEN_FDS") == "1" and os.environ.get("LISTEN_PID") == str(os.getpid()):
    listener = socket.socket(fileno=3)
else:
    listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while told not in select.select([listener, told], [], [])[0]:
    with listener.accept()[0] as peer:
        if peer.recv(65536):
            peer.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello")
"#;

#[test]
fn a_socket_is_held_over_restarts_for_a_program_that_takes_it() {
    let test = Test::new().file("held.py", HELD);
    let words = [
        "--http",
        URL,
        "--check",
        "rolling-restart",
        "--clients",
        "4",
        "--json",
    ];
    for (held, outcome, reason) in [
        (
            &["--held-socket"][..],
            "passed",
            "crossed 2 restarts and none was lost or refused",
        ),
        (&[], "skipped", "say it with --held-socket"),
    ] {
        let command = ["--quick", "--", "python3", "held.py", "{port}"];
        let ran = test.run(&[&words[..], held, &command].concat());
        assert_eq!(ran.code(), Some(0), "{} {}", ran.out(), ran.err());
        let report: Value = serde_json::from_str(&ran.out()).expect("one object");
        let check = &report["checks"][0];
        assert_eq!(check["outcome"], outcome, "{check}");
        assert!(
            check["reason"]
                .as_str()
                .is_some_and(|said| said.contains(reason)),
            "{check}"
        );
    }
}

#[test]
fn quick_runs_the_quick_checks_and_repeat_each_so_often() {
    let test = Test::new();
    let words = [
        "--http",
        URL,
        "--quick",
        "--skip",
        "drain,keep-alive,signals",
    ];
    let more = [
        "--repeat", "2", "--json", "--", "python3", "hello.py", "{port}",
    ];
    let ran = test.run(&[&words[..], &more].concat());
    assert_eq!(ran.code(), Some(0), "{} {}", ran.out(), ran.err());
    let report: Value = serde_json::from_str(&ran.out()).expect("one object");
    assert_eq!(report["level"], "quick");
    let checks = report["checks"].as_array().expect("checks");
    let ids: Vec<_> = checks
        .iter()
        .filter_map(|check| check["id"].as_str())
        .collect();
    assert_eq!(
        ids,
        ["exit-code", "exit-in-time", "no-orphans", "port-free"]
    );
    for check in checks {
        assert_eq!(check["repeats"], 2, "{check}");
    }
    test.run(&["--http", URL, "--quick", "--full", "--", "x", "{port}"])
        .refuses(2, &["cannot be used with"]);
}

/// What a request is called in the report has its method, and nothing of what may be secret.
#[test]
fn method_header_and_body_are_sent_and_not_told() {
    // Answers 200 to nothing else.
    let strict = HELLO.replace(
        "if peer.recv(65536):",
        "got = peer.recv(65536)\n        \
         if got.startswith(b'PUT /item?key=geheim ') and b'x-token: heimlich' in got and got.endswith(b'tea'):",
    );
    let test = Test::new().file("strict.py", &strict);
    let words = [
        "--http",
        "http://127.0.0.1:{port}/item?key=geheim",
        "--method",
        "PUT",
        "--body",
        "tea",
    ];
    let more = [
        "--header",
        "x-token: heimlich",
        "--check",
        "fresh-connections",
        "--quick",
        "--json",
    ];
    let rest = [
        "--threshold",
        "fresh-connections=1000",
        "--",
        "python3",
        "strict.py",
        "{port}",
    ];
    let ran = test.run(&[&words[..], &more, &rest].concat());
    assert_eq!(ran.code(), Some(0), "{} {}", ran.out(), ran.err());
    let report: Value = serde_json::from_str(&ran.out()).expect("one object");
    assert_eq!(report["stops"][0]["requests"][0]["label"], "PUT /item");
    assert!(!ran.out().contains("heimlich"), "{}", ran.out());
}
