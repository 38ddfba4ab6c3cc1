//! The load client of the drill beside `wrk`, on the same server.
//!
//! The server is a process of its own that answers from memory, so that what is compared is the clients: one thread
//! each, the same number of connections, in turn.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

use adieu_bench::{Child, Finding, Unit, rounds};
use adieu_load::{Load, Target};
use tokio::runtime::Builder;

const CONNECTIONS: usize = 32;
const ROUND: Duration = Duration::from_secs(2);
const PEER: &str = "wrk";
/// What the drill keeps of each client for its drawing.
const KEPT: usize = 320;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if std::env::args().nth(1).as_deref() == Some("server") {
        return Ok(serve()?);
    }
    let mut server = Child::start("server")?;
    let address: SocketAddr = server.line()?.parse()?;
    let (mut ours, mut peers) = (0.0_f64, 0.0_f64);
    for _ in 0..rounds(5) {
        ours = ours.max(load(address, ROUND)?);
        peers = peers.max(wrk(address)?);
    }
    let finding = Finding::value("load", "requests, keep-alive connections", Unit::Rate, ours);
    finding.over(PEER, peers).at_least(0.8).tell();

    // Once everything has its size, time adds nothing.
    load(address, ROUND)?;
    let before = resident()?;
    load(address, long())?;
    let grown = resident()? - before;
    let case = format!("memory added in {} s", long().as_secs());
    Finding::value("load", case, Unit::Bytes, grown)
        .at_most(2.0 * 1024.0 * 1024.0)
        .tell();
    server.terminate()?;
    // It has no handler: that it ends is all.
    let _ = server.wait();
    Ok(())
}

/// Ten minutes where it has to convince.
fn long() -> Duration {
    Duration::from_secs(if std::env::var_os("ADIEU_PROVE").is_some() {
        600
    } else {
        10
    })
}

/// Answers for each second.
fn load(address: SocketAddr, time: Duration) -> io::Result<f64> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let load = Load::http1(Target::tcp(address), "/")
            .clients(CONNECTIONS)
            .keep(KEPT);
        let since = Instant::now();
        let running = load.start();
        tokio::time::sleep(time).await;
        running.end();
        let tally = running.finish().await;
        if tally.lost() > 0 {
            return Err(io::Error::other(format!(
                "the server loses requests: {tally}"
            )));
        }
        Ok(tally.answered as f64 / since.elapsed().as_secs_f64())
    })
}

fn wrk(address: SocketAddr) -> io::Result<f64> {
    let mut wrk = Command::new("wrk");
    wrk.arg("--threads=1")
        .arg(format!("--connections={CONNECTIONS}"));
    wrk.arg(format!("--duration={}s", ROUND.as_secs()))
        .arg(format!("http://{address}/"));
    let said = wrk
        .output()
        .map_err(|error| io::Error::other(format!("wrk cannot be run: {error}")))?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let rate = said
        .lines()
        .find_map(|line| line.strip_prefix("Requests/sec:"));
    let rate = rate.and_then(|rate| rate.trim().parse().ok());
    rate.ok_or_else(|| io::Error::other(format!("wrk said: {said}")))
}

/// Bytes of this process that are in memory.
fn resident() -> io::Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kibibytes
        .map(|number| number * 1024.0)
        .ok_or_else(|| io::Error::other("no VmRSS in /proc/self/status"))
}

/// A thread for each connection; every head of a request has the same answer.
fn serve() -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("ready\n{}", listener.local_addr()?);
    for connection in listener.incoming() {
        let connection = connection?;
        std::thread::spawn(move || answer(connection));
    }
    Ok(())
}

fn answer(mut connection: TcpStream) -> io::Result<()> {
    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nhello\n";
    connection.set_nodelay(true)?;
    let mut buffer = [0; 4096];
    let mut length = 0;
    loop {
        match connection.read(&mut buffer[length..])? {
            0 => return Ok(()),
            read => length += read,
        }
        // Neither client sends two at a time.
        if buffer[..length].ends_with(b"\r\n\r\n") {
            connection.write_all(ANSWER)?;
            length = 0;
        }
    }
}
