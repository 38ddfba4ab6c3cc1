//! Sockets that the parent process shares with us: they are given back as they were.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{ADIEU, PATIENCE, ends};

const WORKER: &str = r#"
import os, signal, socket
signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
listener = socket.socket(fileno=3)
while True:
    peer, _ = listener.accept()
    with peer:
        peer.sendall(peer.recv(100))
"#;

fn echo(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).expect("it is open");
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"hello").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// A parent hands the same socket to one worker after the other, by its number and not as `LISTEN_FDS`.
#[test]
fn a_stop_leaves_the_socket_of_a_parent_open() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    for worker in 1..=2 {
        let script = "exec \"$0\" run -- /usr/bin/python3 -c \"$1\" 3<&0 </dev/null";
        let mut wrapper = Command::new("sh")
            .args(["-c", script, ADIEU, WORKER])
            .stdin(Stdio::from(std::os::fd::OwnedFd::from(
                listener.try_clone().unwrap(),
            )))
            .spawn()
            .unwrap();
        assert_eq!(echo(address), "hello", "worker {worker}");
        kill_process(Pid::from_child(&wrapper), Signal::TERM).unwrap();
        assert!(ends(wrapper.id().cast_signed(), PATIENCE));
        assert_eq!(wrapper.wait().unwrap().code(), Some(0));
    }
}
