//! What a request costs on a server of ours and on the bare one: time for each answer, the slowest of a hundred, the
//! server's own processor time, and the memory of a connection that waits for its next request.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use adieu::App;
use adieu::net::Conn;
use adieu_bench::{Child, Finding, Question, Served, Unit, ask, best, linger, rounds};
use axum::Router;
use axum::routing::get;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::runtime::Builder;

const CLIENTS: usize = 32;
/// In a turn. Short, so that a disturbance hits few turns, and both alike.
const ANSWERS: usize = 500;
const WAITING: usize = 2_000;
/// Rounds with the same two processes. Where a process lies in memory, and which thread runs on which core, makes more
/// of a difference than what it does: new ones get a new chance.
const HEAT: usize = 5;

const GET: Question = Question(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n");
const LINE: Question = Question(b"hello\n");

fn main() -> io::Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("adieu http") => ours(async |app| {
            let listener = app.listen("web", "127.0.0.1:0").await?;
            app.http(listener.on_listening(tell), router());
            Ok(())
        }),
        Some("adieu echo") => ours(async |app| {
            let listener = app.listen("echo", "127.0.0.1:0").await?;
            app.tcp(listener.on_listening(tell), |conn: Conn| echo(conn));
            Ok(())
        }),
        Some("axum::serve") => bare(async |listener| axum::serve(listener, router()).await),
        Some("bare loop") => bare(async |listener| {
            loop {
                let (socket, _) = listener.accept().await?;
                socket.set_nodelay(true)?;
                tokio::spawn(echo(socket));
            }
        }),
        _ => compare(rounds(120)),
    }
}

fn compare(rounds: usize) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    for (what, ours, peer, question) in [
        ("http", "adieu http", "axum::serve", GET),
        ("echo", "adieu echo", "bare loop", LINE),
    ] {
        let mut servers = [Server::start(ours)?, Server::start(peer)?];
        let (mut each, mut p99, mut cpu) = ([vec![], vec![]], [vec![], vec![]], [vec![], vec![]]);
        for round in 0..rounds {
            if round > 0 && round % HEAT == 0 {
                let next = [Server::start(ours)?, Server::start(peer)?];
                std::mem::replace(&mut servers, next)
                    .into_iter()
                    .try_for_each(Server::end)?;
            }
            for turn in [round % 2, (round + 1) % 2] {
                let server = &servers[turn];
                let before = server.processor_time()?;
                let asking = ask(server.address, question, CLIENTS, ANSWERS);
                let served: Served = runtime.block_on(asking)?;
                let used = server.processor_time()? - before;
                cpu[turn].push(used / (CLIENTS * ANSWERS) as f64);
                each[turn].push(served.each);
                p99[turn].push(served.p99);
            }
        }
        // 0.97 of the throughput; an echo server has no other bars.
        let [slower, later, larger] = match what {
            "http" => [1.0 / 0.97, 1.05, 1.1],
            _ => [1.0 / 0.97, f64::INFINITY, f64::INFINITY],
        };
        let tell = |case: &str, [ours, theirs]: [Vec<f64>; 2], scale: f64, unit, bar: f64| {
            let finding = Finding::value("serve", case, unit, best(&ours) / scale)
                .over(peer, best(&theirs) / scale);
            match bar.is_finite() {
                true => finding.at_most(bar).tell(),
                false => finding.tell(),
            }
        };
        tell(
            &format!("{what}, each request"),
            each,
            1.0,
            Unit::Ns,
            slower,
        );
        tell(&format!("{what}, p99"), p99, 1e3, Unit::Us, later);
        let case = format!("{what}, processor time of a request");
        tell(&case, cpu, 1.0, Unit::Ns, f64::INFINITY);
        let memory = servers.map(|server| server.memory_of_waiting(question));
        let [ours, theirs] = memory;
        tell(
            &format!("{what}, memory of a waiting connection"),
            [vec![ours?], vec![theirs?]],
            1.0,
            Unit::Bytes,
            larger,
        );
    }
    Ok(())
}

/// A child that serves.
struct Server {
    child: Child,
    address: SocketAddr,
}

impl Server {
    fn start(role: &str) -> io::Result<Self> {
        let mut child = Child::start(role)?;
        let address = child.line()?.parse().map_err(io::Error::other)?;
        Ok(Self { child, address })
    }

    /// Bytes for each of many connections that have had one answer. Ends the server.
    fn memory_of_waiting(self, question: Question) -> io::Result<f64> {
        let before = self.resident()?;
        let waiting = linger(self.address, question, WAITING)?;
        let grown = self.resident()? - before;
        drop(waiting);
        self.end()?;
        Ok(grown / WAITING as f64)
    }

    fn end(self) -> io::Result<()> {
        self.child.terminate()?;
        // The bare ones die of it.
        let _ = self.child.wait();
        Ok(())
    }

    /// Nanoseconds that all of its threads have run. Bears a busy machine better than the time that passes.
    fn processor_time(&self) -> io::Result<f64> {
        let mut sum = 0.0;
        for thread in std::fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            // A thread may be gone by the time it is looked at.
            let Ok(line) = std::fs::read_to_string(thread?.path().join("schedstat")) else {
                continue;
            };
            let ran = line
                .split(' ')
                .next()
                .and_then(|ran| ran.parse::<f64>().ok());
            sum += ran.ok_or_else(|| io::Error::other("no run time in schedstat"))?;
        }
        Ok(sum)
    }

    fn resident(&self) -> io::Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"))
            .and_then(|kilobytes| kilobytes.parse::<f64>().ok())
            .map(|kilobytes| kilobytes * 1_024.0)
            .ok_or_else(|| io::Error::other("no VmRSS"))
    }
}

fn tell(address: &str) {
    println!("ready\n{address}");
}

fn ours(setup: impl AsyncFnOnce(&mut App) -> adieu::Result + 'static) -> io::Result<()> {
    let report = adieu::service("bench").run(setup);
    match report.exit_code() {
        0 => Ok(()),
        _ => Err(io::Error::other(report.to_string())),
    }
}

fn bare(serve: impl AsyncFnOnce(TcpListener) -> io::Result<()>) -> io::Result<()> {
    Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(async {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
            tell(&listener.local_addr()?.to_string());
            serve(listener).await
        })
}

fn router() -> Router {
    Router::new().route("/", get(async || "hello"))
}

async fn echo(socket: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
    let mut socket = BufReader::new(socket);
    let mut line = Vec::new();
    while socket.read_until(b'\n', &mut line).await? > 0 {
        socket.get_mut().write_all(&line).await?;
        line.clear();
    }
    Ok(())
}
