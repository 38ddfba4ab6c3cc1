//! What each client hears last.

use std::time::Duration;

use adieu_testkit::SchedulingDelay;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::{JoinSet, yield_now};
use tokio::time::sleep_until;

use crate::server::{GOODBYE, Server};

async fn hear(mut stream: TcpStream) -> String {
    let mut heard = String::new();
    let end = stream.read_to_string(&mut heard).await;
    end.expect("the end is a close, and no reset");
    heard
}

#[tokio::test]
async fn lines_received_before_the_stop_are_echoed_before_the_goodbye() {
    let mut server = Server::start().await;
    // The first is known to the server already; the second is still in its queue.
    let mut known = TcpStream::connect(server.address).await.unwrap();
    known.write_all(b"one\n").await.unwrap();
    let mut echo = [0; 11];
    known.read_exact(&mut echo).await.unwrap();
    server.hold().await;
    let mut queued = TcpStream::connect(server.address).await.unwrap();
    for stream in [&mut known, &mut queued] {
        stream.write_all(b"two\nthree\r\nhalf a li").await.unwrap();
    }
    server.subject.terminate().unwrap();
    server.subject.go_on().unwrap();
    for stream in [known, queued] {
        let heard = hear(stream).await;
        assert_eq!(heard, format!("Echo: two\r\nEcho: three\r\n{GOODBYE}"));
    }
    server.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_idle_clients_hear_it() {
    const WANTED: usize = 10_000;
    let maximum = getrlimit(Resource::Nofile).maximum;
    let all = Rlimit {
        current: maximum,
        maximum,
    };
    setrlimit(Resource::Nofile, all).unwrap();
    let most = maximum.map_or(4 * WANTED, |most| {
        usize::try_from(most).unwrap_or(4 * WANTED)
    });
    // The server keeps an eighth of them for other things.
    let count = (most / 4 * 3).min(WANTED);
    if count < WANTED {
        fixture_skip::not_possible(format_args!(
            "{count} clients in the place of {WANTED}: the limit of open files allows no more"
        ));
    }
    let mut server = Server::start().await;
    let mut idle = Vec::new();
    for _ in 0..count {
        idle.push(TcpStream::connect(server.address).await.unwrap());
    }
    server.subject.terminate().unwrap();
    let mut clients = JoinSet::new();
    for stream in idle {
        clients.spawn(hear(stream));
    }
    while let Some(heard) = clients.join_next().await {
        assert_eq!(heard.unwrap(), GOODBYE);
    }
    let end = server.end().await;
    println!("{count} idle clients: gone after {:?}", end.took);
}

/// What it sends after the stop need not be read, and what it sent before has been.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_never_pauses_is_not_read_for_ever() {
    let mut server = Server::start().await;
    let (mut read, mut write) = TcpStream::connect(server.address)
        .await
        .unwrap()
        .into_split();
    let mut echo = [0; 13];
    write.write_all(b"first\n").await.unwrap();
    read.read_exact(&mut echo).await.unwrap();
    let writing = tokio::spawn(async move { while write.write_all(b"more\n").await.is_ok() {} });
    let reading = tokio::spawn(async move {
        let mut sink = vec![0; 65_536];
        while read.read(&mut sink).await.is_ok_and(|count| count > 0) {}
    });
    server.subject.terminate().unwrap();
    server.end().await;
    writing.await.unwrap();
    reading.await.unwrap();
}

/// It gets nothing, and does not hold the exit.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_is_not_waited_for() {
    let mut server = Server::start().await;
    let deaf = TcpStream::connect(server.address).await.unwrap();
    let client = deaf.local_addr().unwrap();
    let lines = "a line\n".repeat(10_000);
    let mut rest = lines.as_bytes();
    // Until there is no room on either way: the server waits to write, and reads no further though there is something to read.
    loop {
        while let Ok(written) = deaf.try_write(rest) {
            rest = &rest[written..];
            if rest.is_empty() {
                rest = lines.as_bytes();
            }
        }
        let before = server.asleep();
        let is_unread = server.unread_from(client) > 0;
        if before.is_some() && is_unread && server.asleep() == before {
            break;
        }
        yield_now().await;
    }
    server.subject.terminate().unwrap();
    let end = server.end().await;
    let took = end.took.expect("it was asked to");
    assert!(took < Duration::from_secs(15), "{took:?}");
    assert!(
        end.errors.contains("the client does not read"),
        "{}",
        end.errors
    );
}

/// The handler returns at the last moment, before the time is over that its client has to close its side.
#[tokio::test(flavor = "multi_thread")]
async fn a_goodbye_at_the_last_moment_is_no_loss() {
    // A round that fails while the machine ran is a failure; one in which it slept for as long as such a moment lasts is
    // not judged, and is made again.
    const SLEPT: Duration = Duration::from_millis(40);
    for _ in 0..5 {
        let pulse = SchedulingDelay::start();
        let report = last_moment().await;
        if report.exit_code() == 0 {
            return;
        }
        let slept = pulse.latest();
        assert!(slept >= SLEPT, "{report}");
        println!("not judged: the machine slept for {slept:?}");
    }
    fixture_skip::too_busy("the machine slept through five rounds");
}

async fn last_moment() -> adieu::Report {
    let (ready_to, ready) = oneshot::channel();
    let service = adieu::scope("late").grace(Duration::from_secs(2));
    let running = service.run(async move |app: &mut adieu::App| {
        let listener = app.listen("late", "127.0.0.1:0").await?;
        let listener = listener.on_listening(move |address| {
            let _ = ready_to.send(address.to_owned());
        });
        let handle = app.shutdown_handle();
        app.tcp(listener, move |conn: adieu::net::Conn| {
            let handle = handle.clone();
            async move {
                handle.stop("a client is here");
                conn.stop().requested().await;
                if let Some(end) = conn.stop().deadline() {
                    sleep_until(end - Duration::from_millis(150)).await;
                }
            }
        })
        .goodbye(GOODBYE);
        Ok(())
    });
    let client = async {
        let address = ready.await.expect("it listens");
        let mut stream = TcpStream::connect(&address).await.unwrap();
        let mut heard = String::new();
        stream.read_to_string(&mut heard).await.unwrap();
        (stream, heard)
    };
    let (report, (_stays, heard)) = tokio::join!(running, client);
    assert_eq!(heard, GOODBYE);
    report
}
