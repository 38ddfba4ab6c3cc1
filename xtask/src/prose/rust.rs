//! The texts of a Rust file that people read: comments, and string literals of more than one word.
//!
//! A lexer of its own, because comments are not in the tokens of a parser: it only has to know where comments, strings
//! and character literals begin and end.

use super::words::{Kind, Line};

/// What is read, line by line; lines that follow each other in one comment or literal have `joined` set.
pub(super) fn lines_of(source: &str) -> Vec<Line> {
    let mut lexer = Lexer {
        rest: source,
        number: 1,
        lines: Vec::new(),
    };
    while lexer.step() {}
    lexer.lines
}

struct Lexer<'s> {
    rest: &'s str,
    number: usize,
    lines: Vec<Line>,
}

impl<'s> Lexer<'s> {
    /// Reads the next token; `false` at the end.
    fn step(&mut self) -> bool {
        let Some(next) = self.rest.chars().next() else {
            return false;
        };
        if self.rest.starts_with("//") {
            let end = self.rest.find('\n').unwrap_or(self.rest.len());
            let text = self.take(end);
            self.comment(text);
        } else if self.rest.starts_with("/*") {
            let text = self.take(end_of_block(self.rest));
            self.literal(Kind::Comment, text);
        } else if next == '"' {
            let text = self.take(end_of_string(self.rest));
            self.string(text);
        } else if next == '\'' {
            self.take(end_of_quote(self.rest));
        } else if next.is_alphanumeric() || next == '_' {
            let end = self
                .rest
                .find(|c: char| !(c.is_alphanumeric() || c == '_'))
                .unwrap_or(self.rest.len());
            let word = self.take(end);
            if matches!(word, "r" | "br" | "cr")
                && let Some(end) = end_of_raw(self.rest)
            {
                let text = self.take(end);
                self.string(text);
            }
        } else {
            self.take(next.len_utf8());
        }
        true
    }

    /// Cuts so many bytes off, and counts their lines.
    fn take(&mut self, bytes: usize) -> &'s str {
        let (taken, rest) = self.rest.split_at(bytes.min(self.rest.len()));
        self.rest = rest;
        // The lines of a comment or a literal are counted where its text is added.
        self.number += taken.matches('\n').count();
        taken
    }

    fn comment(&mut self, text: &str) {
        let is_doc =
            (text.starts_with("///") && !text.starts_with("////")) || text.starts_with("//!");
        let (kind, text) = match is_doc {
            true => (Kind::Doc, &text[3..]),
            false => (Kind::Comment, text.trim_start_matches('/')),
        };
        let joined = self
            .lines
            .last()
            .is_some_and(|last| last.kind == kind && last.number + 1 == self.number);
        self.lines.push(Line {
            number: self.number,
            kind,
            text: text.trim().to_owned(),
            joined,
        });
    }

    /// One word is a name, a path or a format, and not a message.
    fn string(&mut self, text: &str) {
        let text = text.trim_matches(['#', '"']);
        if text.split_whitespace().count() > 1 {
            self.literal(Kind::Message, text);
        }
    }

    /// The lines of a token that was just taken.
    fn literal(&mut self, kind: Kind, text: &str) {
        let first = self.number - text.matches('\n').count();
        for (index, line) in text.split('\n').enumerate() {
            let text = match kind {
                Kind::Message => as_printed(line),
                _ => line.to_owned(),
            };
            self.lines.push(Line {
                number: first + index,
                kind,
                text,
                joined: index > 0,
            });
        }
    }
}

/// A line of a literal with its escapes as blanks and its placeholders as a word.
fn as_printed(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                chars.next();
                text.push(' ');
            }
            '{' => {
                for inner in chars.by_ref() {
                    if matches!(inner, '}' | '{') {
                        break;
                    }
                }
                text.push_str("code");
            }
            other => text.push(other),
        }
    }
    text
}

fn end_of_block(text: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    let bytes = text.as_bytes();
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"/*" => {
                depth += 1;
                at += 2;
            }
            b"*/" => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    text.len()
}

/// Where a literal that begins with `"` ends.
fn end_of_string(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Where a raw literal ends whose `r` was taken; `None` if none begins here.
fn end_of_raw(text: &str) -> Option<usize> {
    let hashes = text.len() - text.trim_start_matches('#').len();
    text[hashes..].strip_prefix('"')?;
    let closing = format!("\"{}", "#".repeat(hashes));
    let begin = hashes + 1;
    let length = text[begin..].find(&closing)?;
    Some(begin + length + closing.len())
}

/// Where a character literal ends, or the quote of a lifetime.
fn end_of_quote(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), Some((at, escaped))) => {
            let begin = at + escaped.len_utf8();
            text[begin..]
                .find('\'')
                .map_or(text.len(), |end| begin + end + 1)
        }
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(source: &str) -> Vec<(usize, Kind, String, bool)> {
        lines_of(source)
            .into_iter()
            .map(|line| (line.number, line.kind, line.text, line.joined))
            .collect()
    }

    #[test]
    fn comments_are_read_and_lines_that_follow_are_joined() {
        let source = "/// One\n/// two.\nfn f() {} // three\n\n// four\n/* five\nsix */";
        let expected = [
            (1, Kind::Doc, "One", false),
            (2, Kind::Doc, "two.", true),
            (3, Kind::Comment, "three", false),
            (5, Kind::Comment, "four", false),
            (6, Kind::Comment, "/* five", false),
            (7, Kind::Comment, "six */", true),
        ]
        .map(|(line, kind, text, joined)| (line, kind, text.to_owned(), joined));
        assert_eq!(read(source), expected);
    }

    #[test]
    fn messages_are_strings_of_several_words_without_placeholders_and_escapes() {
        let source = "f(\"name\", \"a {x:?} b\\n\\\n   c \\\"d\\\"\");\ng(r#\"raw \"text\" \"#);";
        let expected = [
            (1, Kind::Message, "a code b  ", false),
            (2, Kind::Message, "   c  d ", true),
            (3, Kind::Message, "raw \"text\" ", false),
        ]
        .map(|(line, kind, text, joined)| (line, kind, text.to_owned(), joined));
        assert_eq!(read(source), expected);
    }

    #[test]
    fn quotes_lifetimes_and_raw_names_do_not_begin_a_string() {
        let source = "fn f<'a>(x: &'a str) { g('\"', '\\'', b'\\\"', r#type, \"// no comment\") }";
        let expected = [(1, Kind::Message, "// no comment".to_owned(), false)];
        assert_eq!(read(source), expected);
    }
}
