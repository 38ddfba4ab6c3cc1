//! The tests, through cargo-nextest where it is installed and plain cargo where it is not.
//!
//! What the runner prints is passed through; its closing words are repeated in our summary, so that
//! the end of a long log still says how many tests there were.

use std::io::{self, IsTerminal};
use std::process::Command;

use crate::checkout::Checkout;
use crate::command::{self, Overheard, Stream};
use crate::python::Environment;
use crate::skips::Skips;
use crate::step::{Failure, Outcome};

pub(crate) fn tests(checkout: &Checkout) -> Outcome {
    let skips = Skips::begin(checkout)?;
    let outcome = selected(checkout, &["--workspace", "--all-features"], &skips);
    skips.conclude(outcome, crate::in_ci())
}

/// Runs the tests of these packages with these features.
pub(crate) fn selected(checkout: &Checkout, selection: &[&str], skips: &Skips) -> Outcome {
    let python = Environment::of(checkout);
    if command::succeeds(&mut checkout.cargo(["nextest", "--version"])) {
        let mut words = vec!["nextest", "run", "--no-fail-fast"];
        words.extend(selection);
        words.extend(color(&io::stderr()));
        let mut test = checkout.cargo(words);
        let overheard = command::overhear(python.offer(skips.record(&mut test)), Stream::Stderr)?;
        return conclude(overheard, nextest_closing);
    }
    println!(
        "cargo-nextest is not installed: plain cargo test runs them, without a timeout for one that hangs"
    );
    // The targets are those that cargo test takes by itself, without the doc tests.
    let mut words = vec!["test", "--no-fail-fast"];
    words.extend(["--lib", "--bins", "--tests", "--examples"]);
    words.extend(selection);
    words.extend(color(&io::stdout()));
    let mut test = checkout.cargo(words);
    let overheard = command::overhear(python.offer(skips.record(&mut test)), Stream::Stdout)?;
    conclude(overheard, cargo_closing)
}

pub(crate) fn doc_tests(checkout: &Checkout) -> Outcome {
    let mut words = vec![
        "test",
        "--doc",
        "--workspace",
        "--all-features",
        "--no-fail-fast",
    ];
    words.extend(color(&io::stdout()));
    let overheard = command::overhear(&mut checkout.cargo(words), Stream::Stdout)?;
    conclude(overheard, cargo_closing)
}

/// Built apart, because `--cfg loom` would have everything else built again, and again without it.
pub(crate) fn interleavings(checkout: &Checkout) -> Outcome {
    let mut words = vec!["test", "--package", "adieu-loom", "--lib"];
    words.extend(["--target-dir", "target/loom"]);
    words.extend(color(&io::stdout()));
    let mut test = checkout.cargo(words);
    test.env("RUSTFLAGS", "--cfg loom");
    let overheard = command::overhear(&mut test, Stream::Stdout)?;
    conclude(overheard, cargo_closing)
}

/// Built apart, because tokio has names for its tasks only with `--cfg tokio_unstable`.
pub(crate) fn task_names(checkout: &Checkout) -> Outcome {
    let mut words = vec!["test", "--package", "adieu", "--test", "task_names"];
    words.extend(["--target-dir", "target/unstable"]);
    words.extend(color(&io::stdout()));
    let mut test = checkout.cargo(words);
    test.env("RUSTFLAGS", "--cfg tokio_unstable");
    let overheard = command::overhear(&mut test, Stream::Stdout)?;
    conclude(overheard, cargo_closing)
}

/// Tests of another target, through the cargo that was made for it.
pub(crate) fn others(cargo: &mut Command) -> Outcome {
    let overheard = command::overhear(cargo, Stream::Stdout)?;
    conclude(overheard, cargo_closing)
}

/// A command that is overheard sees a pipe and would drop its colours.
fn color(stream: &impl IsTerminal) -> Option<&'static str> {
    stream.is_terminal().then_some("--color=always")
}

fn conclude(overheard: Overheard, closing: fn(&str) -> Option<String>) -> Outcome {
    let words = closing(&plain(&overheard.text));
    match (overheard.end, words) {
        (Ok(()), words) => Ok(words.unwrap_or_default()),
        (Err(_), Some(words)) => Err(Failure::new(words)),
        // It did not come to running tests.
        (Err(failure), None) => Err(failure),
    }
}

/// From `Summary [   0.301s] 12 tests run: 12 passed, 0 skipped`.
fn nextest_closing(text: &str) -> Option<String> {
    let line = text
        .lines()
        .rev()
        .find(|line| line.trim_start().starts_with("Summary ["))?;
    Some(line.split_once("] ")?.1.to_owned())
}

/// The sum of the `test result: ok. 12 passed; 0 failed; 1 ignored; …` that each test program ends
/// with.
fn cargo_closing(text: &str) -> Option<String> {
    let (mut programs, mut passed, mut failed, mut ignored) = (0_u32, 0_u32, 0_u32, 0_u32);
    for line in text.lines() {
        let Some((_, counts)) = line
            .strip_prefix("test result: ")
            .and_then(|rest| rest.split_once(". "))
        else {
            continue;
        };
        programs += 1;
        for count in counts.split("; ") {
            let Some((number, what)) = count.split_once(' ') else {
                continue;
            };
            let number = number.parse().unwrap_or(0);
            match what {
                "passed" => passed += number,
                "failed" => failed += number,
                "ignored" => ignored += number,
                _ => {}
            }
        }
    }
    (programs > 0).then(|| format!("{passed} passed, {failed} failed, {ignored} ignored"))
}

/// The text without the escape sequences that colour it.
fn plain(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |mut plain, part| {
        let end = part
            .find(|c: char| c.is_ascii_alphabetic())
            .map_or(part.len(), |at| at + 1);
        plain.push_str(&part[end..]);
        plain
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_nextest_are_kept() {
        let text = "\
        PASS [   0.004s] xtask licences::tests::a
────────────
     Summary [   0.301s] 12 tests run: 11 passed, 1 failed, 2 skipped
        FAIL [   0.004s] adieu lifecycle::tests::b
error: test run failed
";
        assert_eq!(
            nextest_closing(text).as_deref(),
            Some("12 tests run: 11 passed, 1 failed, 2 skipped")
        );
        assert_eq!(nextest_closing("error: could not compile `adieu`\n"), None);
    }

    #[test]
    fn the_programs_of_cargo_test_are_summed_up() {
        let text = "\
running 3 tests
test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s

running 5 tests
test result: FAILED. 4 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.1s
";
        assert_eq!(
            cargo_closing(text).as_deref(),
            Some("6 passed, 1 failed, 1 ignored")
        );
        assert_eq!(cargo_closing(""), None);
    }

    #[test]
    fn colours_do_not_hide_the_words() {
        let text = "\x1b[32;1m     Summary\x1b[0m [   0.301s] \x1b[1m1\x1b[0m test run: 1 passed";
        assert_eq!(
            nextest_closing(&plain(text)).as_deref(),
            Some("1 test run: 1 passed")
        );
    }
}
