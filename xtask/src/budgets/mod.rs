//! `cargo xtask budgets`: the worst-case shutdown times that `adieu check --budget` computes, beside real stops in which
//! everything hangs that can.
//!
//! The servers come from PyPI into `target/budgets`; the directory `served` has what they serve. A program of this project
//! takes part too. Fails where a stop took longer than computed, or much shorter.

mod page;
mod programs;
mod stop;

use std::process::ExitCode;

use crate::checkout::Checkout;
use crate::step::Failure;

const HELP: &str = "\
The worst-case shutdown times of `adieu check --budget`, beside real stops in which everything hangs.

usage: cargo xtask budgets [--dry]

  --dry   leave docs/check.md alone

Needs python3 and the package index. It takes some minutes: most of it is waiting.

exit code: 0 every stop fits its bound, 1 one does not, 2 usage
";

/// How often each program is stopped whose stop has a limit.
const TURNS: usize = 3;

/// What one program was said to take, and took.
pub(crate) struct Row {
    pub(crate) program: String,
    pub(crate) command: String,
    pub(crate) computed: Computed,
    /// The longest of the turns, in milliseconds.
    pub(crate) longest: u64,
}

/// A bound as `adieu check --budget --format json` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Computed {
    pub(crate) at_least: u64,
    /// Whether every length in it could be read.
    pub(crate) is_clear: bool,
    /// Whether it ends at all.
    pub(crate) is_limited: bool,
}

impl Row {
    /// What is wrong, if anything: a bound has to hold, and to be of use.
    fn problem(&self) -> Option<String> {
        let Computed {
            at_least,
            is_clear,
            is_limited,
        } = self.computed;
        let said = |what: &str| {
            let (name, longest) = (&self.program, self.longest);
            format!("{name}: {what}: {longest} ms of {at_least} ms")
        };
        if !is_limited {
            let ended = self.longest < stop::WATCHED_MILLIS;
            ended.then(|| said("the stop ended though it was said to have no limit"))
        } else if is_clear && self.longest > at_least {
            Some(said("the stop took longer than computed"))
        } else if is_clear && self.longest * 13 < at_least * 10 {
            Some(said(
                "the bound is more than 1.3 times as long as the stop took",
            ))
        } else {
            None
        }
    }
}

pub(crate) fn run(words: &[&str]) -> ExitCode {
    let dry = match words {
        [] => false,
        ["--dry"] => true,
        ["--help" | "-h"] => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        [unknown, ..] => {
            return crate::usage(
                &format!("`budgets` has no option `{unknown}`"),
                "budgets --help",
            );
        }
    };
    match chore(&Checkout::here(), dry) {
        Ok(problems) if problems.is_empty() => ExitCode::SUCCESS,
        Ok(problems) => {
            for problem in problems {
                eprintln!("error: {problem}");
            }
            ExitCode::FAILURE
        }
        Err(failure) => {
            eprintln!("error: {}", failure.why());
            ExitCode::FAILURE
        }
    }
}

fn chore(checkout: &Checkout, dry: bool) -> Result<Vec<String>, Failure> {
    let tools = programs::tools(checkout)?;
    let mut rows = Vec::new();
    for program in programs::all(checkout, &tools)? {
        println!("{} …", program.name);
        let computed = programs::computed(checkout, &tools, &program)?;
        let mut longest = 0;
        let turns = if computed.is_limited { TURNS } else { 1 };
        for _ in 0..turns {
            longest = longest.max(stop::stop(&program, computed.is_limited)?);
        }
        rows.push(Row {
            program: program.name,
            command: program.shown,
            computed,
            longest,
        });
    }
    let text = page::render(&rows);
    print!("\n{text}");
    if !dry {
        page::write(checkout, &text)?;
    }
    Ok(rows.iter().filter_map(Row::problem).collect())
}

#[cfg(test)]
mod tests {
    use super::{Computed, Row};

    fn row(at_least: u64, is_clear: bool, longest: u64) -> Row {
        Row {
            program: "web".to_owned(),
            command: String::new(),
            computed: Computed {
                at_least,
                is_clear,
                is_limited: true,
            },
            longest,
        }
    }

    #[test]
    fn a_bound_holds_and_is_of_use() {
        assert_eq!(row(4_000, true, 4_000).problem(), None);
        assert_eq!(row(4_000, true, 3_100).problem(), None);
        assert!(row(4_000, true, 4_001).problem().is_some());
        assert!(row(4_000, true, 3_000).problem().is_some());
        assert_eq!(row(4_000, false, 9_000).problem(), None);
    }

    #[test]
    fn what_has_no_limit_does_not_end() {
        let row = |longest| {
            let mut row = row(0, true, longest);
            row.computed.is_limited = false;
            row
        };
        assert_eq!(row(super::stop::WATCHED_MILLIS).problem(), None);
        assert!(row(2_000).problem().is_some());
    }
}
