//! The sockets of `--listen`: their options, their files, and who answers on them.

use std::net::TcpStream;
use std::os::unix::net::{UnixListener, UnixStream};

use adieu_testkit::ReservedPort;
use rustix::process::Signal;

use crate::restart::SERVER;
use crate::support::{Wrapper, run, state};

/// Says of each connection whether small answers wait for others. It takes the socket for one of another kind.
const SAYS_DELAY: &str = r#"
import os, signal, socket
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
listener = socket.socket(fileno=3)
while True:
    peer, _ = listener.accept()
    print("no delay:", peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0, flush=True)
"#;

#[tokio::test]
async fn answers_are_sent_at_once() {
    let options = ["--listen", "tcp:127.0.0.1:0"];
    let mut wrapper = Wrapper::start(&options, &["/usr/bin/python3", "-c", SAYS_DELAY]);
    let line = wrapper.says("listening on tcp:").await;
    let address = line.rsplit_once("tcp:").expect("an address").1.to_owned();
    wrapper.says(" ready after ").await;
    let _first = TcpStream::connect(&address).unwrap();
    assert_eq!(wrapper.line("no delay: ").await, "True");
    // Each generation has a socket of its own.
    wrapper.signal(Signal::HUP);
    wrapper.says("the old process (pid ").await;
    let _second = TcpStream::connect(&address).unwrap();
    assert_eq!(wrapper.line("no delay: ").await, "True");
    wrapper.signal(Signal::TERM);
    wrapper.end().await;
}

/// The queue, and the old process, answer a probe of the socket: they are not the new one.
#[tokio::test]
async fn a_probe_of_the_socket_is_not_enough() {
    let folder = tempfile::TempDir::new().unwrap();
    let program = folder.path().join("server.py");
    std::fs::write(&program, SERVER).unwrap();
    let port = ReservedPort::reserve().expect("a port");
    let probe = port.address().to_string();
    let listen = format!("tcp:{probe}");
    let options = [
        "--listen",
        &listen,
        "--probe-tcp",
        &probe,
        "--ready-timeout",
        "3s",
    ];
    let command = ["/usr/bin/python3", program.to_str().unwrap()];
    let mut wrapper = Wrapper::start(&options, &command);
    let line = wrapper.line("pid ").await;
    let old: i32 = line.split(' ').next().unwrap().parse().unwrap();
    wrapper.says(" ready after ").await;
    std::fs::write(&program, "import time\ntime.sleep(1000)").unwrap();
    wrapper.signal(Signal::HUP);
    let said = wrapper.says("the new process (pid ").await;
    assert!(said.contains("; the old one stays"), "{said}");
    assert!(state(old).is_some(), "it stays");
    assert!(TcpStream::connect(&probe).is_ok(), "it serves");
    wrapper.signal(Signal::TERM);
    wrapper.end().await;
}

#[test]
fn readiness_by_the_probe_of_the_socket_alone_is_refused() {
    for (listen, probe) in [
        ("tcp:0.0.0.0:8123", "127.0.0.1:8123"),
        ("tcp:127.0.0.1:8123", "localhost:8123"),
        ("unix:/tmp/a.sock", "unix:/tmp/a.sock"),
    ] {
        let options = ["--listen", listen, "--ready", "probe", "--probe-tcp", probe];
        let (code, _, said) = run(&options, &["true"]);
        assert_eq!(code, 2, "{said}");
        assert!(said.contains("Leave out --ready probe"), "{said}");
    }
}

/// A process that has taken our place at a path keeps it.
#[tokio::test]
async fn the_file_of_another_is_left_alone() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("web.sock");
    let listen = format!("unix:{}", path.display());
    let mut wrapper = Wrapper::start(&["--listen", &listen], &["sleep", "1000"]);
    wrapper.says("started (pid").await;
    std::fs::remove_file(&path).unwrap();
    let _other = UnixListener::bind(&path).unwrap();
    wrapper.signal(Signal::TERM);
    wrapper.end().await;
    assert!(UnixStream::connect(&path).is_ok(), "it can be reached");
}
