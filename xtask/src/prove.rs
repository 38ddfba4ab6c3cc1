//! `cargo xtask prove`: what convinces, and takes too long for each change.
//!
//! A loop of two thousand kills shows more than one of a hundred. Such a test has two counts, and `ADIEU_PROVE` in its
//! environment asks for the larger one. Chaos and fuzzing have programs of their own.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::checkout::Checkout;
use crate::python::Environment;
use crate::step::Failure;
use crate::{command, packages};

const HELP: &str = "\
What convinces, and takes too long for each change.

usage: cargo xtask prove [tests] [filter…]
       cargo xtask prove chaos [options]
       cargo xtask prove fuzz [target…]
       cargo xtask prove windows

  tests    the tests of `cargo xtask test` with larger counts: thousands of kills, hundreds of stops; an hour or so
           filter: only tests with this in their name
  chaos    10,000 stops of real services at random instants, with random faults; prints the ledger
           options: --stops N, --seed N, --only worker|orders|consumer
  fuzz     each fuzz target for ten minutes, or for ADIEU_FUZZ_SECONDS; needs cargo-fuzz and a nightly compiler
           target: only these; fuzz/targets has them
  windows  `cargo xtask windows`: the Windows side, run in wine

exit code: 0 all passed, 1 something was found, 2 usage
";

/// What chaos stops, and what stops it.
const CHAOS: [&str; 4] = [
    "fixture-chaos",
    "example-worker",
    "example-orders",
    "fixture-consumer",
];

const FUZZ_SECONDS: &str = "ADIEU_FUZZ_SECONDS";

pub(crate) fn run(words: &[&str]) -> ExitCode {
    if words.iter().any(|word| matches!(*word, "--help" | "-h")) {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    if words == ["windows"] {
        return crate::windows::run(&[]);
    }
    let checkout = Checkout::here();
    let proven = match words {
        ["chaos", options @ ..] => chaos(&checkout, options),
        ["fuzz", targets @ ..] => fuzz(&checkout, targets),
        ["tests", filters @ ..] | filters => {
            if let Some(unknown) = filters.iter().find(|word| word.starts_with('-')) {
                return crate::usage(
                    &format!("`prove` has no option `{unknown}`"),
                    "prove --help",
                );
            }
            tests(&checkout, filters)
        }
    };
    match proven {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {}", failure.why());
            ExitCode::FAILURE
        }
    }
}

fn tests(checkout: &Checkout, filters: &[&str]) -> Result<(), Failure> {
    packages::provide(checkout, packages::FOR_TESTS)?;
    let mut test = checkout.cargo(["test", "--release", "--workspace", "--all-features"]);
    // Not the doc tests: they have no loops.
    test.args(["--lib", "--bins", "--tests", "--no-fail-fast", "--"]);
    // One after the other: a proof under the load of another proof is neither.
    test.args(["--test-threads", "1"]).args(filters);
    let python = Environment::of(checkout);
    if let Err(failure) = python.provide(checkout) {
        println!("without uvicorn and gunicorn: {}", failure.why());
    }
    command::run(python.offer(test.env("ADIEU_PROVE", "1")))
}

fn chaos(checkout: &Checkout, options: &[&str]) -> Result<(), Failure> {
    packages::provide(checkout, packages::FOR_TESTS)?;
    packages::provide(checkout, packages::FOR_CHAOS)?;
    let mut build = checkout.cargo(["build", "--release", "--workspace", "--all-features"]);
    for program in CHAOS {
        build.args(["--bin", program]);
    }
    command::run(&mut build)?;
    let program = checkout.root().join("target/release").join(CHAOS[0]);
    command::run(checkout.program(program).args(options))
}

fn fuzz(checkout: &Checkout, wanted: &[&str]) -> Result<(), Failure> {
    if !command::succeeds(&mut checkout.cargo(["fuzz", "--version"])) {
        return Err(Failure::new(
            "cargo-fuzz is not installed; `cargo install --locked cargo-fuzz` brings it",
        ));
    }
    let targets = targets(checkout)?;
    if let Some(unknown) = wanted
        .iter()
        .find(|name| !targets.iter().any(|it| it == *name))
    {
        return Err(Failure::new(format!(
            "there is no fuzz target `{unknown}`; these are: {}",
            targets.join(", ")
        )));
    }
    let seconds = std::env::var(FUZZ_SECONDS).unwrap_or_else(|_| "600".to_owned());
    let chosen = targets
        .iter()
        .filter(|name| wanted.is_empty() || wanted.contains(&name.as_str()));
    let mut found = Vec::new();
    for target in chosen {
        // The compiler of the workspace has no sanitizers.
        let mut fuzz = checkout.program("cargo");
        fuzz.env_remove("RUSTUP_TOOLCHAIN")
            .args(["+nightly", "fuzz", "run", target, "--"]);
        fuzz.arg(format!("-max_total_time={seconds}"));
        // Memory and time of one input are promises too.
        fuzz.args(["-rss_limit_mb=2048", "-timeout=10", "-print_final_stats=1"]);
        if let Err(failure) = command::run(&mut fuzz) {
            println!("{target}: {}", failure.why());
            found.push(target.as_str());
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!(
        "inputs were found, in fuzz/artifacts: {}",
        found.join(", ")
    )))
}

/// The names of the fuzz targets, from their files.
fn targets(checkout: &Checkout) -> Result<Vec<String>, Failure> {
    let folder = checkout.root().join("fuzz/targets");
    let mut names: Vec<String> = std::fs::read_dir(folder)?
        .flatten()
        .map(|entry| PathBuf::from(entry.file_name()))
        .filter_map(|name| Some(name.file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    Ok(names)
}
