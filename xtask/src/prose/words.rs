//! What is searched: the words of a page, of a Rust file or of another text, each with its line.

/// What a line is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A line of a page.
    Page,
    /// `//` or `#`.
    Comment,
    /// `///` or `//!`.
    Doc,
    /// A string literal.
    Message,
}

/// A line of text that people read.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) number: usize,
    pub(super) kind: Kind,
    pub(super) text: String,
    /// Whether a sentence may go on from the line before.
    pub(super) joined: bool,
}

/// A word in lower case, with its line. An empty one stands where no phrase goes on.
pub(super) type Word = (usize, String);

pub(super) fn lines_of_page(text: &str) -> Vec<Line> {
    lines_of(text, Kind::Page)
}

/// Manifests, scripts and deployment files are read as a whole: their values are texts, too.
pub(super) fn lines_of_settings(text: &str) -> Vec<Line> {
    lines_of(text, Kind::Comment)
}

fn lines_of(text: &str, kind: Kind) -> Vec<Line> {
    (1..)
        .zip(text.lines())
        .map(|(number, line)| Line {
            number,
            kind,
            text: line.to_owned(),
            joined: number > 1,
        })
        .collect()
}

/// The words of the prose: code between fences, inline code and the addresses of links are left out.
pub(super) fn words_of(lines: &[Line]) -> Vec<Word> {
    let mut words = Vec::new();
    let mut in_code = false;
    for line in lines {
        if !line.joined {
            in_code = false;
            words.push((line.number, String::new()));
        }
        if line.text.trim_start().starts_with("```") {
            in_code = !in_code;
            continue;
        }
        if in_code {
            continue;
        }
        let text = without_addresses(&without_code(&line.text)).to_lowercase();
        let pieces = text
            .split(|c: char| !(c.is_alphanumeric() || matches!(c, '-' | '\'' | '_')))
            .map(|word| word.trim_matches(['-', '\'', '_']))
            .filter(|word| !word.is_empty());
        words.extend(pieces.map(|word| (line.number, word.to_owned())));
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

    fn words(page: &str) -> Vec<String> {
        let words = words_of(&lines_of_page(page)).into_iter();
        words
            .map(|(_, word)| word)
            .filter(|word| !word.is_empty())
            .collect()
    }

    #[test]
    fn code_and_addresses_are_not_prose() {
        let page = "`one` [text](two.md) ends\n```text\nthree\n```\nfour `x` _five_ six_seven\n";
        assert_eq!(
            words(page),
            ["code", "text", "ends", "four", "code", "five", "six_seven"]
        );
    }
}
