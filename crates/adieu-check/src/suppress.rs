//! Ignore comments: `# adieu: ignore[ADP101] reason`, `// adieu: ignore(ADR101) reason`.
//!
//! One stands on the line it forgives, or alone on the line above. It must say why. In Python `# noqa: ADP101` at the end of
//! the line is understood as well, and needs no reason.

use std::ops::Range;
use std::sync::Arc;

use crate::finding::{Finding, Place};
use crate::fix::{Applicability, Fix};
use crate::rule::{self, Rule};
use crate::source::Lines;

/// One ignore comment.
#[derive(Debug, Clone)]
pub(crate) struct Ignore {
    /// Where the comment stands.
    pub(crate) place: Place,
    /// The line it speaks of.
    line: u32,
    rules: Vec<String>,
    has_reason: bool,
    /// `# noqa: ADP101`, which asks for no reason and is looked after by the tool whose word it is.
    is_noqa: bool,
    /// Removes the comment, and its line if nothing else is on it. None where that could take
    /// more than the comment.
    removal: Option<Range<usize>>,
}

impl Ignore {
    /// Whether it speaks of the budget of a stop alone, which is computed only where it is asked for.
    pub(crate) fn is_for_budget(&self) -> bool {
        let is_budget =
            |rule: &&Rule| [rule::BUDGET_EXCEEDED, rule::BUDGET_WITHOUT_LIMIT].contains(&rule.code);
        !self.rules.is_empty()
            && self.rules.iter().all(|word| {
                let mut meant = Rule::ALL
                    .iter()
                    .filter(|rule| rule::is_meant(rule, word))
                    .peekable();
                meant.peek().is_some() && meant.all(|rule| is_budget(&rule))
            })
    }
}

/// The ignores among the comments of a file.
pub(crate) fn read_all(
    source: &str,
    lines: &Lines,
    comments: impl Iterator<Item = Range<usize>>,
) -> Vec<Ignore> {
    let mut ignores = Vec::new();
    for range in comments {
        ignores.extend(read_noqa(source, lines, range.clone()));
        ignores.extend(read(source, lines, range));
    }
    ignores
}

/// What a comment may hold that is read: a quick look before the comments are.
pub(crate) fn may_have(source: &str) -> bool {
    let has = |word: &[u8]| memchr::memmem::find(source.as_bytes(), word).is_some();
    has(b"adieu:") || has(b"noqa:") || has(b"NOQA:")
}

/// The rules of ours in `# noqa: E501, ADP101`.
fn read_noqa(source: &str, lines: &Lines, range: Range<usize>) -> Option<Ignore> {
    let comment = source.get(range.clone())?;
    let at = comment.find("noqa:").or_else(|| comment.find("NOQA:"))?;
    let before = comment[..at].trim_end();
    let rest = comment[at + "noqa:".len()..].split('#').next()?;
    let words = rest.split(|c: char| c == ',' || c.is_whitespace());
    let rules: Vec<String> = words
        .filter(|word| Rule::ALL.iter().any(|rule| rule.code.as_str() == *word))
        .map(str::to_owned)
        .collect();
    if !before.ends_with('#') || rules.is_empty() {
        return None;
    }
    let place = lines.place(source, range.start);
    Some(Ignore {
        place,
        line: place.line,
        rules,
        has_reason: true,
        is_noqa: true,
        removal: None,
    })
}

/// Ignores in a text whose comments run from `marker` to the line's end.
pub(crate) fn read_lines(source: &str, lines: &Lines, marker: &str) -> Vec<Ignore> {
    let mut comments = Vec::new();
    for at in memchr::memmem::find_iter(source.as_bytes(), b"adieu:") {
        let line = lines.place(source, at).line;
        let range = lines.range(source, line);
        if let Some(start) = source[range.start..at].find(marker) {
            comments.push(range.start + start..range.end);
        }
    }
    comments.dedup();
    let mut ignores = read_all(source, lines, comments.into_iter());
    for ignore in &mut ignores {
        // The mark may stand in a string, which only a parser of the language could tell.
        ignore.removal = None;
    }
    ignores
}

fn read(source: &str, lines: &Lines, range: Range<usize>) -> Option<Ignore> {
    let comment = source.get(range.clone())?;
    let body = comment.trim_start_matches(['#', '/', '!']).trim_start();
    let rest = body
        .strip_prefix("adieu:")?
        .trim_start()
        .strip_prefix("ignore")?;
    let (list, reason) = match rest.chars().next() {
        Some('[') => rest[1..].split_once(']')?,
        Some('(') => rest[1..].split_once(')')?,
        _ => ("", rest),
    };
    let place = lines.place(source, range.start);
    let line = lines.range(source, place.line);
    let alone = source[line.start..range.start].trim().is_empty();
    let before = source[line.start..range.start].trim_end().len();
    let removal = if alone {
        line.start..(line.end + 1).min(source.len())
    } else {
        line.start + before..range.end
    };
    Some(Ignore {
        place,
        line: if alone {
            next_code_line(source, lines, place.line)
        } else {
            place.line
        },
        is_noqa: false,
        rules: list
            .split(',')
            .map(|rule| rule.trim().to_owned())
            .filter(|rule| !rule.is_empty())
            .collect(),
        has_reason: reason.chars().filter(|c| c.is_alphanumeric()).count() >= 3,
        // Behind the reason another tool may have its own: `# type: ignore`.
        removal: (!reason.contains('#') && !reason.contains("//")).then_some(removal),
    })
}

/// Several comments may stand above one line.
fn next_code_line(source: &str, lines: &Lines, comment: u32) -> u32 {
    let mut line = comment + 1;
    loop {
        let range = lines.range(source, line);
        let text = source[range.clone()].trim_start();
        let comment = text.starts_with('#') && !text.starts_with("#[") || text.starts_with("//");
        if range.end >= source.len() || !comment {
            return line;
        }
        line += 1;
    }
}

/// Drops what is forgiven and adds what is wrong with the comments themselves.
pub(crate) fn apply(path: &Arc<str>, ignores: &[Ignore], findings: &mut Vec<Finding>) {
    if ignores.is_empty() {
        return;
    }
    let mut used = vec![false; ignores.len()];
    findings.retain(|finding| {
        let hit = ignores.iter().position(|ignore| {
            ignore.line == finding.place.line
                && ignore.rules.iter().any(|word| {
                    finding
                        .code
                        .rule()
                        .is_some_and(|rule| rule::is_meant(rule, word))
                })
        });
        if let Some(hit) = hit {
            used[hit] = true;
        }
        hit.is_none()
    });
    for (ignore, used) in ignores
        .iter()
        .zip(used)
        .filter(|(ignore, _)| !ignore.is_noqa)
    {
        let unknown = ignore
            .rules
            .iter()
            .find(|word| !Rule::ALL.iter().any(|rule| rule::is_meant(rule, word)));
        if let Some(word) = unknown {
            let message =
                format!("`{word}` is not a rule; `adieu check --explain RULE` knows them all");
            findings.push(Finding::new(
                path,
                ignore.place,
                rule::UNKNOWN_IGNORE,
                message,
            ));
        } else if ignore.rules.is_empty() {
            let message =
                "name the rules this comment ignores, as in `adieu: ignore[ADP101] reason`";
            findings.push(Finding::new(
                path,
                ignore.place,
                rule::UNKNOWN_IGNORE,
                message,
            ));
        } else if !used {
            let message = format!(
                "nothing here breaks {}: remove the comment",
                ignore.rules.join(", ")
            );
            let fix = ignore.removal.clone().map(|removal| Fix {
                start: removal.start,
                end: removal.end,
                text: String::new(),
                applicability: Applicability::Safe,
                import: None,
            });
            findings
                .push(Finding::new(path, ignore.place, rule::UNUSED_IGNORE, message).with_fix(fix));
        } else if !ignore.has_reason {
            let message = "say behind the bracket why this is right here";
            findings.push(Finding::new(
                path,
                ignore.place,
                rule::IGNORE_WITHOUT_REASON,
                message,
            ));
        }
    }
}
