//! `cargo xtask windows`: the Windows side, built on Linux and run in wine.
//!
//! Not a part of `cargo xtask test`: it builds everything a second time, and a standard library besides.

mod toolchain;
mod trial;
mod wine;

use std::process::ExitCode;

use crate::checkout::Checkout;
use crate::packages::{self, Need};
use crate::step::{Failure, Outcome, Step};

use toolchain::Toolchain;
use wine::Wine;

const HELP: &str = "\
The Windows side, built on Linux and run in wine.

usage: cargo xtask windows [check] [library] [actor] [drill]

  check     the library with all its features and the command compile
  library   the library's tests that make sense there
  actor     a service that is asked to stop by every event of the console
  drill     `adieu drill` of a program, with Ctrl-Break; `adieu check`, `adieu health`

Without a word, all of them. Needs gcc-mingw-w64-x86-64 and wine64, which are installed where that is allowed, and a
compiler with a standard library for x86_64-pc-windows-gnu: rustup's (`rustup target add x86_64-pc-windows-gnu`), or else
the one in Debian's packages, which is fetched into target/windows and builds its own. docs/windows.md says what this
shows and what it cannot.

exit code: 0 all passed, 1 something did not, 2 usage
";

pub(crate) const TARGET: &str = "x86_64-pc-windows-gnu";

const LINKER: Need = Need::debian(
    "x86_64-w64-mingw32-gcc",
    "gcc-mingw-w64-x86-64",
    "it links programs for Windows",
);

const NEEDS: &[Need] = &[
    LINKER,
    Need::debian(wine::PROGRAM, "wine64", "it runs them"),
];

const STEPS: &[Step] = &[
    Step::thorough("check", compiles),
    Step::thorough("library", |checkout| attempt(checkout, trial::library)),
    Step::thorough("actor", |checkout| attempt(checkout, trial::actor)),
    Step::thorough("drill", |checkout| attempt(checkout, trial::drill)),
];

pub(crate) fn run(words: &[&str]) -> ExitCode {
    if words.iter().any(|word| matches!(*word, "--help" | "-h")) {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let is_step = |word: &&str| STEPS.iter().any(|step| step.name == *word);
    if let Some(unknown) = words.iter().find(|word| !is_step(word)) {
        return crate::usage(
            &format!("`windows` has no part `{unknown}`"),
            "windows --help",
        );
    }
    let checkout = Checkout::here();
    if let Err(failure) = prepare(&checkout) {
        eprintln!("error: {}", failure.why());
        return ExitCode::FAILURE;
    }
    let wanted = |step: &&Step| words.is_empty() || words.contains(&step.name);
    crate::step::run_all(STEPS.iter().filter(wanted), &checkout)
}

/// A step of `cargo xtask test` too: needs no wine. Where no compiler can be had, the summary says so.
pub(crate) fn compiles(checkout: &Checkout) -> Outcome {
    let toolchain = packages::provide(checkout, &[LINKER]).and_then(|_| Toolchain::find(checkout));
    match toolchain {
        Ok(toolchain) => trial::check(checkout, &toolchain),
        Err(failure) => Ok(format!("not checked: {}", failure.why())),
    }
}

/// Sees to what all of them need, or says what is missing.
fn prepare(checkout: &Checkout) -> Result<(), Failure> {
    packages::provide(checkout, NEEDS)?;
    Toolchain::find(checkout)?;
    Wine::prepare(checkout).map(drop)
}

fn attempt(checkout: &Checkout, trial: fn(&Checkout, &Toolchain, &Wine) -> Outcome) -> Outcome {
    let toolchain = Toolchain::find(checkout)?;
    let wine = Wine::prepare(checkout)?;
    trial(checkout, &toolchain, &wine)
}
