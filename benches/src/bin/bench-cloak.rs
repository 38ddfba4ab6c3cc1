//! What hiding the listening socket saves: requests on fresh connections that a server loses when it stops under
//! `adieu run`, which hides it first, and under `adieu run --no-cloak`.
//!
//! The servers know nothing of us: `--server NAME OPTIONS COMMAND`, with `{port}` and `{dir}` in the command. The
//! wrapper is behind `--adieu PATH`.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::time::Duration;

use adieu_bench::{Finding, Unit, rounds};
use adieu_load::{Load, Mode, Target};
use adieu_testkit::ChildProcess;
use tokio::runtime::Builder;
use tokio::time::timeout;

const CLIENTS: usize = 32;
/// Answers before the stop comes.
const WARM: u64 = 500;
/// Only a server that hangs takes this long.
const PATIENCE: Duration = Duration::from_secs(60);

struct Server {
    name: String,
    options: String,
    command: String,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (adieu, servers) = words().ok_or("give --adieu PATH, and --server NAME OPTIONS COMMAND")?;
    let scratch = std::env::temp_dir().join(format!("adieu-cloak-{}", std::process::id()));
    std::fs::create_dir_all(&scratch)?;
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    let stops = rounds(20);
    for server in &servers {
        let (mut hidden, mut bare, mut sent) = (0, 0, 0);
        for _ in 0..stops {
            let mut stop = |flag: &str| -> io::Result<u64> {
                let (lost, all) = runtime.block_on(server.stop(&adieu, flag, &scratch))?;
                sent += all;
                Ok(lost)
            };
            hidden += stop("")?;
            bare += stop("--no-cloak")?;
        }
        let case = |how: &str| format!("{}: lost in {stops} stops, {how}", server.name);
        Finding::value("cloak", case("hidden first"), Unit::Requests, count(hidden))
            .at_most(0.0)
            .tell();
        Finding::value("cloak", case("as it is"), Unit::Requests, count(bare)).tell();
        eprintln!("{}: {sent} requests in all", server.name);
    }
    std::fs::remove_dir_all(scratch)?;
    Ok(())
}

fn count(number: u64) -> f64 {
    number as f64
}

fn words() -> Option<(String, Vec<Server>)> {
    let (mut adieu, mut servers) = (None, Vec::new());
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--adieu" => adieu = Some(words.next()?),
            "--server" => servers.push(Server {
                name: words.next()?,
                options: words.next()?,
                command: words.next()?,
            }),
            _ => {}
        }
    }
    Some((adieu?, servers)).filter(|(_, servers)| !servers.is_empty())
}

impl Server {
    /// Stops it in the middle of a load. How many requests were lost, and how many were sent.
    async fn stop(&self, adieu: &str, flag: &str, scratch: &Path) -> io::Result<(u64, u64)> {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address: SocketAddr = free.local_addr()?;
        drop(free);
        let command = self
            .command
            .replace("{port}", &address.port().to_string())
            .replace("{dir}", &scratch.display().to_string());
        let words = format!("run --quiet {} {flag} -- {command}", self.options);
        let mut subject = ChildProcess::start(adieu, words.split_whitespace())?;
        let target = Target::tcp(address);
        target.reachable(PATIENCE).await?;
        let load = Load::http1(target, "/")
            .clients(CLIENTS)
            .mode(Mode::Fresh)
            .start();
        let late = |_| io::Error::other(format!("{} does not answer", self.name));
        timeout(PATIENCE, load.answered(WARM)).await.map_err(late)?;
        subject.terminate()?;
        let tally = timeout(PATIENCE, load.finish()).await.map_err(late)?;
        timeout(PATIENCE, subject.end()).await.map_err(late)??;
        Ok((tally.lost(), tally.sent()))
    }
}
