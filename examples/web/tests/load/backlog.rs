//! A queue filled before SIGTERM is served.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::server::Server;

/// The state letter of a process, after its name in parentheses.
fn state(pid: i32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

#[tokio::test]
async fn every_connection_in_the_accept_queue_is_answered() {
    let mut server = Server::start(false, &[]).await;
    server.subject.hold().unwrap();
    while state(server.subject.pid()) != Some('T') {
        tokio::task::yield_now().await;
    }
    let mut waiting = Vec::new();
    for _ in 0..50 {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let request = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";
        stream.write_all(request).await.unwrap();
        waiting.push(stream);
    }
    server.subject.terminate().unwrap();
    server.subject.go_on().unwrap();
    for mut stream in waiting {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        // Those answered before the signal was heard see later that it is over.
        let (_, rest) = answer.split_once("\r\n\r\nhello\n").expect(&answer);
        assert!(
            rest.is_empty() || rest.starts_with("HTTP/1.1 408 "),
            "{answer}"
        );
    }
    server.end().await;
}
