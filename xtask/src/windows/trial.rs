//! What is tried there.

use std::process::Command;

use super::toolchain::Toolchain;
use super::wine::Wine;
use crate::checkout::Checkout;
use crate::command::{self, Stream};
use crate::runner;
use crate::step::{Failure, Outcome};

/// Features that need no server beside them.
const FEATURES: &str = "axum,tls,state,schedule,watch,admin,testing";

/// What people use there compiles with everything that can be asked of it.
pub(super) fn check(checkout: &Checkout, toolchain: &Toolchain) -> Outcome {
    let mut cargo = toolchain.cargo(checkout, "check");
    cargo.args(["--package", "adieu", "--all-features"]);
    for package in ["adieu-check", "adieu-drill", "adieu-cli"] {
        cargo.args(["--package", package]);
    }
    command::run(&mut cargo)?;
    Ok("adieu with all features, adieu-check, adieu-drill, adieu-cli".to_owned())
}

/// The library's own tests, as far as they know no other system.
pub(super) fn library(checkout: &Checkout, toolchain: &Toolchain, wine: &Wine) -> Outcome {
    let mut cargo = toolchain.cargo(checkout, "test");
    cargo.args([
        "--package",
        "adieu",
        "--features",
        FEATURES,
        "--no-fail-fast",
    ]);
    cargo.args([
        "--lib", "--test", "api", "--test", "state", "--test", "admin",
    ]);
    runner::others(wine.runs(checkout, &mut cargo))
}

/// A service, asked to stop by every event of the console.
pub(super) fn actor(checkout: &Checkout, toolchain: &Toolchain, wine: &Wine) -> Outcome {
    let mut cargo = toolchain.cargo(checkout, "test");
    cargo.args(["--package", "fixture-actor", "--test", "windows"]);
    runner::others(wine.runs(checkout, &mut cargo))
}

/// The command: a drill with Ctrl-Break, and what else it does there.
pub(super) fn drill(checkout: &Checkout, toolchain: &Toolchain, wine: &Wine) -> Outcome {
    let mut cargo = toolchain.cargo(checkout, "build");
    command::run(cargo.args(["--package", "adieu-cli"]))?;
    let adieu = |words: &[&str]| {
        let mut adieu = wine.program(checkout, "adieu");
        adieu.args(words);
        adieu
    };
    refused(adieu(&["run", "--", "program"]), "`adieu run` needs Linux")?;
    refused(
        adieu(&["drill", "--signal", "TERM", "--list"]),
        "these are: Ctrl-Break",
    )?;
    command::run(&mut adieu(&["check", "examples/tasks"]))?;
    let served = checkout
        .root()
        .join(format!("target/{}/debug/adieu.exe", super::TARGET));
    let served = format!("Z:{}", served.display());
    let mut drill = adieu(&[
        "drill",
        "--quick",
        "--http",
        "http://127.0.0.1:{port}/orders",
    ]);
    drill.args(["--slow", "/slow?ms={ms}", "--name", "the demo service"]);
    drill.args([
        "--", &served, "demo", "--serve", "{port}", "--admin", "{port2}",
    ]);
    let overheard = command::overhear(&mut drill, Stream::Stdout)?;
    overheard.end?;
    let verdict = overheard
        .text
        .lines()
        .rev()
        .find(|line| !line.trim().is_empty());
    let verdict = verdict.unwrap_or_default().to_owned();
    if verdict.starts_with("PASSED") && overheard.text.contains("after Ctrl-Break") {
        Ok(verdict)
    } else {
        Err(Failure::new("the drill did not say that it passed"))
    }
}

/// Runs a command that must be refused with exit code 2, and with these words.
fn refused(mut command: Command, words: &str) -> Result<(), Failure> {
    let answer = command.output()?;
    let said = String::from_utf8_lossy(&answer.stderr);
    print!("{said}");
    if answer.status.code() == Some(2) && said.contains(words) {
        Ok(())
    } else {
        Err(Failure::new(format!(
            "not refused with `{words}`: {}",
            answer.status
        )))
    }
}
