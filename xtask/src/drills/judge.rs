//! One peer drilled, and what it failed shown once more without the drill.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::thread;

use serde::Deserialize;

use super::Wish;
use super::fetch::Tools;
use super::peers::Peer;
use crate::checkout::Checkout;
use crate::step::Failure;

/// The platform timeout of the drill: shorter than the usual 30 s, because some peers use all of it, in every check.
const GRACE: &str = "10s";

/// A peer, and what came of each check.
pub(crate) struct Column {
    pub(crate) peer: Peer,
    pub(crate) checks: Vec<Check>,
    /// What the reproductions said, by check.
    pub(crate) shown: Vec<(String, String)>,
}

/// The few fields of a report that the table has.
#[derive(Debug, Deserialize)]
pub(crate) struct Check {
    pub(crate) id: String,
    pub(crate) outcome: String,
    pub(crate) reason: String,
}

#[derive(Deserialize)]
struct Report {
    checks: Vec<Check>,
}

/// Drills a peer, or reads again what came of it the last time.
pub(crate) fn drill(
    checkout: &Checkout,
    tools: &Tools,
    peer: Peer,
    wish: &Wish<'_>,
) -> Result<Column, Failure> {
    let reports = checkout.root().join("target/drills/reports");
    fs::create_dir_all(&reports)?;
    let file = reports.join(format!("{}.json", peer.name));
    if !wish.again {
        hold(checkout, tools, &peer, wish.quick, &file)?;
    }
    let report: Report = serde_json::from_slice(&fs::read(&file)?).map_err(|error| {
        let file = file.display();
        Failure::new(format!("no report in {file}: {error}"))
    })?;
    let failed = || {
        report
            .checks
            .iter()
            .filter(|check| check.outcome == "failed")
    };
    // All at a time: most of it is waiting.
    let shown = thread::scope(|scope| {
        let peer = &peer;
        let tries: Vec<_> = failed()
            .map(|check| scope.spawn(|| reproduce(checkout, tools, peer, &check.id)))
            .collect();
        tries
            .into_iter()
            .map(|attempt| attempt.join().unwrap_or(Ok(None)))
            .collect::<Vec<_>>()
    });
    let mut words = Vec::new();
    for (check, shown) in failed().zip(shown) {
        println!("  {}: {}", check.id, check.reason);
        if let Some(shown) = shown? {
            println!("    without the drill: {shown}");
            words.push((check.id.clone(), shown));
        }
    }
    Ok(Column {
        peer,
        checks: report.checks,
        shown: words,
    })
}

/// The drill itself, which leaves its report in a file.
fn hold(
    checkout: &Checkout,
    tools: &Tools,
    peer: &Peer,
    quick: bool,
    file: &Path,
) -> Result<(), Failure> {
    let mut command = checkout.program(&tools.adieu);
    command.args(["drill", "--json", "--grace", GRACE]);
    command.args(["--http", "http://127.0.0.1:{port}/"]);
    command.args(&peer.options).args(quick.then_some("--quick"));
    command.arg("--").args(&peer.command);
    // 1 is an answer too: a check has failed.
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    fs::write(file, output.stdout)?;
    match output.status.code() {
        Some(0 | 1) => Ok(()),
        _ => Err(Failure::new(format!(
            "the drill of {}: {}",
            peer.name, output.status
        ))),
    }
}

/// What the reproduction of a check says about a peer, if there is one.
fn reproduce(
    checkout: &Checkout,
    tools: &Tools,
    peer: &Peer,
    id: &str,
) -> Result<Option<String>, Failure> {
    let script = checkout
        .root()
        .join(format!("fixtures/peers/repro/{id}.py"));
    if !script.exists() {
        return Ok(None);
    }
    let folder = checkout.root().join("target/drills/repro");
    fs::create_dir_all(&folder)?;
    let mut python = checkout.program(tools.python.join("python"));
    python.arg(script).env("STOP", peer.signal);
    python.args(
        peer.command
            .iter()
            .map(|word| word.replace("{dir}", &folder.display().to_string())),
    );
    let output = python.stdin(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    Ok(Some(said.lines().last().unwrap_or("nothing").to_owned()))
}
