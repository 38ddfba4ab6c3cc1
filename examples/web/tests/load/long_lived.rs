//! Connections that last, stopped while others are under load: each gets its close, and nothing of it is lost.

use adieu_load::{Connection, Load, Mode, Target};
use adieu_testkit::iterations;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::server::{PATIENCE, Server};

const CLIENTS: usize = 64;

async fn ask(target: &Target, request: &str) -> Connection {
    let mut client = target.connect().await.unwrap();
    client.write_all(request.as_bytes()).await.unwrap();
    client.flush().await.unwrap();
    client
}

async fn read_until(client: &mut Connection, text: &str) -> String {
    let mut heard = Vec::new();
    while !heard.ends_with(text.as_bytes()) {
        heard.push(client.read_u8().await.expect("more comes"));
    }
    String::from_utf8_lossy(&heard).into_owned()
}

/// Every stream ends after an event, and the answer is whole.
async fn events(target: Target, begun: mpsc::Sender<()>) {
    let request = "GET /sse HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let mut client = ask(&target, request).await;
    read_until(&mut client, "data: tick 0\n\n").await;
    begun.send(()).await.unwrap();
    let mut rest = String::new();
    client.read_to_string(&mut rest).await.expect("a close");
    let (events, end) = rest.split_once("\r\n0\r\n\r\n").expect(&rest);
    assert!(
        events.ends_with("event: goodbye\ndata: going away\n\n"),
        "{events}"
    );
    // Its head had promised to keep the connection.
    assert!(end.is_empty() || end.starts_with("HTTP/1.1 408 "), "{end}");
}

/// Every message is echoed, but for one that crossed the close: its client knows that it went nowhere.
async fn messages(target: Target, begun: mpsc::Sender<()>) {
    const GOING_AWAY: [u8; 4] = [0x88, 2, 0x03, 0xe9];
    let request = "GET /ws HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                   sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    let mut client = ask(&target, request).await;
    let head = read_until(&mut client, "\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    for number in 0_u32.. {
        // A mask of zeros leaves the bytes as they are.
        let mut frame = vec![0x82, 0x84, 0, 0, 0, 0];
        frame.extend(number.to_be_bytes());
        client
            .write_all(&frame)
            .await
            .expect("it reads, or has said goodbye");
        client.flush().await.expect("it reads, or has said goodbye");
        let mut header = [0; 2];
        client
            .read_exact(&mut header)
            .await
            .expect("an echo, or a goodbye");
        let mut payload = vec![0; usize::from(header[1])];
        client
            .read_exact(&mut payload)
            .await
            .expect("a whole frame");
        if header[0] == GOING_AWAY[0] {
            assert_eq!([&header[..], &payload].concat(), GOING_AWAY);
            break;
        }
        assert_eq!((header[0], payload), (0x82, number.to_be_bytes().to_vec()));
        if number == 10 {
            begun.send(()).await.unwrap();
        }
    }
    // The answer to the close, masked as well; then nothing but the end comes.
    client
        .write_all(&[0x88, 0x82, 0, 0, 0, 0, 0x03, 0xe9])
        .await
        .unwrap();
    client.flush().await.unwrap();
    let mut rest = Vec::new();
    client
        .read_to_end(&mut rest)
        .await
        .expect("a close, and no reset");
    assert_eq!(rest, b"");
}

async fn stopped<F>(tls: bool, long_lived: impl Fn(Target, mpsc::Sender<()>) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    for mode in [Mode::KeepAlive, Mode::Fresh].repeat(iterations(1, 50)) {
        let mut server = Server::start(tls, &[]).await;
        let (begin, mut begun) = mpsc::channel(CLIENTS);
        let mut clients = JoinSet::new();
        for _ in 0..CLIENTS {
            clients.spawn(long_lived(server.target.clone(), begin.clone()));
        }
        for _ in 0..CLIENTS {
            timeout(PATIENCE, begun.recv()).await.unwrap();
        }
        let load = Load::http1(server.target.clone(), "/")
            .mode(mode)
            .clients(32);
        let running = load.start();
        timeout(PATIENCE, running.answered(300)).await.unwrap();
        server.subject.terminate().unwrap();
        while let Some(client) = timeout(PATIENCE, clients.join_next()).await.unwrap() {
            client.unwrap();
        }
        let tally = timeout(PATIENCE, running.finish()).await.unwrap();
        assert_eq!((tally.lost(), tally.unsent), (0, 0), "{mode:?}: {tally}");
        server.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_of_events() {
    stopped(false, events).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn websockets() {
    stopped(false, messages).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn websockets_over_tls() {
    stopped(true, messages).await;
}
