//! The words that people read: a phrase that `docs/glossary.md` lists in its last column is found in every page, comment,
//! message and deployment file.
//!
//! Code is not prose: code blocks, inline code, the addresses of links and string literals of one word are left out.

mod rust;
mod style;
mod words;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use crate::checkout::Checkout;
use crate::command;
use crate::links;
use crate::step::{Failure, Outcome};

use words::{Line, Word};

const GLOSSARY: &str = "docs/glossary.md";

/// Files that name the phrases themselves, to find or to explain them.
const ABOUT_WORDS: &[&str] = &[GLOSSARY, "xtask/src/prose.rs", "xtask/src/prose/"];

/// Files and directories whose words are not the glossary's yet.
const PENDING: &[&str] = &["crates/adieu-drill/tests/it/sample.rs"];

const HELP: &str = "\
The words that people read, compared with docs/glossary.md, and the links of the pages.

usage: cargo xtask prose

Reads the prose of every Markdown page, the comments and messages of every Rust file, and the manifests, workflows,
scripts and deployment files in the repository. Prints each phrase that the last column of the glossary lists, and each
place against the house style: a negated noun (\"X is not Y\" said with \"no\"), a doc comment that begins with \"The
same\", a heading that is a sentence. Then looks where each link into the repository leads. `cargo xtask test` runs both
as the steps `prose` and `links`.

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
    let Some(names) = files(checkout) else {
        return Ok("skipped, not a git checkout".to_owned());
    };
    let (mut files, mut findings) = (0, 0);
    for name in &names {
        let Some(read) = reader(name) else {
            continue;
        };
        let Ok(text) = fs::read_to_string(checkout.root().join(name)) else {
            continue;
        };
        files += 1;
        for (line, what) in found_in(&read(&text), &phrases) {
            println!("{name}:{line}: {what}");
            findings += 1;
        }
    }
    match findings {
        0 => Ok(format!("{files} files, {} phrases", phrases.len())),
        _ => Err(Failure::new(format!(
            "{findings} places to write anew; {GLOSSARY} has the words to use"
        ))),
    }
}

/// Every file of the repository, also one that is not added yet.
fn files(checkout: &Checkout) -> Option<Vec<String>> {
    let names = command::ask(checkout.program("git").args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]));
    let names = String::from_utf8_lossy(&names.ok()?).into_owned();
    Some(names.split_terminator('\0').map(str::to_owned).collect())
}

/// How the texts of a file are read; `None` for one that has none.
fn reader(name: &str) -> Option<fn(&str) -> Vec<Line>> {
    if ABOUT_WORDS.iter().any(|about| name.starts_with(about))
        || PENDING.iter().any(|pending| name.contains(pending))
    {
        return None;
    }
    let path = Path::new(name);
    if path.file_name()?.to_str()?.starts_with("Dockerfile") {
        return Some(words::lines_of_settings);
    }
    match path.extension()?.to_str()? {
        "rs" => Some(rust::lines_of),
        "md" => Some(words::lines_of_page),
        "toml" | "yml" | "yaml" | "service" | "sh" | "py" => Some(words::lines_of_settings),
        _ => None,
    }
}

/// Everything that is wrong with these lines, in order.
fn found_in(lines: &[Line], phrases: &[String]) -> Vec<(usize, String)> {
    let words = words::words_of(lines);
    let listed = phrases_in(&words, phrases)
        .into_iter()
        .map(|(line, phrase)| (line, format!("\"{phrase}\"")));
    let mut found: Vec<_> = listed.chain(style::findings(lines, &words)).collect();
    found.sort();
    found
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

/// Each phrase that stands in the text, with its line. A phrase may go over the end of a line.
fn phrases_in<'a>(words: &[Word], phrases: &'a [String]) -> Vec<(usize, &'a str)> {
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

    fn found(lines: &[Line]) -> Vec<(usize, String)> {
        found_in(lines, &avoided(TABLE))
    }

    #[test]
    fn the_last_column_is_what_to_avoid() {
        assert_eq!(avoided(TABLE), ["process 1", "somebody", "whoever"]);
    }

    #[test]
    fn phrases_are_found_with_their_lines() {
        let page = "Whoever starts it is process\n1 there, Somebody's not.\nAs process 10.\n";
        let expected = [(1, "\"process 1\""), (1, "\"whoever\"")];
        let expected = expected.map(|(line, what)| (line, what.to_owned()));
        assert_eq!(found(&words::lines_of_page(page)), expected);
    }

    #[test]
    fn phrases_are_found_in_comments_and_messages_but_not_across_them() {
        let source = "\
/// Whoever calls it.
fn f() {
    // The kernel sends it to process
    // 1 only.
    say(\"somebody\", \"for somebody \\
         else\"); // process
    g(1);
}
";
        let expected = [
            (1, "\"whoever\""),
            (3, "\"process 1\""),
            (5, "\"somebody\""),
        ]
        .map(|(line, what)| (line, what.to_owned()));
        assert_eq!(found(&rust::lines_of(source)), expected);
    }

    #[test]
    fn code_and_addresses_are_not_prose() {
        let page = "\
`whoever` [text](whoever.md) ends\n\
```text\n\
whoever\n\
```\n\
process `x` 1\n";
        assert!(found(&words::lines_of_page(page)).is_empty());
    }

    #[test]
    fn every_kind_of_text_has_a_reader_and_the_list_of_phrases_has_none() {
        for name in [
            "README.md",
            "crates/adieu/src/lib.rs",
            "action.yml",
            "deploy/Dockerfile.python",
            "Cargo.toml",
        ] {
            assert!(reader(name).is_some(), "{name}");
        }
        for name in [GLOSSARY, "Cargo.lock", "docs/img/phases.svg"] {
            assert!(reader(name).is_none(), "{name}");
        }
    }

    #[test]
    fn the_glossary_of_the_repository_lists_phrases() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/glossary.md");
        let phrases = avoided(&fs::read_to_string(root).expect("the glossary"));
        assert!(phrases.contains(&"whoever".to_owned()), "{phrases:?}");
    }
}
