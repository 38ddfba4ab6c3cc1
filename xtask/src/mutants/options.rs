//! The words after `cargo xtask mutants`.

use std::fmt::Write as _;
use std::time::Duration;

use super::modules::MODULES;
use super::page::BAR;
use super::plan::Plan;
use super::render::Id;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Options {
    modules: Vec<String>,
    shard: Option<(u32, u32)>,
    pub(super) budget: Duration,
    pub(super) list: bool,
    pub(super) json: bool,
    pub(super) fresh: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Run(Options),
    Help,
}

impl Options {
    pub(super) fn chooses(&self, plan: &Plan, id: Id) -> bool {
        let module = plan.mutants[id as usize].module;
        (self.modules.is_empty() || self.modules.iter().any(|name| name == module))
            && self.shard.is_none_or(|(k, n)| id % n == k - 1)
    }

    pub(super) const fn is_all(&self) -> bool {
        self.modules.is_empty() && self.shard.is_none()
    }
}

pub(super) fn parse(words: &[&str]) -> Result<Wish, String> {
    let mut options = Options {
        modules: Vec::new(),
        shard: None,
        budget: Duration::from_secs(120),
        list: false,
        json: false,
        fresh: false,
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .copied()
                .ok_or_else(|| format!("`{word}` needs a value"))
        };
        match *word {
            "--help" | "-h" => return Ok(Wish::Help),
            "--list" => options.list = true,
            "--json" => options.json = true,
            "--fresh" => options.fresh = true,
            "--module" => {
                let name = value()?;
                if !MODULES.iter().any(|module| module.name == name) {
                    return Err(format!("no module is called `{name}`"));
                }
                options.modules.push(name.to_owned());
            }
            "--shard" => options.shard = Some(shard(value()?)?),
            "--budget" => {
                let text = value()?;
                let seconds = text
                    .parse()
                    .map_err(|_| format!("`{text}` is not a number of seconds"))?;
                options.budget = Duration::from_secs(seconds);
            }
            unknown => return Err(format!("`mutants` has no option `{unknown}`")),
        }
    }
    Ok(Wish::Run(options))
}

fn shard(text: &str) -> Result<(u32, u32), String> {
    text.split_once('/')
        .and_then(|(k, n)| Some((k.parse().ok()?, n.parse().ok()?)))
        .filter(|(k, n)| (1..=*n).contains(k))
        .ok_or_else(|| format!("`{text}` is not a shard: write 1/4 for the first of four"))
}

pub(super) fn help() -> String {
    let mut modules = String::new();
    for module in MODULES {
        let _ = writeln!(modules, "  {:<14}{}", module.name, module.promise);
    }
    format!(
        "\
Changes the code in small ways, one at a time, and sees whether a test notices.

usage: cargo xtask mutants [options]

  --module NAME   only mutants of this module; may be repeated
  --shard K/N     only every Nth mutant, beginning with the Kth
  --budget SECS   test time for one mutant, fast tests first; 120 without this
  --fresh         try again what was caught last time
  --list          say which mutants there are, and run nothing
  --json          the result as JSON

modules, with the promise that rests on each:
{modules}
A mutant is one change: `<` becomes `<=`, `&&` becomes `||`, a condition is always true, a call is left out, a function
returns at once. All of them are compiled into one copy of the workspace, in target/mutants/tree, and the variable
ADIEU_MUTANT chooses one at run time. Those that do not compile are left out. First every test runs twice without a
mutant: once to see which mutants it reaches, and again to see that it can be relied on. Then each mutant meets the
tests that reach it, two mutants at a time, until one test fails or hangs. A survivor is a change that no test notices:

- a promise is behind it: write the test;
- it changes nothing that can be seen: add it to xtask/src/mutants/accepted.toml, with the reason. It still counts as
  not caught.

Results are kept in target/mutants/results.jsonl. A run that is ended goes on where it was; mutants that were caught
are not tried again as long as their file stays the same.

exit code: 0 at least {BAR} % of the mutants are caught and every survivor is in the list, 1 otherwise, 2 usage
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_understood_or_refused() {
        assert_eq!(parse(&["--help"]), Ok(Wish::Help));
        let Ok(Wish::Run(options)) = parse(&["--module", "roster", "--shard", "2/3", "--json"])
        else {
            panic!("it is understood");
        };
        assert_eq!(options.modules, ["roster"]);
        assert_eq!(options.shard, Some((2, 3)));
        assert!(options.json && !options.is_all());
        for bad in [
            &["--shard", "0/3"][..],
            &["--shard", "4/3"],
            &["--module", "x"],
            &["--budget"],
            &["-x"],
        ] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }
}
