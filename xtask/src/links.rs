//! The links of the pages: each one into this repository leads to a file that is there, and to a heading that it has.
//!
//! Links to the project's own address on GitHub, which the README needs because registries show it, are looked up in
//! the checkout. Other addresses are not asked for: no network is needed, and an outage elsewhere fails nothing here.

use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::checkout::Checkout;
use crate::command;
use crate::step::{Failure, Outcome};

/// What stands for the root of the repository in an address.
const OURS: [&str; 3] = [
    "https://github.com/adieu-rs/adieu/blob/main/",
    "https://github.com/adieu-rs/adieu/tree/main/",
    "https://raw.githubusercontent.com/adieu-rs/adieu/main/",
];

pub(crate) fn check(checkout: &Checkout) -> Outcome {
    let Some(pages) = pages(checkout) else {
        return Ok("skipped, not a git checkout".to_owned());
    };
    let (mut links, mut broken) = (0, 0);
    for name in &pages {
        let Ok(text) = fs::read_to_string(checkout.root().join(name)) else {
            continue;
        };
        for (line, target) in links_of(&text) {
            links += 1;
            if let Some(why) = broken_link(checkout.root(), name, target) {
                println!("{name}:{line}: {target}: {why}");
                broken += 1;
            }
        }
    }
    match broken {
        0 => Ok(format!("{links} links on {} pages", pages.len())),
        _ => Err(Failure::new(format!("{broken} broken links"))),
    }
}

/// All Markdown pages, also those that are not committed yet.
pub(crate) fn pages(checkout: &Checkout) -> Option<Vec<String>> {
    let names = command::ask(checkout.program("git").args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
        "--",
        "*.md",
    ]));
    let names = String::from_utf8_lossy(&names.ok()?).into_owned();
    Some(names.split_terminator('\0').map(str::to_owned).collect())
}

/// Why a link does not lead anywhere, if so.
fn broken_link(root: &Path, page: &str, target: &str) -> Option<&'static str> {
    let (path, anchor) = match target.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor)),
        None => (target, None),
    };
    let file = if path.is_empty() {
        PathBuf::from(page)
    } else if let Some(path) = OURS.iter().find_map(|ours| path.strip_prefix(ours)) {
        PathBuf::from(path)
    } else if path.contains("://") || path.starts_with("mailto:") || is_item(path) {
        return None;
    } else {
        resolved(&Path::new(page).parent()?.join(path))
    };
    let found = root.join(&file);
    if !found.exists() {
        return Some("there is no such file");
    }
    let anchor = anchor?;
    if file.extension().is_none_or(|extension| extension != "md") {
        return None;
    }
    let text = fs::read_to_string(found).ok()?;
    (!anchors(&text).any(|it| it == anchor)).then_some("the page has no such heading")
}

/// Whether this is the name of a Rust item, which rustdoc looks up.
fn is_item(target: &str) -> bool {
    target.contains("::") || target.contains('@')
}

/// A path without `..`.
pub(crate) fn resolved(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}

/// The targets of a page's links with their lines, code left out.
fn links_of(text: &str) -> Vec<(usize, &str)> {
    prose(text)
        .flat_map(|(number, line)| {
            let pieces = line.split('`').step_by(2);
            pieces.flat_map(move |piece| {
                piece
                    .split("](")
                    .skip(1)
                    .filter_map(|rest| rest.split_once(')'))
                    .map(move |(target, _)| (number, target))
            })
        })
        .collect()
}

/// The anchors of a page's headings, as GitHub and mdBook make them.
fn anchors(text: &str) -> impl Iterator<Item = String> {
    prose(text).filter_map(|(_, line)| {
        let heading = line.trim_start_matches('#');
        (heading.len() < line.len() && heading.starts_with(' ')).then(|| anchor(heading.trim()))
    })
}

fn anchor(heading: &str) -> String {
    heading
        .to_lowercase()
        .chars()
        .filter_map(|it| match it {
            ' ' => Some('-'),
            it if it.is_alphanumeric() || it == '-' || it == '_' => Some(it),
            _ => None,
        })
        .collect()
}

/// The lines outside of code blocks, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    text.lines().zip(1..).filter_map(move |(line, number)| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        (!in_code && !fence).then_some((number, line))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_outside_of_code() {
        let page = "[a](b.md) and [c](d.md#e)\n```text\n[x](y)\n```\n`[x](y)` ![p](q.svg)\n";
        assert_eq!(links_of(page), [(1, "b.md"), (1, "d.md#e"), (5, "q.svg")]);
    }

    #[test]
    fn an_anchor_is_made_as_github_makes_it() {
        assert_eq!(anchor("As a page: `--html FILE`"), "as-a-page---html-file");
        assert_eq!(anchor("What's new?"), "whats-new");
    }

    #[test]
    fn a_link_leads_to_a_file_and_a_heading() {
        let root = Checkout::here();
        let look = |target| broken_link(root.root(), "docs/README.md", target);
        assert_eq!(look("glossary.md"), None);
        assert_eq!(look("glossary.md#glossary"), None);
        assert_eq!(look("../README.md"), None);
        assert_eq!(
            look("https://github.com/adieu-rs/adieu/blob/main/docs/glossary.md"),
            None
        );
        assert_eq!(look("https://example.com/nothing"), None);
        assert!(look("glossary.md#nothing").is_some());
        assert!(look("nothing.md").is_some());
        assert!(look("https://github.com/adieu-rs/adieu/blob/main/nothing").is_some());
    }
}
