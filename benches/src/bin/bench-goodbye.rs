//! From SIGTERM until ten thousand idle clients of an echo server have its goodbye, and until the process is gone.
//!
//! Nothing is polled: the time grows with the number of clients, and not with a timer.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use adieu::App;
use adieu::net::Conn;
use adieu_bench::{Child, Clock, Finding, Unit, best, elapsed, rounds};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const CLIENTS: usize = 10_000;
const GOODBYE: &str = "Server is shutting down. Goodbye!\r\n";
/// Until what the connections have caused is over.
const SETTLE: Duration = Duration::from_millis(500);
/// How long a client waits for what never comes.
const PATIENCE: Duration = Duration::from_secs(30);
/// Half of the period of a server that looks once a second whether it is to stop.
const BAR: f64 = 500.0;

fn main() -> io::Result<()> {
    if std::env::args().nth(1).as_deref() == Some("ours") {
        ours();
        return Ok(());
    }
    let count = clients()?;
    let (mut told, mut gone) = (Vec::new(), Vec::new());
    for _ in 0..rounds(3) {
        let (last, exit) = round(count)?;
        told.push(last);
        gone.push(exit);
    }
    for (case, times) in [
        ("until the last has its goodbye", told),
        ("until the process is gone", gone),
    ] {
        let case = format!("{count} idle echo clients, SIGTERM {case}");
        Finding::value("goodbye", case, Unit::Ms, best(&times))
            .at_most(BAR)
            .tell();
    }
    Ok(())
}

/// As many as the process may have open files, less an eighth, which the server keeps for other things.
fn clients() -> io::Result<usize> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let all = Rlimit {
        current: maximum,
        maximum,
    };
    setrlimit(Resource::Nofile, all)?;
    let room = maximum.and_then(|most| usize::try_from(most).ok());
    Ok(room.map_or(CLIENTS, |room| (room / 4 * 3).min(CLIENTS)))
}

/// Milliseconds from SIGTERM until the last client has its goodbye, and until the end of the process.
fn round(count: usize) -> io::Result<(f64, f64)> {
    let mut child = Child::start("ours")?;
    let address = child.line()?;
    let mut idle = Vec::with_capacity(count);
    for _ in 0..count {
        let mut client = TcpStream::connect(&address)?;
        client.set_read_timeout(Some(PATIENCE))?;
        // One line each: all are accepted and known to the server.
        client.write_all(b"hello\n")?;
        idle.push(BufReader::new(client));
    }
    let mut line = String::new();
    for client in &mut idle {
        line.clear();
        client.read_line(&mut line)?;
    }
    thread::sleep(SETTLE);
    let sent = child.terminate()?;
    for client in &mut idle {
        line.clear();
        client.read_to_string(&mut line)?;
        if line != GOODBYE {
            return Err(io::Error::other(format!(
                "a client got `{}` instead of the goodbye",
                line.escape_debug()
            )));
        }
    }
    let told = Clock::now();
    drop(idle);
    let gone = child.wait()?;
    let millis = |to| elapsed(sent, to) / 1e6;
    Ok((millis(told), millis(gone)))
}

fn ours() {
    let report = adieu::service("bench").run(async |app: &mut App| {
        let listener = app.listen("echo", "127.0.0.1:0").await?;
        let listener = listener.on_listening(|address| println!("ready\n{address}"));
        app.tcp(listener, echo).goodbye(GOODBYE);
        Ok(())
    });
    assert_eq!(report.exit_code(), 0, "{report}");
}

async fn echo(mut conn: Conn) -> io::Result<()> {
    let mut bytes = [0; 256];
    loop {
        let count = conn.read(&mut bytes).await?;
        if count == 0 {
            return Ok(());
        }
        conn.write_all(&bytes[..count]).await?;
    }
}
