//! What a stop costs the clients of a server: requests lost under load, and how long each kind of connection
//! holds the exit.
//!
//! The servers are programs, ours first: `--server NAME COMMAND`, with `{port}` in the command.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use adieu_bench::{Finding, Unit, rounds};
use adieu_load::{Load, Mode, Target};
use adieu_testkit::ChildProcess;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::time::timeout;

const CLIENTS: usize = 32;
/// Answers before the stop comes.
const WARM: u64 = 500;
/// For how long a connection is held open against a server that wants to end.
const HELD: Duration = Duration::from_secs(12);

/// What a client does when the stop comes.
const HABITS: &[(&str, &[u8])] = &[
    ("no connection", b""),
    ("silent", b" "),
    ("half a head", b"GET / HTTP/1.1\r\nhost: a\r\nx-half"),
    ("idle, kept alive", b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"),
    (
        "a stream of events",
        b"GET /sse HTTP/1.1\r\nhost: a\r\n\r\n",
    ),
    (
        "a WebSocket",
        b"GET /ws HTTP/1.1\r\nhost: a\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
          sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    ),
];

struct Server {
    name: &'static str,
    command: String,
}

fn main() -> io::Result<()> {
    let servers = servers();
    let [ours, peers @ ..] = servers.as_slice() else {
        return Err(io::Error::other(
            "give ours, then the peers: --server NAME COMMAND",
        ));
    };
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    let rounds = rounds(10);
    for (case, mode) in [("kept alive", Mode::KeepAlive), ("fresh each", Mode::Fresh)] {
        let mut lost = vec![0.0; servers.len()];
        for _ in 0..rounds {
            for (server, lost) in servers.iter().zip(&mut lost) {
                *lost += runtime.block_on(lost_in_a_stop(server, mode))?;
            }
        }
        let ours = lost[0];
        for (peer, &theirs) in peers.iter().zip(&lost[1..]) {
            let case = format!("lost in {rounds} stops, connections {case}");
            Finding::value("drain", case, Unit::Requests, ours)
                .above(peer.name, theirs)
                .at_most(0.0)
                .tell();
        }
    }
    for &(habit, word) in HABITS {
        let took = |server| runtime.block_on(exit_with(server, habit, word));
        let mine = took(ours)?;
        for peer in peers {
            let case = format!("to exit: {habit}");
            Finding::value("drain", case, Unit::Ms, mine)
                .above(peer.name, took(peer)?)
                .tell();
        }
    }
    Ok(())
}

fn servers() -> Vec<Server> {
    let mut words = std::env::args().skip(1);
    let mut servers = Vec::new();
    while let Some(word) = words.next() {
        if word == "--server"
            && let (Some(name), Some(command)) = (words.next(), words.next())
        {
            // A handful, once: the findings want names that live as long as the program.
            let name = Box::leak(name.into_boxed_str());
            servers.push(Server { name, command });
        }
    }
    servers
}

impl Server {
    async fn start(&self) -> io::Result<(ChildProcess, SocketAddr)> {
        let free = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = free.local_addr()?;
        drop(free);
        let command = self.command.replace("{port}", &address.port().to_string());
        let mut words = command.split_whitespace();
        let program = words.next().ok_or(io::ErrorKind::InvalidInput)?;
        let subject = ChildProcess::start(program, words)?;
        Target::tcp(address).reachable(HELD).await?;
        Ok((subject, address))
    }
}

async fn lost_in_a_stop(server: &Server, mode: Mode) -> io::Result<f64> {
    let (mut subject, address) = server.start().await?;
    let load = Load::http1(Target::tcp(address), "/")
        .clients(CLIENTS)
        .mode(mode)
        .start();
    load.answered(WARM).await;
    subject.terminate()?;
    let tally = load.finish().await;
    let _ = timeout(HELD, subject.end()).await;
    Ok(tally.lost() as f64)
}

/// Milliseconds from SIGTERM to the exit, while a client holds a connection; or as long as it held it.
async fn exit_with(server: &Server, habit: &str, word: &[u8]) -> io::Result<f64> {
    let (mut subject, address) = server.start().await?;
    let mut client = match habit {
        "no connection" => None,
        _ => Some(TcpStream::connect(address).await?),
    };
    if let Some(client) = &mut client {
        if word != b" " {
            client.write_all(word).await?;
        }
        if word.ends_with(b"\r\n\r\n") {
            let _ = client.read(&mut [0; 4_096]).await?;
        } else {
            // Answered on another connection: by then this one was accepted.
            let mut other = TcpStream::connect(address).await?;
            other
                .write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
                .await?;
            other.read_to_end(&mut Vec::new()).await?;
        }
    }
    let asked = Instant::now();
    subject.terminate()?;
    let end = timeout(HELD, subject.end()).await;
    drop(client);
    if let Ok(end) = end {
        end?;
    }
    Ok(asked.elapsed().as_secs_f64() * 1e3)
}
