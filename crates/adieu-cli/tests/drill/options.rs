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

/// Lines over TLS are traffic for a drill with the option; without it they are nothing it knows.
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
        let code = if outcome == "passed" { 0 } else { 3 };
        assert_eq!(ran.code(), Some(code), "{}", ran.err());
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
        let code = if outcome == "passed" { 0 } else { 3 };
        assert_eq!(ran.code(), Some(code), "{} {}", ran.out(), ran.err());
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

/// As `uvicorn --fd 3`: nothing tells it a port, so it gets the socket at every start, and no other process listens.
#[test]
fn a_program_that_knows_no_port_is_handed_its_socket_at_every_start() {
    let only = HELD.replace(
        "listener = socket.create_server((\"127.0.0.1\", int(sys.argv[1])))",
        "sys.exit(7)",
    );
    assert_ne!(only, HELD);
    let test = Test::new().file("only.py", &only);
    let checks = "rolling-restart,port-free,exit-code,under-shell,listener-refuses";
    let words = [
        "--http",
        URL,
        "--clients",
        "4",
        "--quick",
        "--json",
        "--check",
        checks,
    ];
    let command = ["--", "python3", "only.py"];
    let ran = test.run(&[&words[..], &["--held-socket"], &command].concat());
    let report: Value = serde_json::from_str(&ran.out()).expect("one object");
    for check in report["checks"].as_array().expect("checks") {
        assert_eq!(check["outcome"], "passed", "{check}");
    }
    let ran = test.run(&[&words[..], &command].concat());
    ran_refuses_without_socket(&ran);
}

fn ran_refuses_without_socket(ran: &crate::support::Ran) {
    assert_eq!(ran.code(), Some(2), "{}", ran.err());
    assert!(ran.err().contains("needs --held-socket"), "{}", ran.err());
}

/// The README's own line.
#[test]
fn uvicorn_takes_its_socket_as_descriptor_3() {
    let Some(python) = crate::few_workers::python_with("uvicorn") else {
        fixture_skip::missing("a Python with uvicorn, named in ADIEU_PYTHON");
        return;
    };
    let app = "async def app(scope, receive, send):\n    \
               if scope['type'] != 'http': return\n    \
               await send({'type': 'http.response.start', 'status': 200, 'headers': []})\n    \
               await send({'type': 'http.response.body', 'body': b'ok'})\n";
    let test = Test::new().file("shop.py", app);
    let words = [
        "--http",
        URL,
        "--held-socket",
        "--json",
        "--check",
        "rolling-restart,port-free",
    ];
    let loss = ["--quick", "--threshold", "rolling-restart=100000"];
    let command = ["--", &python, "-m", "uvicorn", "shop:app", "--fd", "3"];
    let ran = test.run(&[&words[..], &loss, &command].concat());
    let report: Value =
        serde_json::from_str(&ran.out()).unwrap_or_else(|_| panic!("{}", ran.err()));
    for check in report["checks"].as_array().expect("checks") {
        assert_eq!(check["outcome"], "passed", "{check}");
    }
}

/// A file that is checked in means the same wherever it is used from.
#[test]
fn a_directory_in_a_file_is_relative_to_the_file() {
    let test = Test::new();
    for folder in ["conf", "app"] {
        std::fs::create_dir(test.path().join(folder)).expect("a directory");
    }
    std::fs::write(test.path().join("app/here.py"), HELLO).expect("a file");
    let file = "[[target]]\ncommand = [\"python3\", \"here.py\", \"{port}\"]\ncwd = \"../app\"\n\
                http = \"http://127.0.0.1:{port}/\"\ncheck = [\"port-free\", \"state-intact\"]\n\
                state-file = \"here.py\"\nstate-command = \"test -f here.py\"\n";
    std::fs::write(test.path().join("conf/drill.toml"), file).expect("a file");
    let ran = test.run(&[
        "--file",
        "conf/drill.toml",
        "--quick",
        "--require",
        "state-intact",
    ]);
    assert_eq!(ran.code(), Some(0), "{} {}", ran.out(), ran.err());
    let words = ["--http", URL, "--check", "port-free", "--cwd", "app"];
    let ran = test.run(&[&words[..], &["--", "python3", "here.py", "{port}"]].concat());
    assert_eq!(ran.code(), Some(0), "{}", ran.err());
    let words = [
        "--http", URL, "--cwd", "nowhere", "--", "python3", "here.py", "{port}",
    ];
    test.run(&words)
        .refuses(2, &["there is no directory nowhere"]);
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

/// Durations are read as `adieu run` reads them.
#[test]
fn a_duration_may_have_minutes_and_seconds() {
    let test = Test::new();
    let ran = test.run(&[
        "--http",
        URL,
        "--check",
        "exit-code",
        "--grace",
        "1m30s",
        "--ready-within",
        "1h",
        "--",
        "python3",
        "hello.py",
        "{port}",
    ]);
    assert_eq!(ran.code(), Some(0), "{}", ran.err());
}
