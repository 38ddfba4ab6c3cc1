//! `cargo xtask check-corpus`: `adieu check` beside `ruff check --select ASYNC` on large packages.
//!
//! Downloads the packages once into `target/corpus`, runs both tools on each, compares what they
//! find among the kinds of rules both have, measures both on the whole corpus in one run, and
//! writes the tables into `docs/check.md`. Fails if ruff finds something that we neither find nor
//! have a documented reason not to.

mod compare;
mod fetch;
mod page;
mod speed;

use std::process::ExitCode;

/// The packages, pinned so that the table means something tomorrow.
const PACKAGES: &[&str] = &[
    "homeassistant==2024.3.3",
    "litellm==1.108.4",
    "matrix-synapse==1.163.2",
    "prefect==3.9.0",
    "discord.py==2.7.1",
];

/// The other tool.
const RUFF: &str = "ruff==0.17.4";

/// Why a step did not work, for a person.
type Failure = String;

/// Runs the chore. `--dry` leaves the page alone.
pub(crate) fn run(words: &[&str]) -> ExitCode {
    let dry = match words {
        [] => false,
        ["--dry"] => true,
        _ => {
            eprintln!("usage: cargo xtask check-corpus [--dry]");
            return ExitCode::from(2);
        }
    };
    match chore(dry) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(2)
        }
    }
}

fn chore(dry: bool) -> Result<bool, Failure> {
    let corpus = fetch::corpus(PACKAGES, RUFF)?;
    let mut rows = Vec::new();
    for package in &corpus.packages {
        rows.push(compare::package(&corpus, package)?);
    }
    let confirmed = compare::confirmed(&corpus)?;
    let speed = speed::measure(&corpus)?;
    let text = page::render(&rows, &confirmed, &speed);
    print!("{text}");
    if !dry {
        page::write(&text)?;
    }
    let unexplained: Vec<&String> = rows.iter().flat_map(|row| &row.unexplained).collect();
    for missed in &unexplained {
        eprintln!("not found and not explained: {missed}");
    }
    Ok(unexplained.is_empty() && confirmed.iter().all(|entry| entry.found))
}
