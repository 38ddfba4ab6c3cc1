//! Servers that know nothing of us, stopped under a load of fresh connections: what was lost, with the sockets hidden
//! first and without. Asserted for a server of a few lines, printed for the others that are there:
//! `ADIEU_PROVE=1 cargo nextest run -p adieu-cli --run-ignored all -E 'test(cloak)' --no-capture`.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use adieu_load::{Load, Mode, Tally, Target};
use rustix::process::Signal;
use tokio::time::timeout;

use crate::restarts_under_load::python_with;
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

struct Server {
    name: &'static str,
    options: &'static [&'static str],
    command: Vec<String>,
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

fn plain(port: u16) -> Server {
    let words = ["/usr/bin/python3", "-c", PLAIN, &port.to_string()];
    Server {
        name: "a plain server",
        options: &[],
        command: words.map(ToOwned::to_owned).to_vec(),
    }
}

/// Stops the server in the middle of a load and counts what was lost.
async fn stop_under_load(server: Server, port: u16, flags: &[&str]) -> Tally {
    let options = [server.options, &["--quiet"], flags].concat();
    let wrapper = Wrapper::start(&options, &server.command);
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

async fn lost(count: u32, flags: &[&str], server: impl Fn(u16) -> Server) -> (u64, u64) {
    let (mut lost, mut sent) = (0, 0);
    for _ in 0..count {
        let port = free_port();
        let tally = stop_under_load(server(port), port, flags).await;
        lost += tally.lost();
        sent += tally.sent();
    }
    (lost, sent)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_queue_of_a_plain_server_survives_its_stop() {
    let (with, sent) = lost(times(2, 20), &[], plain).await;
    assert_eq!(with, 0, "of {sent}");
    // Else the test shows nothing.
    let (without, sent) = lost(times(2, 20), &["--no-cloak"], plain).await;
    println!("with: 0, without: {without} of {sent}");
    assert!(without > 0, "of {sent}");
}

fn peers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/peers")
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement: see docs/run.md"]
async fn cloak_beside_no_cloak() {
    let count = times(1, 20);
    let folder = tempfile::TempDir::new().expect("a folder");
    let scratch = folder.path().to_str().expect("a path").to_owned();
    let python = |module| python_with(module).unwrap_or_default();
    let apps = peers().join("python");
    let apps = apps.to_str().expect("a path").to_owned();
    let axum = std::env::var("ADIEU_PEER_AXUM").unwrap_or_default();
    let nginx = peers().join("nginx/serve.sh");
    let nginx = nginx.to_str().expect("a path").to_owned();
    type Words = Box<dyn Fn(u16) -> Vec<String>>;
    let (uvicorn, gunicorn) = (python("uvicorn"), python("gunicorn"));
    let servers: [(&'static str, bool, &'static [&'static str], Words); 4] = [
        (
            "uvicorn",
            !uvicorn.is_empty(),
            &[],
            Box::new({
                let apps = apps.clone();
                move |port| {
                    format!("{uvicorn} -m uvicorn asgi:app --app-dir {apps} --log-level warning --port {port}")
                        .split(' ')
                        .map(ToOwned::to_owned)
                        .collect()
                }
            }),
        ),
        (
            "gunicorn, 2 workers",
            !gunicorn.is_empty(),
            &[],
            Box::new(move |port| {
                format!("{gunicorn} -m gunicorn wsgi:app --chdir {apps} -w 2 --log-level error -b 127.0.0.1:{port}")
                    .split(' ')
                    .map(ToOwned::to_owned)
                    .collect()
            }),
        ),
        (
            "axum, with_graceful_shutdown",
            !axum.is_empty(),
            &[],
            Box::new(move |port| vec![axum.clone(), port.to_string()]),
        ),
        (
            "nginx, --signal term=quit",
            Path::new("/usr/sbin/nginx").exists(),
            &["--signal", "term=quit"],
            Box::new(move |port| {
                vec![
                    "sh".into(),
                    nginx.clone(),
                    port.to_string(),
                    scratch.clone(),
                ]
            }),
        ),
    ];
    println!("| server | lost in {count} stops: as it is | hidden first |\n|---|---|---|");
    for (name, is_there, options, words) in servers {
        if !is_there {
            println!("| {name} | not installed | |");
            continue;
        }
        let server = |port| Server {
            name,
            options,
            command: words(port),
        };
        let (without, all) = lost(count, &["--no-cloak"], server).await;
        let (with, all_with) = lost(count, &[], server).await;
        println!(
            "| {} | {without} of {all} | {with} of {all_with} |",
            server(0).name
        );
    }
}
