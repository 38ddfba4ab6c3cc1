//! What a line is, and what is none.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::server::{PATIENCE, Server};

/// As the server has it.
const LONGEST: usize = 64 * 1_024;

/// Everything heard until the server closes, which it does in order and not by a reset.
async fn hear_out(mut stream: TcpStream) -> String {
    let mut heard = String::new();
    let end = timeout(PATIENCE, stream.read_to_string(&mut heard)).await;
    let end = end.expect("it closes");
    end.expect("the end is a close, and no reset");
    heard
}

#[tokio::test]
async fn only_the_end_of_a_line_is_taken_away() {
    let mut server = Server::start().await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let lines = b"  two  \nthree\t\r\n\n";
    stream.write_all(lines).await.unwrap();
    stream.shutdown().await.unwrap();
    assert_eq!(
        hear_out(stream).await,
        "Echo:   two  \r\nEcho: three\t\r\nEcho: \r\n"
    );
    server.subject.terminate().unwrap();
    server.end().await;
}

#[tokio::test]
async fn a_line_of_the_greatest_length_is_echoed() {
    let mut server = Server::start().await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let line = "x".repeat(LONGEST);
    stream
        .write_all(format!("{line}\r\n").as_bytes())
        .await
        .unwrap();
    stream.shutdown().await.unwrap();
    assert!(hear_out(stream).await == format!("Echo: {line}\r\n"));
    server.subject.terminate().unwrap();
    server.end().await;
}

/// With its end or without one, and whatever comes after it.
#[tokio::test]
async fn a_line_that_is_too_long_is_refused_and_the_client_closed() {
    let mut server = Server::start().await;
    let endless = "x".repeat(2 * LONGEST);
    let ended = format!("{}\nnext\n", "x".repeat(LONGEST + 1));
    for sent in [endless, ended] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        let heard = hear_out(stream).await;
        assert_eq!(
            heard,
            format!("Line too long: at most {LONGEST} bytes.\r\n")
        );
    }
    server.subject.terminate().unwrap();
    server.end().await;
}
