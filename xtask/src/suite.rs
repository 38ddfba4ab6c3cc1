//! `cargo xtask test`: the steps a change has to pass, in order.

use std::process::ExitCode;

use crate::checkout::Checkout;
use crate::python::Environment;
use crate::step::{self, Outcome, Step};
use crate::{
    advisories, command, features, foreign_types, hygiene, layers, licences, links, packages,
    prose, release, runner, shipped, toolchain, type_names, windows,
};

const HELP: &str = "\
Everything a change has to pass.

usage: cargo xtask test [--quick]

  --quick   only formatting, lints and tests

Steps, in order:
  packages        what the steps need is there; as root on Debian, missing packages are installed
  toolchain       the compiler, beside the oldest one that is promised
  formatting      cargo fmt
  lints           clippy with the workspace lints, any warning is an error
  tests           cargo nextest if it is installed, else cargo test; skipped tests are counted and named
  as shipped      the library's tests with the features that programs choose, without `testing`
  loom            the hand-made atomics in every interleaving of their threads
  task names      tokio-console shows the names of tasks, in a build with `--cfg tokio_unstable`
  doc tests       the examples in the documentation
  documentation   rustdoc, any warning is an error
  features        every package without its features, and with each one alone
  foreign types   the public API has no type of another crate but those that are listed, and at most 25 names at the root
  crates          every crate that is published is packed, with a whole manifest, its licences and a readme
  dependencies    licences and sources of everything in Cargo.lock
  advisories      known vulnerabilities, where cargo-deny and its database can be had
  windows         the library and the command compile for Windows, where a compiler for it can be had
  layers          every module uses only what is below it, and no circle of modules is too large
  type names      no two types of a crate have one name
  hygiene         no paths of one machine, no overlong files, no skip that is not counted
  links           each link into the repository leads to a file and a heading that are there
  prose           pages, comments and messages use the words of docs/glossary.md

Where the variable CI is set, a test that is skipped for want of something that can be installed is a failure.
A step that fails does not keep the later ones from running: one run shows all there is to repair.

exit code: 0 all steps passed, 1 a step failed, 2 usage
";

const STEPS: &[Step] = &[
    Step::quick("packages", tools),
    Step::quick("toolchain", toolchain::check),
    Step::quick("formatting", formatting),
    Step::quick("lints", lints),
    Step::quick("tests", runner::tests),
    Step::thorough("as shipped", shipped::tests),
    Step::thorough("loom", runner::interleavings),
    Step::thorough("task names", runner::task_names),
    Step::thorough("doc tests", runner::doc_tests),
    Step::thorough("documentation", documentation),
    Step::thorough("features", features::check),
    Step::thorough("foreign types", foreign_types::check),
    Step::thorough("crates", release::check),
    Step::thorough("dependencies", licences::check),
    Step::thorough("advisories", advisories::check),
    Step::thorough("windows", windows::compiles),
    Step::thorough("layers", layers::check),
    Step::thorough("type names", type_names::check),
    Step::thorough("hygiene", hygiene::check),
    Step::thorough("links", links::check),
    Step::thorough("prose", prose::check),
];

pub(crate) fn run(words: &[&str]) -> ExitCode {
    let mut quick = false;
    for word in words {
        match *word {
            "--quick" => quick = true,
            "--help" | "-h" => {
                print!("{HELP}");
                return ExitCode::SUCCESS;
            }
            unknown => {
                return crate::usage(&format!("`test` has no option `{unknown}`"), "test --help");
            }
        }
    }
    let steps = STEPS.iter().filter(|step| step.quick || !quick);
    step::run_all(steps, &Checkout::here())
}

fn tools(checkout: &Checkout) -> Outcome {
    let provided = packages::provide(checkout, packages::FOR_TESTS)?;
    // Tests that need it skip themselves, and the summary names them.
    if let Err(failure) = Environment::of(checkout).provide(checkout) {
        println!(
            "missing: a Python with fastapi, uvicorn, gunicorn and kubernetes-validate: {}",
            failure.why()
        );
        return Ok(match provided.as_str() {
            "" => "without uvicorn and gunicorn".to_owned(),
            provided => format!("{provided}, uvicorn, gunicorn"),
        });
    }
    Ok(provided)
}

fn formatting(checkout: &Checkout) -> Outcome {
    command::run(&mut checkout.cargo(["fmt", "--all", "--check"]))
        .map_err(|failure| failure.advise("`cargo fmt --all` repairs it"))?;
    Ok(String::new())
}

fn lints(checkout: &Checkout) -> Outcome {
    let words = [
        "clippy",
        "--workspace",
        "--all-targets",
        "--all-features",
        "--",
        "-D",
        "warnings",
    ];
    command::run(&mut checkout.cargo(words))?;
    Ok(String::new())
}

fn documentation(checkout: &Checkout) -> Outcome {
    let mut doc = checkout.cargo(["doc", "--no-deps", "--workspace", "--all-features"]);
    command::run(doc.env("RUSTDOCFLAGS", "-D warnings"))?;
    Ok(String::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_names_every_step_in_order() {
        let listed: Vec<&str> = HELP
            .lines()
            .skip_while(|line| !line.starts_with("Steps"))
            .filter_map(|line| line.strip_prefix("  ")?.split_once("  "))
            .map(|(name, _)| name)
            .collect();
        let names: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
        assert_eq!(listed, names);
    }
}
