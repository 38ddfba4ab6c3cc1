//! A path that was given with an option and does not answer as said is a mistake, told before the first stop.

use crate::support::{HELLO, Test, URL};

/// Says in a file that it was stopped.
fn telling() -> Test {
    let stop = "print(\"bye\", flush=True)";
    let tells = HELLO.replace(stop, "open('stopped', 'w').close()");
    assert_ne!(tells, HELLO);
    // One path that is not there.
    let missing = tells.replace(
        "if peer.recv(65536):",
        "path = (peer.recv(65536).split(b' ') + [b''])[1]\n        \
         if path.startswith(b'/gone'):\n            peer.sendall(b'HTTP/1.1 404 Gone\\r\\ncontent-length: 0\\r\\nconnection: close\\r\\n\\r\\n')\n        \
         elif path:",
    );
    Test::new().file("tells.py", &missing)
}

#[test]
fn a_given_path_that_does_not_answer_as_said_is_two_before_any_stop() {
    let test = telling();
    for (given, words) in [
        (
            &["--slow", "/gone?ms={ms}"][..],
            &["--slow: GET /gone answers 404", "/slow?ms={ms}"][..],
        ),
        (
            &["--slow", "/?ms={ms}"],
            &["GET / answered 200 after", "was asked to take 400 ms"],
        ),
        (
            &["--stream", "/"],
            &["--stream: the answer of GET / was whole after", "in pieces"],
        ),
        (
            &["--large", "/"],
            &["--large: GET / answers with 5 bytes", "1048576"],
        ),
        (
            &["--sse", "/"],
            &[
                "--sse: the content type of GET / is nothing",
                "text/event-stream",
            ],
        ),
        (&["--sse", "/gone"], &["--sse: GET /gone answers 404"]),
        (
            &["--ws", "/"],
            &["--ws: GET /: status 200 in the place of 101"],
        ),
        (
            &["--upload", "/gone"],
            &["--upload: POST /gone answers 404"],
        ),
        (
            &["--readiness", "/gone"],
            &["--readiness: GET /gone answers 404"],
        ),
        (
            &["--liveness", "/gone"],
            &["--liveness: GET /gone answers 404"],
        ),
    ] {
        let command = ["--http", URL, "--", "python3", "tells.py", "{port}"];
        let ran = test.run(&[given, &command].concat());
        ran.refuses(2, words);
        assert!(ran.err().contains(", or leave --"), "{}", ran.err());
    }
    let url = "http://127.0.0.1:{port}/gone";
    let ran = test.run(&["--http", url, "--", "python3", "tells.py", "{port}"]);
    ran.refuses(2, &["--http: GET /gone answers 404", "below 400"]);
    assert!(!test.path().join("stopped").exists(), "it was stopped");
}

/// A path that was only tried is not missed.
#[test]
fn a_path_that_was_not_given_is_none_of_its_mistakes() {
    let test = telling();
    let words = [
        "--http",
        URL,
        "--check",
        "exit-code",
        "--",
        "python3",
        "tells.py",
        "{port}",
    ];
    let ran = test.run(&words);
    assert_eq!(ran.code(), Some(0), "{}", ran.err());
}
