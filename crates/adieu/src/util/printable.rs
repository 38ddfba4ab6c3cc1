//! Text that others wrote, made fit for a line of a log, a report or a terminal: bounded, and harmless to
//! the terminal that shows it.
//!
//! A path, an error or a name may hold what controls a terminal, turns the direction of writing around, or begins a new
//! line of a log. Such characters are spelled out.

use std::borrow::Cow;

/// The most characters of a name: of a task, of a request.
const NAME: usize = 200;
/// The most characters of a text: of an error, of a reason to stop.
const TEXT: usize = 2_000;

/// Whether a character does something else than to show itself.
pub(crate) fn is_hidden(found: char) -> bool {
    found.is_control()
        || matches!(
            found,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}'
        )
}

/// The text on one line.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    if text.contains(is_hidden) {
        spelled(text.chars(), usize::MAX, None).into()
    } else {
        text.into()
    }
}

/// The text on lines of its own: what follows a new line is indented, so that it is taken for no line of a log.
pub(crate) fn paragraph(text: &str) -> Cow<'_, str> {
    if text.contains(is_hidden) {
        spelled(text.chars(), usize::MAX, Some("\n        ")).into()
    } else {
        text.into()
    }
}

/// A name on one line, cut to a length that a thousand of them may have.
pub(crate) fn name(text: &str) -> String {
    name_of(text.chars())
}

pub(crate) fn name_of(text: impl Iterator<Item = char>) -> String {
    spelled(text, NAME, None)
}

/// A text, cut to a length that a report can bear.
pub(crate) fn bounded(text: String) -> String {
    match text.char_indices().nth(TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn spelled(text: impl Iterator<Item = char>, most: usize, line: Option<&str>) -> String {
    let mut spelled = String::new();
    let mut length = 0;
    for found in text {
        if length >= most {
            spelled.push('…');
            break;
        }
        match (found, line) {
            ('\n', Some(line)) => spelled.push_str(line),
            ('\t', _) if line.is_some() => spelled.push(found),
            _ if is_hidden(found) => {
                let escaped = found.escape_default();
                length += escaped.len() - 1;
                spelled.extend(escaped);
            }
            _ => spelled.push(found),
        }
        length += 1;
    }
    spelled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_controls_a_terminal_or_begins_a_line_is_spelled_out() {
        let text = "a\u{9b}31m\u{1b}[2J\u{202e}b\nWARN c\u{2028}\u{7f}é";
        let shown = "a\\u{9b}31m\\u{1b}[2J\\u{202e}b\\nWARN c\\u{2028}\\u{7f}é";
        assert_eq!(one_line(text), shown);
        assert_eq!(name(text), shown);
        assert_eq!(paragraph("a\nb\tc\u{1b}"), "a\n        b\tc\\u{1b}");
        assert!(matches!(one_line("plain"), Cow::Borrowed("plain")));
    }

    #[test]
    fn names_and_texts_are_cut() {
        let long = "ä".repeat(65_536);
        assert_eq!(name(&long), format!("{}…", "ä".repeat(200)));
        assert!(name(&"\u{9b}".repeat(65_536)).chars().count() <= 207);
        assert_eq!(bounded(long.clone()), format!("{}…", "ä".repeat(2_000)));
        let fits = "ä".repeat(200);
        assert_eq!(name(&fits), fits);
    }
}
