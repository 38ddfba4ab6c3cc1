//! A new process that is not ready, and shares its socket with the old one: it may have requests all the same.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use rustix::process::Signal;

use crate::support::{PATIENCE, Wrapper};

/// The first generation is ready and leaves the socket to the second, which never says that it is. That one answers
/// when it is asked to end.
const SERVER: &str = r#"
import os, signal, socket
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
listener = socket.socket(fileno=3)
if os.environ["SERVER_STARTER_GENERATION"] == "1":
    name = "\0" + os.environ["NOTIFY_SOCKET"][1:]
    socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"READY=1", name)
else:
    peer, _ = listener.accept()
    text = peer.recv(100)
    print("has it", flush=True)
signal.sigwait([signal.SIGTERM])
if os.environ["SERVER_STARTER_GENERATION"] != "1":
    peer.sendall(text)
"#;

/// A client whose request the second generation has.
async fn with_a_request(ready_timeout: &str) -> (Wrapper, UnixStream, tempfile::TempDir) {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("web.sock");
    let listen = format!("unix:{}", path.display());
    let options = [
        "--listen",
        &listen,
        "--ready",
        "notify",
        "--ready-timeout",
        ready_timeout,
        "--grace",
        "50s",
    ];
    let mut wrapper = Wrapper::start(&options, &["/usr/bin/python3", "-c", SERVER]);
    wrapper.says(" ready after ").await;
    let mut client = UnixStream::connect(&path).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.write_all(b"hello").unwrap();
    wrapper.signal(Signal::HUP);
    wrapper.line("has it").await;
    (wrapper, client, folder)
}

fn answer(mut client: UnixStream) -> String {
    let mut text = String::new();
    client.read_to_string(&mut text).expect("an answer");
    text
}

#[tokio::test]
async fn a_stop_lets_it_finish() {
    let (wrapper, client, _folder) = with_a_request("60s").await;
    wrapper.signal(Signal::TERM);
    assert_eq!(answer(client), "hello");
    let (code, said) = wrapper.code().await;
    assert_eq!(code, 0, "{said}");
}

#[tokio::test]
async fn one_that_is_given_up_may_finish() {
    let (mut wrapper, client, _folder) = with_a_request("3s").await;
    wrapper.says("; the old one stays").await;
    assert_eq!(answer(client), "hello");
    wrapper.says("the new process (pid ").await;
    wrapper.signal(Signal::TERM);
    let (code, said) = wrapper.code().await;
    assert_eq!(code, 0, "{said}");
}
