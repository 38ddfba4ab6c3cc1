//! Tests that skipped themselves: each one is counted and named in the summary.
//!
//! A test says so through `fixtures/skip`, which appends a line to the file that is named in the environment. In CI a
//! skip for want of something that can be installed is a failure.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::checkout::Checkout;
use crate::step::{Failure, Outcome};

/// The variable that `fixtures/skip` reads.
const FILE: &str = "ADIEU_SKIPS";

/// Where one run of the tests records its skips.
pub(crate) struct Skips {
    file: PathBuf,
}

impl Skips {
    /// An empty record.
    pub(crate) fn begin(checkout: &Checkout) -> Result<Self, Failure> {
        let folder = checkout.root().join("target");
        fs::create_dir_all(&folder)?;
        let file = folder.join("skips.tsv");
        fs::write(&file, "")?;
        Ok(Self { file })
    }

    /// Has what the command starts record its skips here.
    pub(crate) fn record<'command>(&self, command: &'command mut Command) -> &'command mut Command {
        command.env(FILE, &self.file)
    }

    /// Names the skips and adds their number to the outcome of the tests.
    pub(crate) fn conclude(&self, outcome: Outcome, in_ci: bool) -> Outcome {
        let text = fs::read_to_string(&self.file)?;
        let skips = read(&text);
        for (kind, tests) in &skips {
            for (test, why) in tests {
                println!("skipped ({kind}): {test}: {why}");
            }
        }
        let words = counts(&skips);
        let unmet = in_ci && skips.contains_key(MISSING);
        match outcome {
            Ok(said) if unmet => Err(Failure::new(join(&said, &words)).advise(
                "what is missing can be installed, so in CI it is a failure; the lines `skipped (missing)` name it",
            )),
            Ok(said) => Ok(join(&said, &words)),
            Err(failure) => Err(Failure::new(join(failure.why(), &words))),
        }
    }
}

const MISSING: &str = "missing";

/// Test and reason, by kind of skip.
type ByKind<'a> = BTreeMap<&'a str, Vec<(&'a str, &'a str)>>;

fn read(text: &str) -> ByKind<'_> {
    let mut skips = ByKind::new();
    for line in text.lines() {
        let mut fields = line.splitn(3, '\t');
        if let (Some(kind), Some(test), Some(why)) = (fields.next(), fields.next(), fields.next()) {
            skips.entry(kind).or_default().push((test, why));
        }
    }
    skips
}

fn counts(skips: &ByKind<'_>) -> String {
    let counts: Vec<String> = skips
        .iter()
        .map(|(kind, tests)| {
            let mut reasons: Vec<&str> = tests.iter().map(|(_, why)| *why).collect();
            reasons.sort_unstable();
            reasons.dedup();
            format!(
                "{} skipped themselves ({kind}: {})",
                tests.len(),
                reasons.join("; ")
            )
        })
        .collect();
    counts.join(", ")
}

fn join(said: &str, words: &str) -> String {
    match (said, words) {
        (said, "") => said.to_owned(),
        ("", words) => words.to_owned(),
        _ => format!("{said}, {words}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "\
missing\tweb browser\tchromium
not possible\tcli pid1\tno PID namespace
missing\tdrill page\tchromium
";

    #[test]
    fn skips_are_counted_with_their_reasons() {
        assert_eq!(
            counts(&read(LINES)),
            "2 skipped themselves (missing: chromium), 1 skipped themselves (not possible: no PID namespace)"
        );
        assert_eq!(counts(&read("")), "");
    }

    #[test]
    fn what_can_be_installed_may_not_be_missing_in_ci() {
        let folder = std::env::temp_dir();
        let file = folder.join(format!("adieu-skips-of-{}", std::process::id()));
        fs::write(&file, LINES).expect("a scratch file");
        let skips = Skips { file };
        let ok = || Ok("3 passed".to_owned());
        assert!(skips.conclude(ok(), false).is_ok());
        let failure = skips
            .conclude(ok(), true)
            .expect_err("chromium can be installed");
        assert!(
            failure.why().starts_with("3 passed, 2 skipped"),
            "{}",
            failure.why()
        );

        fs::write(&skips.file, "too busy\tactor end\tstalled\n").expect("a scratch file");
        assert!(skips.conclude(ok(), true).is_ok());
        fs::remove_file(&skips.file).expect("it is there");
    }
}
