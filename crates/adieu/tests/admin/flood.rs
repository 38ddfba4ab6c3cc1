//! A peer that opens connections faster than they are answered takes the port from no other client.

use std::net::SocketAddr;
use std::sync::Arc;

use adieu::App;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{Semaphore, mpsc};

use crate::client::{Running, within};

/// As many as a whole flood of these tests opens at once.
const FLOOD: usize = 300;

/// A service whose one check waits until the test allows it, and the test's two ends: each check that is asked sends
/// a message, and each permit lets one go on.
async fn with_a_slow_check() -> (Running, mpsc::UnboundedReceiver<()>, Arc<Semaphore>) {
    let (asked, is_asked) = mpsc::unbounded_channel();
    let allowed = Arc::new(Semaphore::new(0));
    let permits = Arc::clone(&allowed);
    let service = Running::start(async move |app: &mut App| {
        app.check("slow", move || {
            let (asked, permits) = (asked.clone(), Arc::clone(&permits));
            async move {
                let _ = asked.send(());
                if let Ok(permit) = permits.acquire().await {
                    permit.forget();
                }
            }
        })
        .cache(std::time::Duration::ZERO)
        .timeout(std::time::Duration::from_secs(10));
        Ok(())
    })
    .await;
    (service, is_asked, allowed)
}

async fn connect_from(source: &str, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    let source = format!("{source}:0").parse().expect("an address");
    socket.bind(source).expect("all of 127/8 is this machine");
    socket.connect(to).await.expect("it listens")
}

async fn ask(stream: &mut TcpStream, path: &str) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let sent = stream.write_all(request.as_bytes()).await;
    sent.expect("the request is sent");
}

/// The status of the answer; `None` if the connection was closed without one.
async fn status(mut stream: TcpStream) -> Option<u16> {
    let mut text = Vec::new();
    let _ = within("the end", stream.read_to_end(&mut text)).await;
    let text = String::from_utf8_lossy(&text).into_owned();
    text.split(' ').nth(1)?.parse().ok()
}

/// The flood and the probes come from one address, as they do behind a proxy.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_in_the_making_is_not_cut_by_a_flood() {
    let (service, mut asked, allowed) = with_a_slow_check().await;
    let mut answered = 0;
    // Silent ones make room first anyway; of those that have sent something the probe is the oldest.
    for half in ["", "GET /livez HT"].repeat(4) {
        let mut probe = connect_from("127.0.0.1", service.admin).await;
        ask(&mut probe, "/readyz").await;
        within("the check", asked.recv()).await;
        let mut flood = Vec::new();
        for _ in 0..FLOOD {
            let mut stream = connect_from("127.0.0.1", service.admin).await;
            // One that has been cut already cannot be written to.
            let _ = stream.write_all(half.as_bytes()).await;
            flood.push(stream);
        }
        // The last ones were accepted when the first one is cut.
        let first = flood.swap_remove(0);
        assert_eq!(status(first).await, None);
        allowed.add_permits(1);
        answered += u32::from(status(probe).await == Some(200));
    }
    assert_eq!(answered, 8, "of 8 probes");
    assert_eq!(service.stop().await.exit_code(), 0);
}

/// Its head is in the kernel before the flood is, and no task has read it yet.
#[tokio::test(flavor = "current_thread")]
async fn a_connection_with_an_unread_head_is_not_cut_before_silent_ones() {
    let (service, mut asked, allowed) = with_a_slow_check().await;
    for _ in 0..8 {
        let mut probe = connect_from("127.0.0.1", service.admin).await;
        ask(&mut probe, "/readyz").await;
        let mut flood = Vec::new();
        for _ in 0..FLOOD {
            flood.push(connect_from("127.0.0.1", service.admin).await);
        }
        within("the check", asked.recv()).await;
        allowed.add_permits(1);
        assert_eq!(status(probe).await, Some(200));
    }
    assert_eq!(service.stop().await.exit_code(), 0);
}

/// Requests that are whole are not cut, so there must be a bound on how many one peer may have.
#[tokio::test(flavor = "multi_thread")]
async fn a_peer_has_only_a_few_places() {
    let (service, mut asked, allowed) = with_a_slow_check().await;
    let mut first = connect_from("127.0.0.2", service.admin).await;
    ask(&mut first, "/readyz").await;
    within("the check", asked.recv()).await;
    let mut hoard = vec![first];
    for _ in 0..100 {
        let mut stream = connect_from("127.0.0.2", service.admin).await;
        let request = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n";
        // One that is refused may be closed before it is written to.
        let _ = stream.write_all(request).await;
        hoard.push(stream);
    }
    // From another address nothing of that is seen.
    for _ in 0..8 {
        let mut probe = connect_from("127.0.0.1", service.admin).await;
        ask(&mut probe, "/livez").await;
        assert_eq!(status(probe).await, Some(200));
    }
    // Any number of checks may follow: those who came during the first share the second.
    allowed.add_permits(1_000);
    let mut answered = 0;
    for stream in hoard {
        answered += usize::from(status(stream).await == Some(200));
    }
    assert!((1..=16).contains(&answered), "{answered} places");
    assert_eq!(service.stop().await.exit_code(), 0);
}
