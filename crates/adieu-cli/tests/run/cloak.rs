//! A server that knows nothing of us, stopped under a load of fresh connections: what was lost, with the accept queue drained
//! first and without. `cargo xtask bench cloak` does the same with the servers that people use.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::Command;

use adieu_load::{Load, Mode, Tally, Target};
use adieu_testkit::{ChildProcess, ReservedPort, iterations};
use rustix::process::Signal;
use tokio::time::timeout;

use crate::support::{ADIEU, PATIENCE, Wrapper, children, kill};

/// One at a time, so that others wait in the queue; at SIGTERM it finishes the one it has and closes.
pub(crate) const PLAIN: &str = r#"
import signal, socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=512)
stopping = []
signal.signal(signal.SIGTERM, lambda *_: (stopping.append(1), listener.settimeout(0.001)))
listener.settimeout(0.05)
while not stopping:
    try:
        peer, _ = listener.accept()
    except TimeoutError:
        continue
    with peer:
        peer.settimeout(5)
        text = b""
        while b"\r\n\r\n" not in text:
            part = peer.recv(4096)
            if not part:
                break
            text += part
        else:
            peer.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\nconnection: close\r\n\r\nok\n")
listener.close()
"#;

/// Stops the server in the middle of a load and counts what was lost.
async fn stop_under_load(flags: &[&str]) -> Tally {
    stop_by_script(flags, "exec /usr/bin/python3 -c \"$0\" \"$1\"").await
}

async fn stop_by_script(flags: &[&str], script: &str) -> Tally {
    let port = ReservedPort::reserve().expect("a port");
    // Not so short that a busy machine has no time to hide a socket and to empty its queue.
    let options = [&["--quiet", "--grace", "50s"], flags].concat();
    let command = ["sh", "-c", script, PLAIN, &port.number().to_string()];
    let wrapper = Wrapper::start(&options, &command);
    let target = Target::tcp(port.address());
    target.reachable(PATIENCE).await.expect("it listens");
    let load = Load::http1(target, "/").mode(Mode::Fresh).start();
    timeout(PATIENCE, load.answered(300))
        .await
        .expect("answers");
    wrapper.signal(Signal::TERM);
    let tally = timeout(PATIENCE, load.finish()).await.expect("in time");
    wrapper.end().await;
    tally
}

async fn lost(count: usize, flags: &[&str]) -> (u64, u64) {
    let (mut lost, mut sent) = (0, 0);
    for _ in 0..count {
        let tally = stop_under_load(flags).await;
        lost += tally.lost();
        sent += tally.sent();
    }
    (lost, sent)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_queue_of_a_plain_server_survives_its_stop() {
    let (with, sent) = lost(iterations(2, 20), &[]).await;
    assert_eq!(with, 0, "of {sent}");
    // Else the test shows nothing. Not every stop of theirs meets a full queue.
    let (mut without, mut stops) = (0, 0);
    while without == 0 && stops < 40 {
        (without, _) = lost(1, &["--no-cloak"]).await;
        stops += 1;
    }
    println!("with: 0 of {sent}, without: {without} in stop number {stops}");
    assert!(without > 0, "in {stops} stops");
}

/// Slower than what counts as stuck, all in all. At SIGTERM it finishes the one it has, and those that wait are lost.
pub(crate) const SLOW: &str = r#"
import os, select, signal, socket, time
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
listener = socket.socket(fileno=3)
while True:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    select.select([listener], [], [])
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    peer, _ = listener.accept()
    with peer:
        text = peer.recv(100)
        time.sleep(0.2)
        peer.sendall(text)
"#;

/// The file goes, so that no new client connects; those that wait already are answered, as on TCP.
#[tokio::test]
async fn the_queue_of_a_unix_socket_survives_its_stop() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("web.sock");
    let listen = format!("unix:{}", path.display());
    let options = ["--listen", &listen, "--grace", "50s"];
    let mut wrapper = Wrapper::start(&options, &["/usr/bin/python3", "-c", SLOW]);
    wrapper.says(" ready after ").await;
    let mut waiting = Vec::new();
    for _ in 0..8 {
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(b"hello").unwrap();
        waiting.push(stream);
    }
    wrapper.signal(Signal::TERM);
    for (number, mut stream) in waiting.into_iter().enumerate() {
        let mut text = String::new();
        let read = stream.read_to_string(&mut text);
        assert_eq!(read.ok().map(|_| text.as_str()), Some("hello"), "{number}");
    }
    assert_eq!(wrapper.code().await.0, 0);
}

/// One that takes more than a second for each request is not stuck, as long as there is time.
#[tokio::test]
async fn the_queue_of_a_slow_server_survives_its_stop() {
    let slower = SLOW.replace("sleep(0.2)", "sleep(1.2)");
    let options = ["--listen", "tcp:127.0.0.1:0", "--grace", "50s"];
    let mut wrapper = Wrapper::start(&options, &["/usr/bin/python3", "-c", &slower]);
    let address = wrapper.says("listening on tcp:").await;
    let address = address
        .rsplit_once("tcp:")
        .expect("an address")
        .1
        .to_owned();
    wrapper.says(" ready after ").await;
    let mut waiting = Vec::new();
    for _ in 0..3 {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(b"hello").unwrap();
        waiting.push(stream);
    }
    wrapper.signal(Signal::TERM);
    for (number, mut stream) in waiting.into_iter().enumerate() {
        let mut text = String::new();
        let read = stream.read_to_string(&mut text);
        assert_eq!(read.ok().map(|_| text.as_str()), Some("hello"), "{number}");
    }
    assert_eq!(wrapper.code().await.0, 0);
}

/// A server that hangs gets the stop signal all the same, and the log says that connections wait in vain.
#[tokio::test]
async fn a_hung_server_hears_of_the_stop() {
    let hung = "import select, socket, time\nlistener = socket.socket(fileno=3)\n\
                select.select([listener], [], [])\nprint('hangs', flush=True)\ntime.sleep(1000)\n";
    let options = ["--listen", "tcp:127.0.0.1:0", "--grace", "6s"];
    let mut wrapper = Wrapper::start(&options, &["/usr/bin/python3", "-c", hung]);
    let address = wrapper.says("listening on tcp:").await;
    let address = address
        .rsplit_once("tcp:")
        .expect("an address")
        .1
        .to_owned();
    wrapper.says(" ready after ").await;
    let _waits = TcpStream::connect(&address).unwrap();
    wrapper.line("hangs").await;
    wrapper.signal(Signal::TERM);
    let (code, said) = wrapper.code().await;
    assert_eq!(code, 143, "{said}");
    assert!(
        said.contains("1 connection is still in the accept queue"),
        "{said}"
    );
    assert!(!said.contains("are over: sending SIGKILL"), "{said}");
}

/// A server that has put itself in the background is hidden as any other.
#[tokio::test(flavor = "multi_thread")]
async fn the_queue_of_a_daemon_survives_its_stop() {
    let script = "/usr/bin/python3 -c \"$0\" \"$1\" & exit 0";
    for _ in 0..iterations(3, 20) {
        let tally = stop_by_script(&[], script).await;
        assert_eq!(tally.lost(), 0, "of {}", tally.sent());
    }
}

/// The tables of a busy machine are long, and a process without a socket is in none of them.
#[tokio::test]
async fn a_command_without_a_socket_has_no_table_read() {
    if Command::new("strace").arg("-V").output().is_err() {
        fixture_skip::missing("strace");
        return;
    }
    let folder = tempfile::TempDir::new().unwrap();
    let calls = folder.path().join("calls");
    let script = "trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done";
    let path = calls.to_str().unwrap();
    let strace = ["-e", "trace=open,openat", "-o", path, ADIEU, "run"];
    let words = strace.into_iter().chain(["--", "sh", "-c", script]);
    let mut subject = ChildProcess::start("strace", words).unwrap();
    let ready = timeout(PATIENCE, subject.line("ready")).await;
    ready.expect("in time").expect("a line");
    let [wrapper] = children(subject.pid())[..] else {
        panic!("strace has one child");
    };
    kill(wrapper, Signal::TERM);
    let end = timeout(PATIENCE, subject.end()).await;
    let end = end.expect("in time").expect("an end");
    assert_eq!(end.status.code(), Some(0), "{}", end.errors);
    let calls = std::fs::read_to_string(calls).unwrap();
    assert!(calls.contains("/proc/"), "it was traced: {calls}");
    assert!(!calls.contains("/net/tcp"), "{calls}");
}
