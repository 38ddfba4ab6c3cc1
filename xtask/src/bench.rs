//! `cargo xtask bench`: what the library costs, beside its peers, as a table.
//!
//! The programs are those of the package `adieu-bench`, a binary `bench-<name>` each. They print one line of
//! JSON for each finding; here it is only shown, and held against its bar.

use std::path::Path;
use std::process::{ExitCode, Stdio};

use serde::{Deserialize, Serialize};

use crate::checkout::Checkout;
use crate::packages::{self, FOR_TESTS, Need};
use crate::step::Failure;
use crate::{adoption, command, drills};

const HELP: &str = "\
What the library costs, beside what its peers cost.

usage: cargo xtask bench [options] [name…]

names; all that need no tool if none is given:
  spawn      spawn and finish a million tracked tasks
  memory     bytes for each waiting task
  stop       stop up to a million waiting tasks
  signal     from SIGTERM to the stop seen by a task
  exit       from SIGTERM to the end of the process
  goodbye    from SIGTERM until ten thousand echo clients have their goodbye
  serve      a request to an HTTP or echo server, and the memory of its connection
  idle       wake-ups of an idle service
  watchdog   what the watchdog costs
  checkpoint a checkpoint, beside the bare calls that make a file durable
  queue      jobs a second from NATS, Redis and PostgreSQL, beside the raw clients; needs the servers
  store      a save in NATS, Redis and PostgreSQL, beside the raw clients; needs the servers
  schedules  a hundred thousand schedules: memory and lateness, beside two other schedulers
  count      instructions to spawn and finish a task; needs valgrind
  load       requests a second of the drill's load client; needs wrk
  run        `adieu run` until its command runs, and its memory; needs tini and dumb-init
  cloak      what servers of others lose at a stop, hidden first or not; fetches them as `cargo xtask drills` does
  adoption   crates and build time that `adieu::serve` adds to a plain axum program; builds both from nothing
  drain      what a stop costs the clients of our example-web and of five other servers; needs python3

options:
  --rounds N   take the best of N rounds instead of what each of them usually takes
  --cpu        measure processor time instead of time, where that makes sense
  --count      the same as the name `count`
  --json       print the findings as a JSON array

Use it on a machine that has nothing else to do. Us and the peer take turns within one process, and the best
of several rounds counts, but a busy machine still blurs it.

exit code: 0 all bars hold, 1 one does not or a program failed, 2 usage
";

const USUAL: &[&str] = &[
    "spawn",
    "memory",
    "stop",
    "signal",
    "exit",
    "goodbye",
    "serve",
    "idle",
    "watchdog",
    "checkpoint",
];
const COUNT: &str = "count";
/// Those that need a tool of another project.
const WITH_TOOLS: &[&str] = &[
    COUNT,
    "load",
    RUN,
    ADOPTION,
    CLOAK,
    DRAIN,
    "queue",
    "store",
    "schedules",
];
/// Those that are built only when they are asked for, because much comes with them.
const ENGINES: &[&str] = &["queue", "store", "schedules"];
const RUN: &str = "run";
const CLOAK: &str = "cloak";
const DRAIN: &str = "drain";
/// Measured here: what it measures are builds.
const ADOPTION: &str = "adoption";

const FOR_RUN: &[Need] = &[
    Need::debian("tini", "tini", "`adieu run` is measured beside it"),
    Need::debian(
        "dumb-init",
        "dumb-init",
        "`adieu run` is measured beside it",
    ),
];

/// What was asked for.
#[derive(Debug, Default, PartialEq)]
struct Wish<'a> {
    names: Vec<&'a str>,
    /// Words for the programs.
    passed_on: Vec<&'a str>,
    json: bool,
    help: bool,
}

impl Wish<'_> {
    /// Of what is measured here.
    fn rounds(&self) -> usize {
        let mut words = self
            .passed_on
            .iter()
            .skip_while(|word| **word != "--rounds");
        words.nth(1).and_then(|word| word.parse().ok()).unwrap_or(1)
    }
}

/// A line that a program has printed.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Finding {
    pub(crate) bench: String,
    pub(crate) case: String,
    pub(crate) unit: String,
    pub(crate) ours: f64,
    pub(crate) against: Option<String>,
    pub(crate) peer: Option<f64>,
    pub(crate) figure: f64,
    pub(crate) kind: String,
    pub(crate) bar: Option<f64>,
    pub(crate) holds: Option<bool>,
}

pub(crate) fn run(words: &[&str]) -> ExitCode {
    let wish = match understand(words) {
        Ok(wish) => wish,
        Err(problem) => return crate::usage(&problem, "bench --help"),
    };
    if wish.help {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    match measure(&Checkout::here(), &wish) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("error: {}", failure.why());
            ExitCode::FAILURE
        }
    }
}

fn understand<'a>(words: &[&'a str]) -> Result<Wish<'a>, String> {
    let mut wish = Wish::default();
    let mut words = words.iter().copied();
    while let Some(word) = words.next() {
        match word {
            "--help" | "-h" => wish.help = true,
            "--json" => wish.json = true,
            "--cpu" => wish.passed_on.push(word),
            "--count" => wish.names.push(COUNT),
            "--rounds" => {
                let number = words.next().filter(|number| number.parse::<u32>().is_ok());
                let number = number.ok_or("`--rounds` needs a number")?;
                wish.passed_on.extend([word, number]);
            }
            name if USUAL.contains(&name) || WITH_TOOLS.contains(&name) => wish.names.push(name),
            unknown => return Err(format!("`bench` has nothing called `{unknown}`")),
        }
    }
    if wish.names.is_empty() {
        wish.names = USUAL.to_vec();
    }
    Ok(wish)
}

/// Whether all bars hold.
fn measure(checkout: &Checkout, wish: &Wish<'_>) -> Result<bool, Failure> {
    let mut build = vec!["build", "--release", "--package", "adieu-bench", "--bins"];
    if wish.names.iter().any(|name| ENGINES.contains(name)) {
        build.extend(["--features", "engines"]);
    }
    let built = if wish.names.iter().all(|name| *name == ADOPTION) {
        Vec::new()
    } else {
        command::ask(
            checkout
                .cargo(build)
                .arg("--message-format=json-render-diagnostics"),
        )?
    };
    let mut findings = Vec::new();
    let mut all_ran = true;
    for name in &wish.names {
        if !wish.json {
            println!("{name} …");
        }
        let found = if *name == ADOPTION {
            adoption::measure(checkout, wish.rounds())
        } else {
            let program = executable(&built, &format!("bench-{name}"))?;
            ask(checkout, wish, name, program)
        };
        match found {
            Ok(found) => findings.extend(found),
            // What the others found is not lost with it.
            Err(failure) => {
                eprintln!("error: {name}: {}", failure.why());
                all_ran = false;
            }
        }
    }
    if wish.json {
        let json = serde_json::to_string_pretty(&findings)
            .map_err(|error| Failure::new(error.to_string()))?;
        println!("{json}");
    } else {
        print!("\n{}", table(&findings));
    }
    Ok(all_ran && findings.iter().all(|finding| finding.holds != Some(false)))
}

/// What one program has found.
fn ask(
    checkout: &Checkout,
    wish: &Wish<'_>,
    name: &str,
    program: String,
) -> Result<Vec<Finding>, Failure> {
    let mut program = checkout.program(program);
    // What the services under test have to say is not of interest, unless one of them fails.
    program.args(&wish.passed_on).stdin(Stdio::null());
    program.args(subjects(checkout, name)?);
    let said = command::ask(&mut program)?;
    let lines = String::from_utf8_lossy(&said);
    let findings = lines.lines().map(|line| {
        serde_json::from_str(line).map_err(|error| Failure::new(format!("`{line}`: {error}")))
    });
    findings.collect()
}

/// What a program must be told besides: where the command is, and the servers of others.
fn subjects(checkout: &Checkout, name: &str) -> Result<Vec<String>, Failure> {
    match name {
        RUN => {
            packages::provide(checkout, FOR_RUN)?;
            let words = ["build", "--release", "--package", "adieu-cli"];
            let built = command::ask(
                checkout
                    .cargo(words)
                    .arg("--message-format=json-render-diagnostics"),
            )?;
            Ok(vec!["--adieu".to_owned(), executable(&built, "adieu")?])
        }
        "queue" | "store" => packages::provide(checkout, FOR_TESTS).map(|_| Vec::new()),
        CLOAK => drills::under_run(checkout),
        DRAIN => drills::drained(checkout),
        _ => Ok(Vec::new()),
    }
}

/// Where cargo has put the program, from what it said while it built.
fn executable(built: &[u8], wanted: &str) -> Result<String, Failure> {
    #[derive(Deserialize)]
    struct Artifact {
        executable: Option<String>,
    }

    String::from_utf8_lossy(built)
        .lines()
        .filter_map(|line| serde_json::from_str::<Artifact>(line).ok()?.executable)
        .find(|path| {
            Path::new(path)
                .file_stem()
                .is_some_and(|stem| stem == wanted)
        })
        .ok_or_else(|| Failure::new(format!("cargo has built no {wanted}")))
}

fn table(findings: &[Finding]) -> String {
    let head = ["bench", "case", "ours", "peer", "", "", "bar", ""].map(str::to_owned);
    let rows: Vec<[String; 8]> = std::iter::once(head)
        .chain(findings.iter().map(row))
        .collect();
    let width = |column: usize| {
        let widths = rows.iter().map(|row| row[column].chars().count());
        widths.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..8).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
            // Words to the left, numbers to the right.
            let cell = match column {
                0 | 1 | 4 | 7 => format!("{cell:<width$}  "),
                _ => format!("{cell:>width$}  "),
            };
            line.push_str(&cell);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn row(finding: &Finding) -> [String; 8] {
    let number = |value: f64| match finding.unit.as_str() {
        "ns" | "us" | "s" if value < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    };
    let unit = match finding.unit.as_str() {
        "us" => "µs",
        "rate" => "/s",
        "percent" => "%",
        unit => unit,
    };
    let figure = |value: f64| match finding.kind.as_str() {
        "ratio" => format!("{value:.2} ×"),
        "difference" => format!(
            "{}{} {unit}",
            if value < 0.0 { "" } else { "+" },
            number(value)
        ),
        _ => format!("{} {unit}", number(value)),
    };
    let verdict = match finding.holds {
        Some(true) => "holds",
        Some(false) => "DOES NOT HOLD",
        None => "",
    };
    [
        finding.bench.clone(),
        finding.case.clone(),
        format!("{} {unit}", number(finding.ours)),
        finding
            .peer
            .map_or_else(String::new, |peer| format!("{} {unit}", number(peer))),
        finding.against.clone().unwrap_or_default(),
        figure(finding.figure),
        finding.bar.map_or_else(String::new, figure),
        verdict.to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_named_means_all_that_need_no_tool() {
        let wish = understand(&["--json", "--rounds", "3"]).expect("it makes sense");
        assert_eq!(wish.names, USUAL);
        assert_eq!(wish.passed_on, ["--rounds", "3"]);
        assert!(wish.json);
        assert_eq!(
            understand(&["--count"]).expect("it makes sense").names,
            [COUNT]
        );
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(understand(&["spwan"]).is_err());
        assert!(understand(&["--rounds"]).is_err());
        assert!(understand(&["--rounds", "many"]).is_err());
    }

    #[test]
    fn help_names_every_benchmark() {
        for name in USUAL.iter().chain(WITH_TOOLS) {
            assert!(HELP.contains(&format!("\n  {name} ")), "{name}");
        }
    }

    #[test]
    fn findings_line_up() {
        let line = |case: &str, kind: &str, figure, bar, holds| Finding {
            bench: "spawn".to_owned(),
            case: case.to_owned(),
            unit: "ns".to_owned(),
            ours: 231.4,
            against: Some("tokio::spawn".to_owned()),
            peer: Some(207.0),
            figure,
            kind: kind.to_owned(),
            bar,
            holds,
        };
        let findings = [
            line("at once", "ratio", 1.118, Some(1.25), Some(true)),
            line("in batches", "difference", 24.4, None, None),
        ];
        let expected = "\
bench  case          ours    peer                             bar
spawn  at once     231 ns  207 ns  tokio::spawn    1.12 ×  1.25 ×  holds
spawn  in batches  231 ns  207 ns  tokio::spawn  +24.4 ns
";
        assert_eq!(table(&findings), expected);
    }
}
