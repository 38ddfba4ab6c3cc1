//! `cargo xtask prove`: the same tests, with the counts that convince.
//!
//! A loop of two thousand kills shows more than one of a hundred, and takes minutes that nobody waits for at
//! every change. Such a test has two counts, and `ADIEU_PROVE` in its environment asks for the larger one.

use std::process::ExitCode;

use crate::checkout::Checkout;
use crate::{command, packages};

const HELP: &str = "\
The tests with the counts that convince: thousands of kills, hundreds of stops.

usage: cargo xtask prove [filter…]

  filter   only tests with this in their name

It takes an hour or so. The tests are those of `cargo xtask test`; the variable ADIEU_PROVE makes their loops
longer.

exit code: 0 all passed, 1 a test failed, 2 usage
";

pub(crate) fn run(words: &[&str]) -> ExitCode {
    if words.iter().any(|word| matches!(*word, "--help" | "-h")) {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    if let Some(unknown) = words.iter().find(|word| word.starts_with('-')) {
        return crate::usage(
            &format!("`prove` has no option `{unknown}`"),
            "prove --help",
        );
    }
    let checkout = Checkout::here();
    let mut test = checkout.cargo(["test", "--release", "--workspace", "--all-features"]);
    // Not the doc tests: they have no loops.
    test.args(["--lib", "--bins", "--tests", "--no-fail-fast", "--"]);
    // One after the other: a proof under the load of another proof is neither.
    test.args(["--test-threads", "1"]).args(words);
    test.env("ADIEU_PROVE", "1");
    let proven =
        packages::provide(&checkout, packages::FOR_TESTS).and_then(|_| command::run(&mut test));
    match proven {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {}", failure.why());
            ExitCode::FAILURE
        }
    }
}
