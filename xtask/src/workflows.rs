//! What others run of ours: workflows, the action, the hooks. Each is YAML, and names only chores that exist.

use std::fs;
use std::path::{Path, PathBuf};

use saphyr_parser::{Event, Parser};

use crate::checkout::Checkout;
use crate::{HELP, links};

/// The files in a directory and below it that end with this.
fn files(directory: &Path, ending: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths
        .flat_map(|path| match path.is_dir() {
            true => files(&path, ending),
            false => vec![path],
        })
        .filter(|path| path.to_string_lossy().ends_with(ending))
        .collect()
}

fn workflows() -> Vec<PathBuf> {
    let root = Checkout::here().root().to_owned();
    let mut found = files(&root.join(".github"), ".yml");
    found.push(root.join("action.yml"));
    found.push(root.join(".pre-commit-hooks.yaml"));
    found
}

/// The scalars of a YAML text.
fn scalars(name: &str, text: &str) -> Vec<String> {
    Parser::new_from_str(text)
        .filter_map(|event| {
            let (event, _) = event.unwrap_or_else(|error| panic!("{name}: {error}"));
            match event {
                Event::Scalar(text, ..) => Some(text.into_owned()),
                _ => None,
            }
        })
        .collect()
}

fn is_chore(name: &str) -> bool {
    name.starts_with("--")
        || HELP.lines().any(|line| {
            line.strip_prefix("  ")
                .is_some_and(|line| line.split_whitespace().next() == Some(name))
        })
}

/// The word after each `cargo xtask` in a text.
fn chores(text: &str) -> impl Iterator<Item = &str> {
    let named = text.split("cargo xtask ").skip(1);
    named.map(|rest| {
        let end = rest.find(|it: char| !(it.is_ascii_lowercase() || it == '-'));
        &rest[..end.unwrap_or(rest.len())]
    })
}

#[test]
fn workflows_are_yaml_and_name_chores_that_exist() {
    let found = workflows();
    assert!(found.len() >= 8, "{found:?}");
    for path in found {
        let name = path.display().to_string();
        let text = fs::read_to_string(&path).expect(&name);
        let words = scalars(&name, &text);
        for chore in words.iter().flat_map(|words| chores(words)) {
            assert!(
                is_chore(chore) || chore.is_empty(),
                "{name}: no chore `{chore}`"
            );
        }
        let mut keys = words.windows(2).filter(|pair| pair[0] == "uses");
        let pinned = keys.all(|pair| pair[1].contains('@') || pair[1].starts_with("./"));
        assert!(pinned, "{name}: an action without a version");
    }
}

#[test]
fn the_yaml_of_the_pages_is_yaml_and_their_chores_exist() {
    let checkout = Checkout::here();
    let pages = links::pages(&checkout).unwrap_or_default();
    for name in pages
        .iter()
        .filter(|name| !name.starts_with("crates/adieu-check/"))
    {
        let text = fs::read_to_string(checkout.root().join(name)).expect(name);
        for block in text.split("```yaml\n").skip(1) {
            let block = block.split("```").next().unwrap_or_default();
            scalars(name, block);
        }
        for chore in chores(&text) {
            assert!(
                is_chore(chore) || chore.is_empty(),
                "{name}: no chore `{chore}`"
            );
        }
    }
}
