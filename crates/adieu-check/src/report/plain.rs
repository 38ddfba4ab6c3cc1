//! Text from a repository, made safe for a terminal and for the log of a CI job.

use std::borrow::Cow;
use std::fmt::Write;

/// Writes what could move the cursor, turn the reading direction, start a new line or be taken for
/// a command by the runner of a workflow as `\u{..}`. Other text is left as it is.
#[must_use]
pub fn plain(text: &str) -> Cow<'_, str> {
    let starts_command = text.trim_start().starts_with("::");
    if !starts_command && !text.contains(is_unsafe) && !text.contains("##") {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    if starts_command {
        // The runner takes a line that begins with `::` for a command, blanks or not.
        out.push_str("./");
    }
    let mut rest = text;
    while let Some(char) = rest.chars().next() {
        let after = &rest[char.len_utf8()..];
        match char {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // `##[group]` and `##vso[…]` are commands wherever they stand.
            '#' if after.starts_with("#[") || after.starts_with("#vso[") => out.push_str("\\u{23}"),
            char if is_unsafe(char) => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(char));
            }
            char => out.push(char),
        }
        rest = after;
    }
    Cow::Owned(out)
}

/// Controls (C0, DEL, C1), separators of lines, and what sets the reading direction.
fn is_unsafe(char: char) -> bool {
    char.is_control()
        || matches!(char, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn plain_text_is_left_as_it_is() {
        for text in ["app/web.py", "привет # x", "a::b", "C:\\x", "## title"] {
            assert_eq!(plain(text), text);
        }
    }

    #[test]
    fn what_a_terminal_or_a_runner_acts_on_is_spelled_out() {
        for (text, shown) in [
            ("a\u{1b}[2J.py", "a\\u{1b}[2J.py"),
            ("a\u{7f}\u{9b}.py", "a\\u{7f}\\u{9b}.py"),
            ("\u{202e}yp.\u{2066}", "\\u{202e}yp.\\u{2066}"),
            ("x\n::notice::y\r\t", "x\\n::notice::y\\r\\t"),
            ("::notice::y.py", "./::notice::y.py"),
            (" ::notice::y.py", "./ ::notice::y.py"),
            ("x ##[group]", "x \\u{23}#[group]"),
            ("##vso[task]", "\\u{23}#vso[task]"),
        ] {
            assert_eq!(plain(text), shown);
        }
    }
}
