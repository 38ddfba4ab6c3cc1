//! A server that knows nothing of us, stopped under a load of fresh connections: what was lost, with the sockets hidden
//! first and without. `cargo xtask bench cloak` does the same with the servers that people use.

use std::net::{SocketAddr, TcpListener};

use adieu_load::{Load, Mode, Tally, Target};
use rustix::process::Signal;
use tokio::time::timeout;

use crate::support::{PATIENCE, Wrapper, times};

/// One at a time, so that others wait in the queue; at SIGTERM it finishes the one it has and closes.
const PLAIN: &str = r#"
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

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

/// Stops the server in the middle of a load and counts what was lost.
async fn stop_under_load(flags: &[&str]) -> Tally {
    let port = free_port();
    let options = [&["--quiet"], flags].concat();
    let command = ["/usr/bin/python3", "-c", PLAIN, &port.to_string()];
    let wrapper = Wrapper::start(&options, &command);
    let target = Target::tcp(SocketAddr::from(([127, 0, 0, 1], port)));
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

async fn lost(count: u32, flags: &[&str]) -> (u64, u64) {
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
    let (with, sent) = lost(times(2, 20), &[]).await;
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
