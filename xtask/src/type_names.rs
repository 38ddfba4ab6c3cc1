//! One name, one thing: no two types of a crate have the same name.
//!
//! A search for a type leads to one place then, and a reader who has met it once knows it everywhere in the crate.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::checkout::Checkout;
use crate::hygiene::{lines_before_tests, tracked};
use crate::step::{Failure, Outcome};

/// Files that stand in for another one on another platform or without a feature: their types have the names of those.
const STAND_INS: &[&str] = &[
    "windows.rs",
    "_windows.rs",
    "other.rs",
    "unavailable.rs",
    "no_front.rs",
    "run_unsupported.rs",
];

/// The parts of `adieu-check` that read one language each. What they have in common has one name in all of them.
const LANGUAGES: &[&str] = &[
    "deploy/hcl",
    "deploy/helm",
    "deploy/script",
    "deploy/shell",
    "deploy/yaml",
    "go",
    "node",
    "python",
    "rust",
];

/// Files that hold tests only.
const TESTS: &[&str] = &[
    "_tests.rs",
    "_properties.rs",
    "_model.rs",
    "_table.rs",
    "fuzz.rs",
];

pub(crate) fn check(checkout: &Checkout) -> Outcome {
    if !checkout.root().join(".git").exists() {
        return Ok("skipped, not a git checkout".to_owned());
    }
    let mut types: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for file in tracked(checkout)?.split_terminator('\0') {
        let Some(name) = crate_of(file) else { continue };
        let Ok(text) = fs::read_to_string(checkout.root().join(file)) else {
            // It was removed and not committed yet.
            continue;
        };
        // What a file defines twice is for two platforms.
        let defined: BTreeMap<&str, usize> = definitions(&text).collect();
        for (defined, line) in defined {
            let key = (name.to_owned(), defined.to_owned());
            types.entry(key).or_default().push(format!("{file}:{line}"));
        }
    }
    let count = types.len();
    let twice = types.iter().filter(|(_, places)| !are_one(places));
    let found = twice.map(|((name, defined), places)| {
        println!("{name}: `{defined}` is {}", places.join(" and "));
    });
    match found.count() {
        0 => Ok(format!("{count} types")),
        found => Err(Failure::new(format!(
            "{found} names stand for more than one type of their crate"
        ))),
    }
}

/// Whether a name stands for one thing: it is defined once, or once for each of several languages.
fn are_one(places: &[String]) -> bool {
    let mut languages: Vec<Option<&str>> = places.iter().map(|place| language_of(place)).collect();
    languages.sort_unstable();
    languages.dedup();
    places.len() == 1 || (languages.len() == places.len() && !languages.contains(&None))
}

fn language_of(place: &str) -> Option<&str> {
    let (_, inside) = place.split_once("/src/")?;
    let is_below = |language: &&&str| {
        let rest = inside.strip_prefix(**language);
        rest.is_some_and(|rest| rest.starts_with(['/', '.']))
    };
    LANGUAGES.iter().find(is_below).copied()
}

/// The crate whose source a file is.
fn crate_of(file: &str) -> Option<&str> {
    let (name, inside) = file.strip_prefix("crates/")?.split_once('/')?;
    let inside = inside.strip_prefix("src/")?;
    let last = Path::new(inside).file_name()?.to_str()?;
    let is_other = STAND_INS
        .iter()
        .any(|other| last == *other || (other.starts_with('_') && last.ends_with(other)));
    let is_test = TESTS.iter().any(|test| last.ends_with(test)) || inside.contains("/tests/");
    (last.ends_with(".rs") && !is_other && !is_test).then_some(name)
}

/// The types that a file defines outside of its tests, with their lines.
fn definitions(text: &str) -> impl Iterator<Item = (&str, usize)> {
    let lines = text.lines().take(lines_before_tests(text)).zip(1..);
    lines.filter_map(|(content, line)| Some((defined(content)?, line)))
}

/// The name, if a line that is not indented defines a type.
fn defined(line: &str) -> Option<&str> {
    let rest = match line.strip_prefix("pub") {
        // `pub`, `pub(crate)`, `pub(in some::place)`
        Some(rest) => rest
            .strip_prefix('(')
            .and_then(|rest| Some(rest.split_once(')')?.1))
            .unwrap_or(rest)
            .trim_start(),
        None => line,
    };
    let rest = ["struct ", "enum ", "union ", "trait ", "type "]
        .iter()
        .find_map(|keyword| rest.strip_prefix(keyword))?;
    let end = rest.find(|one: char| !one.is_alphanumeric() && one != '_');
    Some(&rest[..end.unwrap_or(rest.len())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_is_found_whatever_its_visibility() {
        for line in [
            "struct Drain;",
            "pub struct Drain<T> {",
            "pub(crate) enum Drain {",
            "pub(in crate::net) type Drain = u8;",
            "trait Drain: Send {",
        ] {
            assert_eq!(defined(line), Some("Drain"), "{line}");
        }
        for line in ["    type Error = Never;", "impl Drain {", "structure", ""] {
            assert_eq!(defined(line), None, "{line}");
        }
    }

    #[test]
    fn each_language_has_its_reader_and_no_more_than_one() {
        let are_one = |files: &[&str]| {
            let file = |file: &&str| format!("crates/adieu-check/src/{file}:1");
            super::are_one(&files.iter().map(file).collect::<Vec<_>>())
        };
        assert!(are_one(&["check.rs"]));
        assert!(are_one(&["python/extract.rs", "rust/items.rs"]));
        assert!(are_one(&["deploy/script.rs", "deploy/helm/template.rs"]));
        assert!(!are_one(&["deploy/script.rs", "deploy/start.rs"]));
        assert!(!are_one(&["python/extract.rs", "python/items.rs"]));
        assert!(!are_one(&["python/extract.rs", "check.rs"]));
        assert!(!are_one(&["check.rs", "fix.rs"]));
    }

    #[test]
    fn tests_and_stand_ins_do_not_count() {
        let text = "struct A;\n#[cfg(test)]\nmod tests {\nstruct B;\n}\n";
        assert_eq!(definitions(text).collect::<Vec<_>>(), [("A", 1)]);
        assert_eq!(crate_of("crates/adieu/src/net/listen.rs"), Some("adieu"));
        for file in [
            "crates/adieu/src/net/os/windows.rs",
            "crates/adieu-drill/src/process/process_tree_windows.rs",
            "crates/adieu/src/net/proxy_header_tests.rs",
            "crates/adieu/tests/api/main.rs",
            "xtask/src/main.rs",
        ] {
            assert_eq!(crate_of(file), None, "{file}");
        }
    }
}
