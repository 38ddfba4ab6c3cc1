//! What a peer can do to the port: nothing that keeps others out.

use std::time::Duration;

use adieu::App;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use crate::client::{Running, send, within};

async fn service() -> Running {
    Running::start(async |app: &mut App| {
        app.task("worker", |stop| async move { stop.requested().await });
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_with_many_connections_locks_no_other_out() {
    let service = service().await;
    let mut hoard = Vec::new();
    for _ in 0..200 {
        hoard.push(TcpStream::connect(service.admin).await.expect("it listens"));
    }
    assert_eq!(service.get("/livez").await.status, 200);
    // The oldest had to make room, long before its own time was up.
    let mut oldest = hoard.swap_remove(0);
    let read = timeout(Duration::from_secs(3), oldest.read(&mut [0; 16])).await;
    let read = read.expect("it was cut");
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    assert_eq!(service.stop().await.exit_code(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_request_a_connection() {
    let service = service().await;
    let request = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";
    // `send` reads to the end: it would wait forever on a connection that is kept alive.
    let answer = send(service.admin, &request.repeat(2)).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.body, "alive\n");
    assert_eq!(service.stop().await.exit_code(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_too_large_is_refused() {
    let service = service().await;
    let mut stream = TcpStream::connect(service.admin).await.expect("it listens");
    let sending = async {
        stream.write_all(b"GET /livez HTTP/1.1\r\n").await?;
        for _ in 0..64 {
            stream
                .write_all(format!("X: {}\r\n", "x".repeat(1_000)).as_bytes())
                .await?;
        }
        // It has an end, so that only its size is against it.
        stream.write_all(b"\r\n").await
    };
    // It may be cut before all is sent.
    let _ = within("the cut", sending).await;
    let mut said = Vec::new();
    let _ = within("the end", stream.read_to_end(&mut said)).await;
    assert!(
        !said.starts_with(b"HTTP/1.1 200"),
        "{}",
        String::from_utf8_lossy(&said)
    );
    assert_eq!(service.get("/livez").await.status, 200);
    assert_eq!(service.stop().await.exit_code(), 0);
}

/// What a client makes of a service. The clock is the test's: nothing passes but the limit.
async fn meet<T>(client: impl AsyncFnOnce(TcpStream) -> T) -> T {
    let (say, said) = oneshot::channel();
    let scope = adieu::scope("orders").run(async move |app: &mut App| {
        let admin = app.admin("0").collect_metrics().await?;
        let _ = say.send((admin.local_addr(), app.shutdown_handle()));
        app.task("worker", |stop| async move { stop.requested().await });
        Ok(())
    });
    let asking = async {
        let (address, handle) = said.await.expect("an address");
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(4_096).expect("a small buffer");
        let address = address.expect("a TCP address");
        let came = client(socket.connect(address).await.expect("it listens")).await;
        handle.stop("the test is over");
        came
    };
    let (report, came) = tokio::join!(scope, asking);
    assert_eq!(report.exit_code(), 0, "{report}");
    came
}

#[tokio::test(start_paused = true)]
async fn half_a_head_is_cut_long_before_the_whole_time_is_up() {
    let kept = meet(async |mut stream| {
        stream.write_all(b"GET /livez HT").await.expect("it reads");
        let began = Instant::now();
        let _ = stream.read_to_end(&mut Vec::new()).await;
        began.elapsed()
    });
    let kept = kept.await;
    assert!(kept < Duration::from_secs(14), "{kept:?}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_cut() {
    let came = meet(async |mut stream| {
        // More than the kernel takes for a client that reads nothing.
        for number in 0..20_000 {
            let to = format!("{number}{}", "x".repeat(500));
            metrics::counter!("letters", "to" => to).increment(1);
        }
        let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
        stream.write_all(request).await.expect("it reads");
        tokio::time::sleep(Duration::from_secs(20)).await;
        let mut text = Vec::new();
        let _ = stream.read_to_end(&mut text).await;
        text.len()
    });
    let came = came.await;
    assert!((1..20_000 * 500).contains(&came), "{came} bytes");
}
