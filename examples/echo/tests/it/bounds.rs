//! States of a connection, over TLS and without, and how many there may be.

use std::time::Duration;

use adieu_load::Connection;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::server::{GOODBYE, PATIENCE, Server};

async fn read_line(client: &mut Connection) -> String {
    let mut line = Vec::new();
    while line.last() != Some(&b'\n') {
        let read = timeout(PATIENCE, client.read_u8()).await;
        line.push(read.expect("in time").expect("a line"));
    }
    String::from_utf8(line).unwrap()
}

/// Everything up to the end, which is in order: over TLS with its close_notify.
async fn rest_of(mut client: Connection) -> String {
    let mut rest = String::new();
    let read = timeout(PATIENCE, client.read_to_string(&mut rest)).await;
    read.expect("in time").expect("the end is a close");
    rest
}

/// Silent, idle, in the middle of a line, with lines in flight; and half a handshake.
#[tokio::test(flavor = "multi_thread")]
async fn every_state_ends_with_the_goodbye() {
    for tls in [false, true] {
        let mut server = Server::with(tls, &[]).await;
        let connect = async || server.target.connect().await.unwrap();
        let [silent, mut idle, mut half, mut busy] = [
            connect().await,
            connect().await,
            connect().await,
            connect().await,
        ];
        idle.write_all(b"one\n").await.unwrap();
        idle.flush().await.unwrap();
        assert_eq!(read_line(&mut idle).await, "Echo: one\r\n");
        half.write_all(b"one\nhalf").await.unwrap();
        half.flush().await.unwrap();
        assert_eq!(read_line(&mut half).await, "Echo: one\r\n");
        // Connected, and not a byte of a handshake.
        let mut mute = TcpStream::connect(server.address).await.unwrap();
        server.hold().await;
        busy.write_all(b"two\nthree\n").await.unwrap();
        busy.flush().await.unwrap();
        server.subject.terminate().unwrap();
        server.subject.go_on().unwrap();
        assert_eq!(rest_of(silent).await, GOODBYE);
        assert_eq!(rest_of(idle).await, GOODBYE);
        assert_eq!(rest_of(half).await, GOODBYE);
        let expected = format!("Echo: two\r\nEcho: three\r\n{GOODBYE}");
        assert_eq!(rest_of(busy).await, expected);
        let mut heard = String::new();
        timeout(PATIENCE, mute.read_to_string(&mut heard))
            .await
            .expect("in time")
            .expect("an end");
        assert_eq!(heard, if tls { "" } else { GOODBYE });
        server.end().await;
    }
}

/// The third is connected, as far as the kernel goes, and has its turn when another has left.
#[tokio::test(flavor = "multi_thread")]
async fn one_client_too_many_waits_for_a_place() {
    let mut server = Server::with(false, &["--max-connections", "2"]).await;
    let (mut first, mut second) = (
        server.target.connect().await.unwrap(),
        server.target.connect().await.unwrap(),
    );
    for client in [&mut first, &mut second] {
        client.write_all(b"one\n").await.unwrap();
        assert_eq!(read_line(client).await, "Echo: one\r\n");
    }
    let mut third = server.target.connect().await.unwrap();
    third.write_all(b"three\n").await.unwrap();
    // The others are served meanwhile, and none is closed for the third: a client that listens is not idle.
    for _ in 0..100 {
        first.write_all(b"more\n").await.unwrap();
        assert_eq!(read_line(&mut first).await, "Echo: more\r\n");
    }
    let heard = timeout(Duration::from_millis(200), third.read_u8()).await;
    assert!(heard.is_err(), "{heard:?}");
    drop(second);
    assert_eq!(read_line(&mut third).await, "Echo: three\r\n");
    server.subject.terminate().unwrap();
    assert_eq!(rest_of(first).await, GOODBYE);
    assert_eq!(rest_of(third).await, GOODBYE);
    server.end().await;
}

/// How many files a process may have open, as the kernel says.
fn open_files(pid: impl std::fmt::Display) -> String {
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let mut words = line.unwrap().split_whitespace().skip(3);
    words.next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limit_of_open_files_is_left_where_that_is_asked_for() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    let current = Some(300);
    setrlimit(Resource::Nofile, Rlimit { current, maximum }).unwrap();
    for (flags, is_left) in [(&["--keep-file-limit"][..], true), (&[][..], false)] {
        let mut server = Server::with(false, flags).await;
        let soft = open_files(server.subject.pid());
        assert_eq!(soft == "300", is_left, "{soft}");
        server.subject.terminate().unwrap();
        server.end().await;
    }
}

/// Who is at the other end, as the handler sees it.
#[tokio::test(flavor = "multi_thread")]
async fn a_handler_knows_its_peer() {
    let (ready_to, ready) = tokio::sync::oneshot::channel();
    let running = adieu::scope("peers").run(async move |app: &mut adieu::App| {
        let listener = app.listen("peers", "127.0.0.1:0").await?;
        let handle = app.shutdown_handle();
        let listener = listener.on_listening(move |address| {
            let _ = ready_to.send((address.to_owned(), handle));
        });
        app.tcp(listener, async |mut conn: adieu::net::Conn| {
            let peer = conn.peer();
            conn.write_all(peer.as_bytes()).await
        });
        Ok(())
    });
    let client = async {
        let (address, handle) = ready.await.expect("it listens");
        let mut stream = TcpStream::connect(&address).await.unwrap();
        let own = stream.local_addr().unwrap().to_string();
        let mut heard = String::new();
        stream.read_to_string(&mut heard).await.unwrap();
        assert_eq!(heard, own);
        handle.stop("the test is over");
    };
    let (report, ()) = tokio::join!(running, client);
    assert_eq!(report.exit_code(), 0, "{report}");
}
