//! The project speaks of itself alone, in files of a size to read: no tracked file names a place
//! that exists on one machine only, and no source file grows past a thousand lines. No test skips itself without being
//! counted.

use std::fs;
use std::io;
use std::path::{Component, Path};

use crate::checkout::Checkout;
use crate::command;
use crate::step::{Failure, Outcome};

/// Directories of one machine or person. Written without the slashes that this check looks for.
const PRIVATE_DIRECTORIES: &[&str] = &["work", "root", "farm", "home", "Users"];

/// Where packages are fetched from is decided by the machine that builds. In two halves, for the same
/// reason.
const REGISTRY_HOSTS: &[(&str, &str)] = &[
    ("index.", "crates.io"),
    ("static.", "crates.io"),
    ("artifact", "ory"),
];

/// Lines of a source file before its tests. A file is as long as its one concept needs; beyond this it is more than one.
const LONGEST: usize = 1_000;

pub(crate) fn check(checkout: &Checkout) -> Outcome {
    // A release archive, say; there, nothing tells our files from others.
    if !checkout.root().join(".git").exists() {
        return Ok("skipped, not a git checkout".to_owned());
    }
    let needles = Needles::new();
    let (mut files, mut findings) = (0, 0);
    for name in tracked(checkout)?.split_terminator('\0') {
        let path = checkout.root().join(name);
        // Anything but a file: a link, whose target is looked at under its own name, or a
        // submodule.
        if !fs::symlink_metadata(&path).is_ok_and(|found| found.is_file()) {
            continue;
        }
        let bytes = fs::read(&path).map_err(|error| unreadable(name, &error))?;
        if bytes.contains(&0) {
            continue;
        }
        files += 1;
        for finding in findings_in(name, &String::from_utf8_lossy(&bytes), &needles) {
            println!("{name}:{}: {}", finding.line, finding.words);
            findings += 1;
        }
    }
    match findings {
        0 => Ok(format!("{files} files")),
        _ => Err(Failure::new(format!(
            "{findings} findings in {files} files"
        ))),
    }
}

/// The names of all tracked files, each ended by a zero byte.
pub(crate) fn tracked(checkout: &Checkout) -> Result<String, Failure> {
    // Listing files is harmless also where the checkout belongs to another user, as it may in CI.
    let trust = format!("safe.directory={}", checkout.root().display());
    let names = command::ask(
        checkout
            .program("git")
            .args(["-c", &trust, "ls-files", "-z"]),
    )?;
    Ok(String::from_utf8_lossy(&names).into_owned())
}

fn unreadable(name: &str, error: &io::Error) -> Failure {
    Failure::new(format!("cannot read {name}: {error}"))
}

#[derive(Debug, PartialEq)]
struct Finding {
    line: usize,
    words: String,
}

fn findings_in(name: &str, text: &str, needles: &Needles) -> Vec<Finding> {
    let mut findings: Vec<Finding> = text
        .lines()
        .zip(1..)
        .flat_map(|(content, line)| {
            needles
                .found_in(content)
                .map(move |words| Finding { line, words })
        })
        .collect();
    let lines = lines_before_tests(text);
    if is_source(name) && lines > LONGEST {
        let words =
            format!("{lines} lines before the tests, {LONGEST} are allowed: split the file");
        findings.push(Finding {
            line: LONGEST + 1,
            words,
        });
    }
    findings.extend(uncounted_skips(name, text));
    findings
}

/// A test that prints that it is skipped and returns counts as passed, and its output is not shown.
fn uncounted_skips(name: &str, text: &str) -> Vec<Finding> {
    const PRINT: &str = "println!(";
    let is_rust = Path::new(name).extension().is_some_and(|it| it == "rs");
    // Those that count them print, too.
    let counts_them = ["fixtures/skip/", "xtask/src/skips.rs"];
    if !is_rust || counts_them.iter().any(|it| name.starts_with(it)) {
        return Vec::new();
    }
    let prints_a_skip = |at: &usize| {
        let printed = text[at + PRINT.len()..].trim_start().strip_prefix('"');
        let word = printed.and_then(|printed| printed.get(..4));
        word.is_some_and(|word| word.eq_ignore_ascii_case("skip"))
    };
    let prints = text.match_indices(PRINT).map(|(at, _)| at);
    prints
        .filter(prints_a_skip)
        .map(|at| Finding {
            line: text[..at].matches('\n').count() + 1,
            words: "a skip that is not counted: call `fixture_skip::missing`, `not_possible` or `too_busy`".to_owned(),
        })
        .collect()
}

struct Needles {
    directories: Vec<String>,
    hosts: Vec<String>,
}

impl Needles {
    fn new() -> Self {
        Self {
            directories: PRIVATE_DIRECTORIES
                .iter()
                .map(|name| format!("/{name}/"))
                .collect(),
            hosts: REGISTRY_HOSTS
                .iter()
                .map(|(left, right)| format!("{left}{right}"))
                .collect(),
        }
    }

    fn found_in(&self, line: &str) -> impl Iterator<Item = String> {
        let directories = self
            .directories
            .iter()
            .filter(|needle| {
                line.match_indices(*needle)
                    .any(|(at, _)| starts_path(line, at))
            })
            .map(|needle| format!("an absolute path of one machine: {needle}"));
        let hosts = self
            .hosts
            .iter()
            .filter(|needle| line.contains(*needle))
            .map(|needle| format!("the host of a registry: {needle}"));
        directories.chain(hosts)
    }
}

/// Whether the slash begins a path, rather than being in the middle of one or of an address.
fn starts_path(line: &str, slash: usize) -> bool {
    !line[..slash]
        .ends_with(|before: char| before.is_alphanumeric() || "_-.~*})$]>".contains(before))
}

/// Programs under `fixtures` misbehave on purpose, and at whatever length it takes.
fn is_source(name: &str) -> bool {
    let path = Path::new(name);
    path.extension().is_some_and(|extension| extension == "rs")
        && !path
            .components()
            .any(|part| part == Component::Normal("fixtures".as_ref()))
}

/// The lines up to a test module with a body; `mod tests;` at the top of a file ends nothing.
pub(crate) fn lines_before_tests(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let opens_tests = |at: &usize| {
        let rest = &lines[*at..];
        (rest[0].starts_with("#[cfg(test)]") || rest[0].starts_with("#[cfg(all(test,"))
            && rest
                .iter()
                .find(|line| !line.starts_with("#["))
                .is_some_and(|line| line.starts_with("mod ") && line.contains('{'))
    };
    (0..lines.len()).find(opens_tests).unwrap_or(lines.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_found(name: &str, text: &str) -> Vec<usize> {
        findings_in(name, text, &Needles::new())
            .into_iter()
            .map(|finding| finding.line)
            .collect()
    }

    #[test]
    fn a_skip_that_is_not_counted_is_found() {
        let printed = |words: &str| {
            format!(
                "fn f() {{\n    {}(\n        \"{words}\");\n}}\n",
                "println!"
            )
        };
        assert_eq!(
            lines_found("crates/a/tests/b.rs", &printed("SKIPPED: no x")),
            [2]
        );
        assert_eq!(
            lines_found("examples/a/tests/b.rs", &printed("skipped, no x")),
            [2]
        );
        for (name, words) in [
            ("crates/a/tests/b.rs", "not judged"),
            ("crates/a/tests/b.rs", "sk"),
            ("fixtures/skip/src/lib.rs", "skipped ({kind}): {why}"),
            ("docs/a.md", "SKIPPED"),
        ] {
            assert_eq!(
                lines_found(name, &printed(words)),
                [0_usize; 0],
                "{name} {words}"
            );
        }
    }

    #[test]
    fn a_private_path_is_found_where_it_begins() {
        for name in PRIVATE_DIRECTORIES {
            let text = format!("first\nsee /{name}/notes\n\"/{name}/\" `/{name}/a`\n");
            assert_eq!(lines_found("README.md", &text), [2, 3]);
        }
    }

    #[test]
    fn the_same_word_inside_another_path_is_none() {
        for name in PRIVATE_DIRECTORIES {
            let text =
                format!("src/{name}/a ./{name}/b https://example.com/{name}/c $X/{name}/d {name}/");
            assert!(lines_found("README.md", &text).is_empty());
        }
    }

    #[test]
    fn a_registry_host_is_found() {
        for (left, right) in REGISTRY_HOSTS {
            assert_eq!(
                lines_found("a.toml", &format!("\nurl = \"https://{left}{right}/x\"\n")),
                [2]
            );
        }
        assert!(
            lines_found(
                "README.md",
                "on [crates.io](https://crates.io/crates/adieu)"
            )
            .is_empty()
        );
    }

    #[test]
    fn a_long_file_is_found_at_its_first_line_too_many() {
        let long = "//\n".repeat(LONGEST + 1);
        assert_eq!(lines_found("src/a.rs", &long), [LONGEST + 1]);
        assert!(lines_found("src/a.rs", &long[3..]).is_empty());
        assert!(lines_found("docs/a.md", &long).is_empty());
        assert!(lines_found("fixtures/spin/src/main.rs", &long).is_empty());
    }

    #[test]
    fn tests_do_not_count() {
        let code = "//\n".repeat(LONGEST);
        let body = "//\n".repeat(10);
        let ends_it = [
            "#[cfg(test)]\nmod tests {\n",
            "#[cfg(all(test, unix))]\n#[allow(x)]\nmod a {\n",
        ];
        for start in ends_it {
            assert!(lines_found("src/a.rs", &format!("{code}{start}{body}}}\n")).is_empty());
        }
        for start in ["#[cfg(test)]\nmod tests;\n", "#[cfg(test)]\nuse a::b;\n"] {
            assert_eq!(
                lines_found("src/a.rs", &format!("{start}{code}")),
                [LONGEST + 1]
            );
        }
    }
}
