//! From SIGTERM to the end of the process: of a service with nothing to do, beside a bare tokio program that waits for the
//! signal and returns; and of a service with servers, for its clients at that moment.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::thread;

use adieu::net::Conn;
use adieu_bench::{
    Child, Finding, REST, Series, Unit, elapsed, percentile, rounds, signal_then_exit,
};
use axum::{Router, routing::get};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

/// Stops of a service with servers, for each case.
const STOPS: usize = 41;
const GOODBYE: &str = "Goodbye!\n";

/// Who is connected when the signal comes, and the bar for the median in milliseconds.
const CASES: &[(&str, Clients, f64)] = &[
    ("servers, no client", Clients::None, 5.0),
    ("servers, the last client gone", Clients::Gone, 5.0),
    ("servers, 100 idle echo clients", Clients::Echo(100), 15.0),
    (
        "servers, 1000 idle echo clients",
        Clients::Echo(1_000),
        60.0,
    ),
];

#[derive(Clone, Copy)]
enum Clients {
    None,
    /// One that was served, and has closed its connection.
    Gone,
    /// So many that were served, and wait for the goodbye.
    Echo(usize),
}

fn main() -> io::Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("ours") => {
            ours();
            Ok(())
        }
        Some("servers") => {
            servers();
            Ok(())
        }
        Some("tokio") => bare(),
        _ => {
            compare(rounds(5))?;
            with_clients()
        }
    }
}

fn compare(series: usize) -> io::Result<()> {
    let mut series = Series::measure(series, "tokio", signal_then_exit)?;
    for percent in [50, 99] {
        let (ours, bare) = series.best(percent);
        let case = format!("SIGTERM to exit, p{percent}");
        Finding::value("exit", case, Unit::Us, ours / 1e3)
            .above("bare tokio", bare / 1e3)
            .at_most(2_000.0)
            .tell();
    }
    Ok(())
}

fn with_clients() -> io::Result<()> {
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    for &(case, clients, bar) in CASES {
        let mut times = (0..STOPS)
            .map(|_| runtime.block_on(stop_with(clients)))
            .collect::<io::Result<Vec<f64>>>()?;
        let case = format!("{case}, p50");
        Finding::value("exit", case, Unit::Ms, percentile(&mut times, 50) / 1e6)
            .at_most(bar)
            .tell();
    }
    Ok(())
}

/// Nanoseconds from SIGTERM to the end of the service. Each client that is connected must get its goodbye.
async fn stop_with(clients: Clients) -> io::Result<f64> {
    let mut child = Child::start("servers")?;
    let mut address = || -> io::Result<SocketAddr> {
        let line = child.line()?;
        line.parse().map_err(|_| io::Error::other(line))
    };
    let (http, echo) = (address()?, address()?);
    let mut waiting = JoinSet::new();
    match clients {
        Clients::None => {}
        Clients::Gone => {
            let mut client = TcpStream::connect(http)?;
            client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")?;
            client.read_to_end(&mut Vec::new())?;
        }
        Clients::Echo(count) => {
            for _ in 0..count {
                let mut client = tokio::net::TcpStream::connect(echo).await?;
                client.write_all(b"a").await?;
                client.read_u8().await?;
                waiting.spawn(async move {
                    let mut rest = String::new();
                    client.read_to_string(&mut rest).await.map(|_| rest)
                });
            }
        }
    }
    thread::sleep(REST);
    let sent = child.terminate()?;
    let ended = tokio::task::spawn_blocking(|| child.wait());
    while let Some(said) = waiting.join_next().await {
        let said = said.map_err(io::Error::other)??;
        if said != GOODBYE {
            return Err(io::Error::other(format!("no goodbye, but {said:?}")));
        }
    }
    Ok(elapsed(sent, ended.await.map_err(io::Error::other)??))
}

fn ours() {
    let report = adieu::service("bench").run(async |app| {
        // A service with no part at all ends by itself.
        app.task("nothing", |stop| async move {
            println!("ready");
            stop.requested().await;
        });
        Ok(())
    });
    assert_eq!(report.exit_code(), 0, "{report}");
}

fn servers() {
    println!("started");
    let report = adieu::service("bench").run(async |app| {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).to_string();
        let (say, said) = tokio::sync::oneshot::channel();
        let http = app.listen("http", any.clone()).await?;
        let http = http.on_listening(|address| drop(say.send(address.to_owned())));
        app.http(http, Router::new().route("/", get(async || "hello")));
        let echo = app.listen("echo", any).await?;
        let echo = echo.on_listening(|address| {
            let address = address.to_owned();
            // In the order that the parent reads them.
            tokio::spawn(async move { println!("{}\n{address}", said.await.unwrap_or_default()) });
        });
        app.tcp(echo, repeat).goodbye(GOODBYE);
        Ok(())
    });
    assert_eq!(report.exit_code(), 0, "{report}");
}

async fn repeat(mut conn: Conn) -> io::Result<()> {
    let mut bytes = [0; 1_024];
    loop {
        match conn.read(&mut bytes).await? {
            0 => return Ok(()),
            count => conn.write_all(&bytes[..count]).await?,
        }
    }
}

fn bare() -> io::Result<()> {
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        println!("ready");
        terminate.recv().await;
        Ok(())
    })
}
