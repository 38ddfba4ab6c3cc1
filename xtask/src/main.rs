//! The project's own chores, as `cargo xtask <chore>`.
//!
//! A chore is a module with a `run(words)` that takes the words after its name and gives the exit
//! code: 0 when all is well, 1 when something was found, 2 when the words make no sense.

mod adoption;
mod advisories;
#[cfg(test)]
mod architecture;
mod bench;
mod budgets;
mod charts;
mod checkout;
mod command;
mod corpus;
mod dist;
mod drills;
mod features;
mod foreign_types;
mod hygiene;
mod layers;
mod licences;
mod links;
mod metadata;
mod mutants;
mod packages;
mod prose;
mod prove;
mod python;
mod release;
mod runner;
mod shipped;
mod site;
mod skips;
mod step;
mod suite;
mod toolchain;
mod type_names;
mod wheel;
mod windows;
#[cfg(test)]
mod workflows;

use std::env;
use std::process::ExitCode;

const HELP: &str = "\
The project's own chores.

usage: cargo xtask <chore> [options]

chores:
  test           everything a change has to pass; CI runs exactly this
  test --quick   the part to run while editing: formatting, lints, tests
  layers         which module of a crate uses which, and whether each only looks down
  prose          the words of the pages, compared with the glossary
  foreign-types  the types of other crates in the public API, compared with their list
  prove          larger counts of the tests, chaos with random faults, fuzzing
  mutants        small changes of the code, one at a time: does a test notice?
  bench          what the library costs, beside what its peers cost
  charts         the chart of lost requests, drawn from the numbers on a page
  check-corpus   `adieu check` beside ruff on large packages
  budgets        the shutdown times that `adieu check --budget` computes, beside real stops
  wheel          the command as a Python wheel, built and tried
  dist           static binaries of adieu and adieu-init, tried and measured
  release        the crates that are published, packed and built from their packages
  drills         `adieu drill` on servers of others
  site           the pages as a site with search, made by mdBook
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
        Some((&"layers", rest)) => layers::run(rest),
        Some((&"prose", rest)) => prose::run(rest),
        Some((&"foreign-types", rest)) => foreign_types::run(rest),
        Some((&"prove", rest)) => prove::run(rest),
        Some((&"mutants", rest)) => mutants::run(rest),
        Some((&"bench", rest)) => bench::run(rest),
        Some((&"charts", rest)) => charts::run(rest),
        Some((&"check-corpus", rest)) => corpus::run(rest),
        Some((&"budgets", rest)) => budgets::run(rest),
        Some((&"wheel", rest)) => wheel::run(rest),
        Some((&"dist", rest)) => dist::run(rest),
        Some((&"release", rest)) => release::run(rest),
        Some((&"site", rest)) => site::run(rest),
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

/// Whether a continuous integration service runs us; they all set this variable.
fn in_ci() -> bool {
    env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false")
}

/// Says what was wrong with the words given, and where to read about the right ones.
fn usage(problem: &str, help: &str) -> ExitCode {
    eprintln!("error: {problem}\n\n`cargo xtask {help}` lists what there is.");
    ExitCode::from(2)
}
