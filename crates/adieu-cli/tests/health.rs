//! `adieu health` as it is run: the real binary against real sockets.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

const ADIEU: &str = env!("CARGO_BIN_EXE_adieu");

fn health(words: &[&str]) -> (i32, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = Command::new(ADIEU)
        .arg("health")
        .args(words)
        .output()
        .expect("the command runs");
    let said = String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned();
    (status.code().expect("an exit code"), said)
}

/// Sends this to every client, and holds the connection until the peer lets go of it.
fn server(says: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            speak(stream, says);
        }
    });
    address
}

fn speak(mut stream: impl Read + Write, says: &str) {
    if !says.is_empty() {
        let mut head = [0; 1_024];
        let _ = stream.read(&mut head);
        let _ = stream.write_all(says.as_bytes());
    }
    let _ = stream.read_to_end(&mut Vec::new());
}

#[test]
fn a_good_answer_is_zero() {
    let url = format!(
        "http://{}/readyz",
        server("HTTP/1.1 204 No Content\r\n\r\n")
    );
    let (code, said) = health(&[&url]);
    assert_eq!(code, 0, "{said}");
    assert!(said.starts_with("healthy: 204 No Content in "), "{said}");
}

/// What comes before the answer is none.
#[test]
fn interim_answers_are_passed_over() {
    let hints =
        "HTTP/1.1 103 Early Hints\r\nlink: </a.css>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 ";
    for (answer, code, words) in [
        ("200 OK\r\n\r\n", 0, "healthy: 200 OK in "),
        (
            "503 Service Unavailable\r\n\r\ndb\n",
            1,
            "says 503 Service Unavailable: db",
        ),
    ] {
        let answer = format!("{hints}{answer}").leak();
        let (found, said) = health(&[&format!("HTTP://{}/", server(answer))]);
        assert_eq!(found, code, "{said}");
        assert!(said.contains(words), "{said}");
    }
}

/// The length of a chunk is not what the service said.
#[test]
fn a_bad_answer_in_chunks_says_what_the_service_said() {
    let head = "HTTP/1.1 503 Service Unavailable\r\ntransfer-encoding: chunked\r\n\r\n";
    for (body, words) in [
        (
            "d\r\nthe database \r\n7\r\nis gone\r\n0\r\n\r\n",
            "Unavailable: the database is gone\n",
        ),
        ("0\r\n\r\n", "says 503 Service Unavailable\n"),
    ] {
        let answer = format!("{head}{body}").leak();
        let begun = Instant::now();
        let (code, said) = health(&[&format!("http://{}/", server(answer)), "--timeout", "50s"]);
        assert_eq!(code, 1, "{said}");
        assert!(said.ends_with(words), "{said}");
        assert!(
            begun.elapsed() < Duration::from_secs(40),
            "it waited for more"
        );
    }
}

#[test]
fn a_bad_answer_is_one_and_says_what_the_service_said() {
    let answer = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 14\r\n\r\nnot ready: db\n";
    let url = format!("http://{}/readyz", server(answer));
    let (code, said) = health(&[&url]);
    assert_eq!(code, 1);
    let told = format!("unhealthy: {url} says 503 Service Unavailable: not ready: db\n");
    assert_eq!(said, told);
    // Unless that is the answer to be had.
    assert_eq!(health(&[&url, "--status", "200,500-503"]).0, 0);
}

/// An answer without a body is whole, though the connection stays open.
#[test]
fn no_body_is_not_waited_for() {
    for answer in [
        "HTTP/1.1 503 Service Unavailable\r\nContent-Length:0\r\n\r\n",
        "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 1\r\n\r\n\n",
    ] {
        let begun = Instant::now();
        let url = format!("http://{}/readyz", server(answer));
        let (code, said) = health(&[&url, "--timeout", "30s"]);
        let told = format!("unhealthy: {url} says 503 Service Unavailable\n");
        assert_eq!((code, said), (1, told));
        assert!(begun.elapsed() < Duration::from_secs(20), "{answer}");
    }
}

#[test]
fn a_service_that_says_nothing_is_given_up_in_time() {
    let address = server("");
    let (code, said) = health(&[&format!("http://{address}/"), "--timeout", "200ms"]);
    assert_eq!(
        (code, said.as_str()),
        (1, "unhealthy: no answer within 200ms\n")
    );
    // It does accept.
    assert_eq!(health(&["--tcp", &address.to_string()]).0, 0);
}

#[test]
fn half_an_answer_and_another_protocol_are_no_health() {
    let (code, said) = health(&[
        &format!("http://{}/", server("HTTP/1.1 2")),
        "--timeout",
        "200ms",
    ]);
    assert_eq!(code, 1, "{said}");
    let (code, said) = health(&[&format!("http://{}/", server("SSH-2.0-OpenSSH\r\n"))]);
    assert_eq!(code, 1);
    assert!(
        said.contains("does not speak HTTP: \"SSH-2.0-OpenSSH"),
        "{said}"
    );
}

#[test]
fn an_address_without_a_listener_is_unhealthy() {
    let gone = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = gone.local_addr().expect("an address").to_string();
    drop(gone);
    for words in [&["--tcp", &address][..], &[&format!("http://{address}/")]] {
        let (code, said) = health(words);
        assert_eq!(code, 1);
        assert!(
            said.contains("refused") && said.contains(&address),
            "{said}"
        );
    }
}

#[cfg(unix)]
#[test]
fn unix_sockets_are_asked_too() {
    let folder = tempfile::TempDir::new().expect("a directory");
    let path = folder.path().join("admin.sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            speak(stream, "HTTP/1.1 200 OK\r\n\r\n");
        }
    });
    let path = path.display();
    assert_eq!(health(&[&format!("unix:{path}:/readyz")]).0, 0);
    assert_eq!(health(&["--tcp", &format!("unix:{path}")]).0, 0);
    assert_eq!(health(&[&format!("unix:{path}.gone:/readyz")]).0, 1);
}

#[test]
fn nonsense_is_two() {
    for words in [
        &[][..],
        &["localhost:80"],
        &["https://localhost/"],
        &["http://a/", "--tcp", "a:80"],
        &["http://a/", "--timeout", "0s"],
        &["http://a/", "--timeout", "soon"],
        &["http://a/", "--status", "ok"],
        &["--tcp", "a"],
        &["--tcp", "a:80", "--status", "200"],
    ] {
        let (code, said) = health(words);
        assert_eq!(code, 2, "{words:?}: {said}");
        assert!(said.starts_with("error: "), "{words:?}: {said}");
    }
}
