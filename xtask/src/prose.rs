//! The words of the pages: a phrase that `docs/glossary.md` lists in its last column is found in the prose of every page.
//!
//! Prose is what a reader reads as text: code blocks, inline code and the addresses of links are not.

use std::fs;
use std::process::ExitCode;

use crate::checkout::Checkout;
use crate::links;
use crate::step::{Failure, Outcome};

const GLOSSARY: &str = "docs/glossary.md";

/// Pages, and directories of pages, whose words are not the glossary's yet.
const PENDING: &[&str] = &["docs/drills.md"];

const HELP: &str = "\
The words of the pages, compared with docs/glossary.md, and their links.

usage: cargo xtask prose

Reads the prose of every Markdown page in the repository, and prints each phrase that the last column of the glossary
lists, with file and line. Then looks where each link into the repository leads. `cargo xtask test` runs both as the steps
`prose` and `links`.

exit code: 0 nothing found, 1 a phrase or a broken link, 2 usage
";

pub(crate) fn run(words: &[&str]) -> ExitCode {
    match words {
        [] => {
            let checkout = Checkout::here();
            // Both, also if the first finds something.
            let said = [links::check(&checkout), check(&checkout)];
            for outcome in &said {
                match outcome {
                    Ok(words) => println!("{words}"),
                    Err(failure) => eprintln!("error: {}", failure.why()),
                }
            }
            match said.iter().all(Result::is_ok) {
                true => ExitCode::SUCCESS,
                false => ExitCode::FAILURE,
            }
        }
        ["--help" | "-h"] => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        [unknown, ..] => crate::usage(
            &format!("`prose` has no option `{unknown}`"),
            "prose --help",
        ),
    }
}

pub(crate) fn check(checkout: &Checkout) -> Outcome {
    let glossary = fs::read_to_string(checkout.root().join(GLOSSARY))?;
    let phrases = avoided(&glossary);
    if phrases.is_empty() {
        return Err(Failure::new(format!(
            "{GLOSSARY} lists no phrase to avoid: has its table changed?"
        )));
    }
    let Some(names) = links::pages(checkout) else {
        return Ok("skipped, not a git checkout".to_owned());
    };
    let (mut pages, mut findings) = (0, 0);
    for name in &names {
        if name == GLOSSARY || PENDING.iter().any(|page| name.starts_with(page)) {
            continue;
        }
        let Ok(page) = fs::read_to_string(checkout.root().join(name)) else {
            continue;
        };
        pages += 1;
        for (line, phrase) in found_in(&page, &phrases) {
            println!("{name}:{line}: \"{phrase}\" ({GLOSSARY} has the word to use)");
            findings += 1;
        }
    }
    match findings {
        0 => Ok(format!("{pages} pages, {} phrases", phrases.len())),
        _ => Err(Failure::new(format!("{findings} phrases to replace"))),
    }
}

/// The phrases in backticks in the last cell of each row of the glossary.
fn avoided(glossary: &str) -> Vec<String> {
    let rows = glossary.lines().filter(|line| line.starts_with("| "));
    let last_cells = rows.filter_map(|row| row.trim_end_matches(['|', ' ']).rsplit('|').next());
    let mut phrases: Vec<String> = glossary_cells(last_cells).collect();
    phrases.sort();
    phrases.dedup();
    phrases
}

fn glossary_cells<'a>(cells: impl Iterator<Item = &'a str>) -> impl Iterator<Item = String> {
    cells
        // A row without a phrase to avoid ends with its meaning, in which backticks are code.
        .filter(|cell| cell.trim_start().starts_with('`') && cell.trim_end().ends_with('`'))
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .map(str::to_lowercase)
}

/// Each phrase that the prose of a page has, with its line. A phrase may go over the end of a line.
fn found_in<'a>(page: &str, phrases: &'a [String]) -> Vec<(usize, &'a str)> {
    let words = words_of(page);
    let mut found = Vec::new();
    for (at, (line, _)) in words.iter().enumerate() {
        for phrase in phrases {
            let parts = phrase.split(' ');
            let rest = words[at..].iter().map(|(_, word)| word.as_str());
            if parts.clone().count() <= words.len() - at && parts.zip(rest).all(|(a, b)| a == b) {
                found.push((*line, phrase.as_str()));
            }
        }
    }
    found
}

/// The words of a page's prose in lower case, each with its line.
fn words_of(page: &str) -> Vec<(usize, String)> {
    let mut words = Vec::new();
    let mut in_code = false;
    for (line, number) in page.lines().zip(1..) {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
            continue;
        }
        if in_code {
            continue;
        }
        let text = without_addresses(&without_code(line)).to_lowercase();
        let pieces = text
            .split(|c: char| !(c.is_alphanumeric() || c == '-' || c == '\''))
            .map(|word| word.trim_matches(['-', '\'']))
            .filter(|word| !word.is_empty());
        words.extend(pieces.map(|word| (number, word.to_owned())));
    }
    words
}

/// A line without its inline code. A word takes the code's place, so that what stands around it is no phrase.
fn without_code(line: &str) -> String {
    line.split('`')
        .step_by(2)
        .collect::<Vec<_>>()
        .join(" code ")
}

/// A line without the addresses of its links.
fn without_addresses(line: &str) -> String {
    let mut pieces = line.split("](");
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        text.push(' ');
        text.push_str(piece.split_once(')').map_or("", |(_, rest)| rest));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
| word | means | not |
|---|---|---|
| parent process | What started `this`. | `whoever`, `Somebody` |
| PID 1 | The first one. | `process 1` |
| phase | A share, as in `drain`. | |
";

    #[test]
    fn the_last_column_is_what_to_avoid() {
        assert_eq!(avoided(TABLE), ["process 1", "somebody", "whoever"]);
    }

    #[test]
    fn phrases_are_found_with_their_lines() {
        let page = "Whoever starts it is process\n1 there, Somebody's not.\nAs process 10.\n";
        let phrases = avoided(TABLE);
        assert_eq!(found_in(page, &phrases), [(1, "whoever"), (1, "process 1")]);
    }

    #[test]
    fn code_and_addresses_are_not_prose() {
        let page = "\
`whoever` [text](whoever.md) ends\n\
```text\n\
whoever\n\
```\n\
process `x` 1\n";
        assert!(found_in(page, &avoided(TABLE)).is_empty());
    }

    #[test]
    fn the_glossary_of_the_repository_lists_phrases() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/glossary.md");
        let phrases = avoided(&fs::read_to_string(root).expect("the glossary"));
        assert!(phrases.contains(&"whoever".to_owned()), "{phrases:?}");
    }
}
