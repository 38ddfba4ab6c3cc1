//! `cargo xtask drills restarts`: what clients see when a server that goes on serving is restarted by a signal.

use std::fmt::Write;
use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::peers::Peer;
use super::{fetch, page, peers};
use crate::checkout::Checkout;
use crate::step::Failure;

const RESTARTS: u64 = 3;
const CLIENTS: &str = "16";
/// A server that does not listen by then does not.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server, and what restarts it.
struct Subject {
    name: String,
    signal: &'static str,
    /// With `{port}` and `{dir}` in it.
    command: Vec<String>,
    /// Whether another process serves after a restart, so that the next signal goes to the one that listens.
    hands_off: bool,
}

#[derive(Deserialize)]
struct Report {
    #[serde(default)]
    checks: Vec<Check>,
    rollout: Option<Rollout>,
}

#[derive(Deserialize)]
struct Check {
    outcome: String,
    reason: String,
    measured: Option<String>,
}

#[derive(Deserialize)]
struct Rollout {
    runs: Vec<Run>,
}

#[derive(Deserialize)]
struct Run {
    during: Totals,
}

/// The few fields of a roll-out that the table has.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct Totals {
    answered: u64,
    lost: u64,
    refused: u64,
    errors: u64,
}

impl Totals {
    fn words(self) -> String {
        let all = self.answered + self.lost + self.refused + self.errors;
        let bad = [
            (self.lost, "lost"),
            (self.refused, "refused"),
            (self.errors, "5xx"),
        ];
        let bad: Vec<String> = bad
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("**{count}** {what}"))
            .collect();
        match bad.as_slice() {
            [] => format!("none of {all}"),
            _ => format!("{} of {all}", bad.join(", ")),
        }
    }
}

struct Row {
    name: String,
    signal: &'static str,
    fresh: Totals,
    kept: Totals,
    noticed: String,
}

/// Restarts each server under load, and writes the table.
pub(super) fn measure(checkout: &Checkout, dev: bool, dry: bool) -> Result<(), Failure> {
    let tools = fetch::without_rust(checkout, dev)?;
    let example = fetch::example(checkout, dev, "example-web")?;
    let adieu = tools.adieu.display().to_string();
    let mut rows = Vec::new();
    for subject in subjects(checkout, &tools, &adieu, &example)? {
        println!("{} …", subject.name);
        rows.push(Row {
            fresh: rollout(checkout, &adieu, &subject, "fresh")?,
            kept: rollout(checkout, &adieu, &subject, "kept")?,
            noticed: noticed(checkout, &adieu, &subject)?,
            name: subject.name,
            signal: subject.signal,
        });
    }
    let text = render(&rows);
    print!("\n{text}");
    if !dry {
        page::write(
            checkout,
            "docs/drills.md",
            "cargo xtask drills restarts",
            &text,
        )?;
    }
    Ok(())
}

fn subjects(
    checkout: &Checkout,
    tools: &fetch::Tools,
    adieu: &str,
    example: &str,
) -> Result<Vec<Subject>, Failure> {
    let wanted = ["uvicorn", "gunicorn", "granian", "nginx", "haproxy"];
    let mut subjects = Vec::new();
    let mut uvicorn = Vec::new();
    for Peer {
        name,
        version,
        mut command,
        ..
    } in peers::all(checkout, tools, &wanted)?
    {
        if name == "uvicorn" {
            uvicorn = command[..command.len() - 2].to_vec();
            uvicorn.push("--no-access-log".to_owned());
        }
        // One worker cannot be replaced by another.
        if matches!(name, "uvicorn" | "granian") {
            command.extend(["--workers", "2"].map(str::to_owned));
        }
        let signal = if name == "haproxy" { "USR2" } else { "HUP" };
        subjects.push(Subject {
            name: format!("{name} {version}"),
            signal,
            command,
            hands_off: false,
        });
    }
    let under_run = |name: &str, options: &[&str], end: &[&str]| Subject {
        name: format!("uvicorn under `adieu run {name}`"),
        signal: "HUP",
        command: [adieu, "run"]
            .iter()
            .chain(options)
            .chain(&["--"])
            .map(|&word| word.to_owned())
            .chain(uvicorn.iter().cloned())
            .chain(end.iter().map(|&word| word.to_owned()))
            .collect(),
        hands_off: false,
    };
    subjects.push(under_run(
        "--listen",
        &["--listen", "tcp:127.0.0.1:{port}"],
        &["--fd", "3"],
    ));
    subjects.push(under_run(
        "--front",
        &["--front", "tcp:127.0.0.1:{port}"],
        &["--uds", "{socket}"],
    ));
    subjects.push(Subject {
        name: "example-web, a hand-off of adieu".to_owned(),
        signal: "USR2",
        command: [example, "--listen", "127.0.0.1:{port}"]
            .map(str::to_owned)
            .to_vec(),
        hands_off: true,
    });
    Ok(subjects)
}

/// A server on a port of its own, in a process group of its own, which is killed at the end.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(checkout: &Checkout, subject: &Subject) -> Result<Self, Failure> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
            .local_addr()?
            .port();
        let dir = checkout.root().join("target/drills/restarts");
        fs::create_dir_all(&dir)?;
        let fill = |word: &String| {
            word.replace("{port}", &port.to_string())
                .replace("{dir}", &dir.display().to_string())
        };
        let words: Vec<String> = subject.command.iter().map(fill).collect();
        let mut command = checkout.program(words.first().map_or("", String::as_str));
        let child = command
            .args(words.iter().skip(1))
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let server = Self { child, port };
        let begun = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if begun.elapsed() > PATIENCE {
                return Err(Failure::new(format!("{} does not listen", subject.name)));
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(server)
    }

    /// The line of shell that restarts it.
    fn restart(&self, subject: &Subject) -> String {
        let signal = subject.signal;
        match subject.hands_off {
            false => format!("kill -{signal} {}", self.child.id()),
            true => format!(
                "kill -{signal} $(ss -Hltnp 'sport = :{}' | grep -o 'pid=[0-9]*' | cut -d= -f2 | sort -n | tail -1)",
                self.port
            ),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The group, by its number: what was handed off to is in it.
        let group = format!("-{}", self.child.id());
        let _ = std::process::Command::new("kill")
            .args(["-KILL", "--", &group])
            .status();
        let _ = self.child.wait();
    }
}

/// What clients lost in a few restarts, each on connections of this kind.
fn rollout(
    checkout: &Checkout,
    adieu: &str,
    subject: &Subject,
    connections: &str,
) -> Result<Totals, Failure> {
    let server = Server::start(checkout, subject)?;
    let mut drill = checkout.program(adieu);
    drill.args([
        "drill",
        "--json",
        "--slim",
        "--rollout",
        &server.restart(subject),
    ]);
    drill.args(["--url", &format!("http://127.0.0.1:{}/", server.port)]);
    drill.args(["--clients", CLIENTS, "--connections", connections]);
    drill.args(["--repeat", &RESTARTS.to_string()]);
    let report = report(&mut drill, subject)?;
    let runs = report
        .rollout
        .map(|rollout| rollout.runs)
        .unwrap_or_default();
    Ok(runs.iter().fold(Totals::default(), |sum, run| Totals {
        answered: sum.answered + run.during.answered,
        lost: sum.lost + run.during.lost,
        refused: sum.refused + run.during.refused,
        errors: sum.errors + run.during.errors,
    }))
}

/// How many of the clients that are connected notice one restart.
fn noticed(checkout: &Checkout, adieu: &str, subject: &Subject) -> Result<String, Failure> {
    let mut drill = checkout.program(adieu);
    drill.args(["drill", "--json", "--slim", "--quick", "--clients", CLIENTS]);
    drill.args([
        "--check",
        "deploy-unnoticed",
        "--restart-signal",
        subject.signal,
    ]);
    drill.args(["--http", "http://127.0.0.1:{port}/", "--"]);
    let report = report(drill.args(&subject.command), subject)?;
    let check = report.checks.into_iter().next();
    let check = check.ok_or_else(|| Failure::new(format!("{}: no check", subject.name)))?;
    Ok(match (check.outcome.as_str(), check.measured) {
        ("passed", Some(measured)) => measured,
        ("failed", Some(measured)) => {
            let how = check.reason.split_once(": ").map_or("", |(_, how)| how);
            format!("**{measured}**: {how}")
        }
        _ => check.reason,
    })
}

fn report(drill: &mut std::process::Command, subject: &Subject) -> Result<Report, Failure> {
    // 1 is an answer too: a check has failed.
    let output = drill.stdin(Stdio::null()).output()?;
    serde_json::from_slice(&output.stdout).map_err(|error| {
        let said = String::from_utf8_lossy(&output.stderr);
        Failure::new(format!("{}: {error}: {said}", subject.name))
    })
}

fn render(rows: &[Row]) -> String {
    let mut out = "\
| server | restarted by | requests on new connections | on keep-alive connections | connected clients that notice |
|---|---|---|---|---|
"
    .to_owned();
    for row in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "| {} | SIG{} | {} | {} | {} |",
            row.name,
            row.signal,
            row.fresh.words(),
            row.kept.words(),
            row.noticed
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_what_was_lost_of_how_many() {
        let row = Row {
            name: "nginx 1.2".to_owned(),
            signal: "HUP",
            fresh: Totals {
                answered: 100,
                ..Totals::default()
            },
            kept: Totals {
                answered: 90,
                lost: 3,
                refused: 7,
                errors: 0,
            },
            noticed: "**16 of 16**: 16 keep-alive connections closed".to_owned(),
        };
        let text = render(&[row]);
        let line = "| nginx 1.2 | SIGHUP | none of 100 | **3** lost, **7** refused of 100 | **16 of 16**: 16 keep-alive connections closed |";
        assert_eq!(text.lines().last(), Some(line));
    }
}
