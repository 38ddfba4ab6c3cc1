//! Several processes of one command on one socket.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Signal;

use crate::support::{PATIENCE, Wrapper, ends, kill};

/// Answers each connection with its worker's number and its process id. At SIGTERM it finishes the one it has; those in
/// the queue are for the other workers.
const SERVER: &str = r#"
import os, select, signal, socket
listener = socket.socket(fileno=3)
listener.setblocking(False)
is_idle = is_stopping = False
def stop(*_):
    global is_stopping
    is_stopping = True
    if is_idle:
        os._exit(0)
signal.signal(signal.SIGTERM, stop)
while not is_stopping:
    is_idle = True
    select.select([listener], [], [])
    is_idle = False
    try:
        client, _ = listener.accept()
    except BlockingIOError:
        continue
    client.setblocking(True)
    client.recv(1)
    client.sendall(f"{os.environ['ADIEU_WORKER']} {os.getpid()}".encode())
    client.close()
"#;

const LISTEN: [&str; 2] = ["--listen", "tcp:127.0.0.1:0"];

async fn start(options: &[&str]) -> (Wrapper, SocketAddr) {
    let options = [&LISTEN[..], options].concat();
    let mut wrapper = Wrapper::start(&options, &["/usr/bin/python3", "-c", SERVER]);
    let line = wrapper.says("listening on tcp:").await;
    let address = line.rsplit_once("tcp:").expect("an address").1;
    (wrapper, address.parse().expect("an address"))
}

/// The worker's number and process id.
fn ask(address: SocketAddr) -> (u32, i32) {
    let mut client = TcpStream::connect(address).expect("a connection");
    client.set_read_timeout(Some(PATIENCE)).expect("a limit");
    client.write_all(b"?").expect("a request is sent");
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("a response");
    let (worker, pid) = answer.split_once(' ').expect("two numbers");
    (
        worker.parse().expect("a number"),
        pid.parse().expect("a number"),
    )
}

/// One restart by SIGHUP replaces all of them, one after the other, and no connection is lost.
#[tokio::test]
async fn a_restart_replaces_one_worker_after_the_other() {
    let (mut wrapper, address) = start(&["--workers", "3"]).await;
    for _ in 0..3 {
        wrapper.says(" ready after ").await;
    }
    let is_over = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let is_over = Arc::clone(&is_over);
            std::thread::spawn(move || {
                let mut seen = BTreeSet::new();
                while !is_over.load(Ordering::Relaxed) {
                    seen.insert(ask(address));
                }
                seen
            })
        })
        .collect();
    wrapper.signal(Signal::HUP);
    let mut said = Vec::new();
    for worker in 1..=3 {
        // The next one is not started before this one has been replaced.
        said.push(
            wrapper
                .says(&format!("python3 {worker} started (pid "))
                .await,
        );
        said.push(wrapper.says(" serves, pid ").await);
    }
    is_over.store(true, Ordering::Relaxed);
    for client in clients {
        let seen = client.join().expect("every connection got its response");
        assert!(
            seen.iter().all(|(worker, _)| (1..=3).contains(worker)),
            "{seen:?}"
        );
    }
    wrapper.signal(Signal::TERM);
    let (code, errors) = wrapper.code().await;
    assert_eq!(code, 0, "{said:#?}\n{errors}");
    // One socket, which one worker has drained for all.
    assert_eq!(
        errors
            .matches("1 listening socket closed to new connections")
            .count(),
        1,
        "{errors}"
    );
}

/// While one worker is replaced after a crash, the others serve.
#[tokio::test]
async fn a_worker_that_has_crashed_is_replaced() {
    let options = [
        "--workers",
        "2",
        "--restart",
        "on-failure",
        "--restart-delay",
        "1ms",
    ];
    let (mut wrapper, address) = start(&options).await;
    for _ in 0..2 {
        wrapper.says(" ready after ").await;
    }
    let (worker, pid) = ask(address);
    kill(pid, Signal::KILL);
    assert!(ends(pid, PATIENCE));
    // From the other one, or from its successor.
    assert_ne!(ask(address).1, pid);
    wrapper
        .says(&format!("python3 {worker} started (pid "))
        .await;
    wrapper.says(" ready after ").await;
    wrapper.signal(Signal::TERM);
    let (code, errors) = wrapper.code().await;
    assert_eq!(code, 0, "{errors}");
}

/// Without a restart policy the end of one worker is the end of all, and its exit code is that of the run.
#[tokio::test]
async fn a_worker_that_is_not_replaced_ends_the_others() {
    let (mut wrapper, address) = start(&["--workers", "2"]).await;
    for _ in 0..2 {
        wrapper.says(" ready after ").await;
    }
    let (worker, pid) = ask(address);
    kill(pid, Signal::KILL);
    let other = 3 - worker;
    wrapper
        .says(&format!("SIGTERM to python3 {other} (pid "))
        .await;
    let (code, errors) = wrapper.code().await;
    assert_eq!(code, 137, "{errors}");
}
