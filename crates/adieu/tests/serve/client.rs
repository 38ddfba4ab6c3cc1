//! A client of one request at a time, on a connection that it may keep.

use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

/// The port is bound in `setup`, and listens a moment after it.
pub(crate) async fn connect(address: SocketAddr) -> TcpStream {
    loop {
        if let Ok(stream) = TcpStream::connect(address).await {
            return stream;
        }
        tokio::task::yield_now().await;
    }
}

/// The status line and the body of the answer to `GET path`, on a connection that stays.
pub(crate) async fn get(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    path: &str,
) -> (String, String) {
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    stream
        .write_all(request.as_bytes())
        .await
        .expect("the server reads");
    read_response(stream).await
}

/// The status line and the body of the next response.
pub(crate) async fn read_response(stream: &mut (impl AsyncRead + Unpin)) -> (String, String) {
    let mut answer = Vec::new();
    let mut byte = [0];
    while !answer.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).await.expect("a whole head");
        answer.push(byte[0]);
    }
    let head = String::from_utf8(answer).expect("a head is text");
    let length = head
        .lines()
        .filter_map(|line| line.split_once(": "))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, length)| length.parse().ok())
        .expect("a length");
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.expect("a whole body");
    let status = head.lines().next().unwrap_or_default().to_owned();
    (status, String::from_utf8(body).expect("a body of text"))
}
