//! Without the feature `http2`: a client that begins with HTTP/2 is closed, and the others are served.
#![cfg(all(feature = "axum", not(feature = "http2"), unix))]

use axum::{Router, routing::get};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

#[tokio::test]
async fn a_client_that_begins_with_http2_is_closed() -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let router = Router::new().route("/", get(async || "hello"));
    let (done, is_done) = oneshot::channel::<()>();
    let served = adieu::serve(listener, router)
        .with_graceful_shutdown(async { drop(is_done.await) })
        .into_future();
    let ask = async |bytes: &[u8]| {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(bytes).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        std::io::Result::Ok(answer)
    };
    let clients = async {
        let refused = ask(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
        let served = ask(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await;
        drop(done);
        (refused, served)
    };
    let (drained, (refused, answered)) = tokio::join!(served, clients);
    assert_eq!(drained.expect("it was served").report.exit_code(), 0);
    // No frame of HTTP/2, and no answer to a request that is none.
    let refused = String::from_utf8(refused?).expect("text");
    assert!(!refused.contains(" 200 "), "{refused:?}");
    assert!(answered?.starts_with(b"HTTP/1.1 200 "));
    Ok(())
}
