//! Steps: each gets a heading and a duration, all of them run, and a summary says how they went.

use std::fmt::Write as _;
use std::io;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::checkout::Checkout;

/// One thing `cargo xtask test` looks at.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    /// Whether `--quick` runs it as well.
    pub(crate) quick: bool,
    run: fn(&Checkout) -> Outcome,
}

impl Step {
    pub(crate) const fn quick(name: &'static str, run: fn(&Checkout) -> Outcome) -> Self {
        let quick = true;
        Self { name, quick, run }
    }

    pub(crate) const fn thorough(name: &'static str, run: fn(&Checkout) -> Outcome) -> Self {
        let quick = false;
        Self { name, quick, run }
    }
}

/// How a step went, with a few words for the summary (or none).
pub(crate) type Outcome = Result<String, Failure>;

/// Why a step failed, in words for the summary; the details have been printed by then.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }

    /// This failure with what to do about it.
    pub(crate) fn advise(self, advice: &str) -> Self {
        Self(format!("{}; {advice}", self.0))
    }

    pub(crate) fn why(&self) -> &str {
        &self.0
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self(error.to_string())
    }
}

struct Finished {
    name: &'static str,
    outcome: Outcome,
    took: Duration,
}

/// Runs every step, also after one has failed, so that one run shows all there is to repair.
pub(crate) fn run_all<'a>(steps: impl Iterator<Item = &'a Step>, checkout: &Checkout) -> ExitCode {
    let started = Instant::now();
    let finished: Vec<Finished> = steps.map(|step| run_one(step, checkout)).collect();
    print!("{}", summary(&finished, started.elapsed()));
    if finished.iter().all(|step| step.outcome.is_ok()) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn run_one(step: &Step, checkout: &Checkout) -> Finished {
    println!("==> {}", step.name);
    let started = Instant::now();
    let outcome = (step.run)(checkout);
    let took = started.elapsed();
    match &outcome {
        Ok(_) => println!("==> {}: ok, {}\n", step.name, seconds(took)),
        Err(failure) => {
            println!(
                "==> {}: FAILED, {}: {}\n",
                step.name,
                seconds(took),
                failure.why()
            );
        }
    }
    Finished {
        name: step.name,
        outcome,
        took,
    }
}

fn summary(finished: &[Finished], total: Duration) -> String {
    let mut text = String::from("==> summary\n");
    for step in finished {
        let (verdict, words) = match &step.outcome {
            Ok(words) => ("ok", words.as_str()),
            Err(failure) => ("FAILED", failure.why()),
        };
        let line = format!(
            "{verdict:<6}  {:<13}  {:>8}  {words}",
            step.name,
            seconds(step.took)
        );
        text.push_str(line.trim_end());
        text.push('\n');
    }
    let failed: Vec<&str> = finished
        .iter()
        .filter(|step| step.outcome.is_err())
        .map(|step| step.name)
        .collect();
    let took = seconds(total);
    // Writing to a String cannot fail.
    let _ = match failed.as_slice() {
        [] => writeln!(text, "all {} steps passed in {took}", finished.len()),
        names => writeln!(
            text,
            "{} of {} steps FAILED in {took}: {}",
            names.len(),
            finished.len(),
            names.join(", ")
        ),
    };
    text
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(name: &'static str, millis: u64, outcome: Outcome) -> Finished {
        Finished {
            name,
            outcome,
            took: Duration::from_millis(millis),
        }
    }

    #[test]
    fn a_good_run_ends_in_one_line() {
        let steps = [
            finished("formatting", 412, Ok(String::new())),
            finished(
                "tests",
                61_250,
                Ok("8 tests run: 8 passed, 0 skipped".to_owned()),
            ),
        ];
        assert_eq!(
            summary(&steps, Duration::from_secs(62)),
            "\
==> summary
ok      formatting        0.4 s
ok      tests            61.2 s  8 tests run: 8 passed, 0 skipped
all 2 steps passed in 62.0 s
"
        );
    }

    #[test]
    fn a_bad_run_names_what_failed() {
        let steps = [
            finished(
                "formatting",
                400,
                Err(Failure::new("exit code 1").advise("do this")),
            ),
            finished("hygiene", 20, Ok(String::new())),
        ];
        assert_eq!(
            summary(&steps, Duration::from_millis(420)),
            "\
==> summary
FAILED  formatting        0.4 s  exit code 1; do this
ok      hygiene           0.0 s
1 of 2 steps FAILED in 0.4 s: formatting
"
        );
    }
}
