//! The project's own chores, as `cargo xtask <chore>`.
//!
//! A chore is a module with a `run(words)` that takes the words after its name and gives the exit
//! code: 0 when all is well, 1 when something was found, 2 when the words make no sense.

mod bench;
mod checkout;
mod command;
mod corpus;
mod drills;
mod features;
mod hygiene;
mod licences;
mod metadata;
mod packages;
mod prove;
mod runner;
mod step;
mod suite;
mod wheel;
mod windows;

use std::env;
use std::process::ExitCode;

const HELP: &str = "\
The project's own chores.

usage: cargo xtask <chore> [options]

chores:
  test           everything a change has to pass; CI runs exactly this
  test --quick   the part to run while editing: formatting, lints, tests
  prove          the tests with the counts that convince: thousands of kills, hundreds of stops
  bench          what the library costs, beside what its peers cost
  check-corpus   `adieu check` beside ruff on large packages
  wheel          the command as a Python wheel, built and tried
  drills         `adieu drill` on servers of others
  windows        the Windows side, built here and run in wine

`cargo xtask <chore> --help` says more about one of them.
";

fn main() -> ExitCode {
    let words: Vec<String> = env::args_os()
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.split_first() {
        Some((&"test", rest)) => suite::run(rest),
        Some((&"prove", rest)) => prove::run(rest),
        Some((&"bench", rest)) => bench::run(rest),
        Some((&"check-corpus", rest)) => corpus::run(rest),
        Some((&"wheel", rest)) => wheel::run(rest),
        Some((&"drills", rest)) => drills::run(rest),
        Some((&"windows", rest)) => windows::run(rest),
        Some((&("help" | "--help" | "-h"), _)) => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        Some((unknown, _)) => usage(&format!("no chore is called `{unknown}`"), "--help"),
        None => usage("which chore?", "--help"),
    }
}

/// Says what was wrong with the words given, and where to read about the right ones.
fn usage(problem: &str, help: &str) -> ExitCode {
    eprintln!("error: {problem}\n\n`cargo xtask {help}` lists what there is.");
    ExitCode::from(2)
}
