//! Thousands of idle connections.

use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::server::Server;

const WANTED: usize = 10_000;
const LINGER: Duration = Duration::from_millis(500);

/// Allows as many descriptors as it may, here and in children, and says how many clients that is enough for.
fn room() -> usize {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let all = Rlimit {
        current: maximum,
        maximum,
    };
    setrlimit(Resource::Nofile, all).unwrap();
    maximum.map_or(WANTED, |most| {
        // The server keeps an eighth of them for other things.
        (usize::try_from(most).unwrap_or(4 * WANTED) / 4 * 3).min(WANTED)
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_idle_clients_are_sent_home_politely() {
    let count = room();
    if count < WANTED {
        fixture_skip::not_possible(format_args!(
            "{count} clients in the place of {WANTED}: the limit of open files allows no more"
        ));
    }
    // A build for debugging on a busy machine is slow; what counts here is that every client is answered.
    let mut server = Server::start(false, &["--grace", "60s"]).await;
    let mut clients = JoinSet::new();
    let mut greeted = Vec::new();
    for number in 0..count {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        // Every other one has asked for something once; the rest never said a word.
        if number % 2 == 0 {
            let request = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";
            stream.write_all(request).await.unwrap();
            let mut answer = Vec::new();
            while !answer.ends_with(b"\r\n\r\nhello\n") {
                assert!(stream.read_buf(&mut answer).await.unwrap() > 0);
            }
        }
        greeted.push(stream);
    }
    server.subject.terminate().unwrap();
    for mut stream in greeted {
        clients.spawn(async move {
            let mut last = String::new();
            stream.read_to_string(&mut last).await.map(|_| last)
        });
    }
    while let Some(last) = clients.join_next().await {
        let last = last.unwrap().expect("no connection is reset");
        assert!(
            last.is_empty() || last.starts_with("HTTP/1.1 408 "),
            "{last}"
        );
    }
    let end = server.end().await;
    let over = end.took.unwrap().saturating_sub(LINGER);
    println!("{count} idle clients: gone {over:?} after the linger");
}
