//! Stops the example servers under full load, again and again, and counts what was lost.
//!
//! ```text
//! cargo build --release -p example-web -p example-echo
//! cargo run --release -p adieu-load --example stops -- [STOPS] [FILTER] [slow]
//! ```
//!
//! `slow` runs it in a network of its own, with a round trip of 20 ms.

mod case;

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use adieu_load::{Tally, Target};
use adieu_testkit::{ChildProcess, DelayNetwork, ProcessEnd};
use rcgen::CertifiedKey;
use tempfile::TempDir;
use tokio::time::timeout;

use case::{Case, Speech};

/// Only something broken takes this long.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the servers need besides their flags.
struct Stage {
    directory: TempDir,
    programs: PathBuf,
    certificate: CertifiedKey<rcgen::KeyPair>,
    /// Where servers listen, and where clients find them.
    near: Ipv4Addr,
    far: Ipv4Addr,
}

impl Stage {
    fn new(near: Ipv4Addr, far: Ipv4Addr) -> io::Result<Self> {
        let directory = TempDir::new()?;
        let names = ["localhost".to_owned()];
        let certificate = rcgen::generate_simple_self_signed(names).map_err(io::Error::other)?;
        std::fs::write(directory.path().join("cert.pem"), certificate.cert.pem())?;
        std::fs::write(
            directory.path().join("key.pem"),
            certificate.signing_key.serialize_pem(),
        )?;
        // This program is in `examples` below the directory with all others of the same build.
        let here = std::env::current_exe()?;
        let programs = here.parent().and_then(|path| path.parent());
        Ok(Self {
            directory,
            programs: programs.ok_or(io::ErrorKind::NotFound)?.to_owned(),
            certificate,
            near,
            far,
        })
    }

    fn file(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    fn start(&self, case: &Case) -> io::Result<ChildProcess> {
        let socket = format!("unix:{}", self.file("socket"));
        let listen = if case.unix {
            socket
        } else {
            format!("{}:0", self.near)
        };
        let mut flags = vec!["--listen".to_owned(), listen];
        if case.speech != Speech::Lines {
            flags.extend(["--lame-duck".to_owned(), case.lame_duck.to_owned()]);
        }
        if case.tls {
            let files = ["cert.pem", "key.pem"].map(|name| self.file(name));
            flags.extend(["--tls-cert".to_owned(), files[0].clone()]);
            flags.extend(["--tls-key".to_owned(), files[1].clone()]);
        }
        ChildProcess::start(self.programs.join(case.program()), flags)
    }

    async fn target(&self, case: &Case, subject: &mut ChildProcess) -> io::Result<Target> {
        if case.unix {
            return Ok(Target::unix(self.file("socket")));
        }
        let address: SocketAddr = subject
            .line("listening on ")
            .await?
            .parse()
            .map_err(io::Error::other)?;
        let target = Target::tcp(SocketAddr::new(IpAddr::V4(self.far), address.port()));
        if case.tls {
            target.tls(self.certificate.cert.der().clone(), "localhost")
        } else {
            Ok(target)
        }
    }

    /// One stop in the middle of a load.
    async fn stop(&self, case: &Case, number: u64) -> io::Result<(Tally, ProcessEnd)> {
        let mut subject = self.start(case)?;
        let target = self.target(case, &mut subject).await?;
        target.reachable(PATIENCE).await?;
        let load = case.load(target).seed(number).start();
        // At another moment each time.
        load.answered(200 + number % 41 * 20).await;
        subject.terminate()?;
        let tally = load.finish().await;
        Ok((tally, subject.end().await?))
    }
}

fn again_in_a_network_of_its_own(stops: u64, filter: &str) -> io::Result<()> {
    let mut again = DelayNetwork::alone();
    again.arg(std::env::current_exe()?);
    again.args([&stops.to_string(), filter, "inside"]);
    if again.status()?.success() {
        Ok(())
    } else {
        Err(io::Error::other("lost some, or could not begin"))
    }
}

#[tokio::main]
async fn main() -> io::Result<()> {
    let mut words = std::env::args().skip(1);
    let stops = words.next().map_or(Ok(20), |word| word.parse());
    let stops: u64 = stops.map_err(io::Error::other)?;
    let filter = words.next().unwrap_or_default();
    let (near, far) = match words.next().as_deref() {
        None => (Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST),
        // adieu: ignore(ADR104) nothing else runs yet
        Some("slow") => return again_in_a_network_of_its_own(stops, &filter),
        Some(_) => {
            // adieu: ignore(ADR104) nothing else runs yet
            DelayNetwork::start(Duration::from_millis(10))?;
            (DelayNetwork::NEAR, DelayNetwork::FAR)
        }
    };
    let stage = Stage::new(near, far)?;
    println!(
        "| {:<44} | stops | requests | lost | truncated | told to retry | unsent | failed | refused | slowest exit |\n\
         |{}|---|---|---|---|---|---|---|---|---|",
        "load",
        "-".repeat(46)
    );
    let mut lost = 0;
    for case in case::all().filter(|case| case.to_string().contains(&filter)) {
        let mut sum = Tally::default();
        let mut slowest = Duration::ZERO;
        let mut unclean = 0;
        for number in 0..stops {
            let stop = timeout(PATIENCE * 2, stage.stop(&case, number)).await;
            let (tally, end) = stop.map_err(io::Error::from)??;
            sum += tally;
            slowest = slowest.max(end.took.unwrap_or_default());
            if !end.status.success() {
                unclean += 1;
                eprintln!("{case}: {}\n{}", end.status, end.errors);
            }
        }
        println!(
            "| {:<44} | {stops} | {} | {} | {} | {} | {} | {} | {} | {:.0?} |",
            case.to_string(),
            sum.sent(),
            sum.lost(),
            sum.truncated,
            sum.retry,
            sum.unsent,
            sum.failed,
            sum.refused,
            slowest,
        );
        for line in &sum.evidence {
            println!("    {line}");
        }
        io::stdout().flush()?;
        lost += sum.lost() + unclean;
    }
    if lost > 0 {
        return Err(io::Error::other(format!("{lost} lost or ended badly")));
    }
    Ok(())
}
