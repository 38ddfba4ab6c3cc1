//! The shell's own words, and the lines of a script as the shell joins them.

/// Words of the grammar; a program does not follow them.
const KEYWORDS: &[&str] = &[
    "if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac",
    "in", "select", "function", "time", "coproc", "{", "}", "!", "[[", "]]", "((", "))",
];

/// Commands of the shell itself that may run a program in turn.
const RUNNERS: &[&str] = &["eval", "command", "builtin"];

/// Commands that start no service.
const HARMLESS: &[&str] = &[
    "exec",
    "exit",
    "echo",
    "wait",
    "true",
    "set",
    "export",
    "cd",
    "return",
    "source",
    ".",
    "printf",
    ":",
    "[",
    "[[",
    "alias",
    "bg",
    "break",
    "continue",
    "declare",
    "dirs",
    "disown",
    "enable",
    "false",
    "fg",
    "getopts",
    "hash",
    "history",
    "jobs",
    "kill",
    "let",
    "local",
    "mapfile",
    "popd",
    "pushd",
    "pwd",
    "read",
    "readarray",
    "readonly",
    "shift",
    "shopt",
    "test",
    "times",
    "trap",
    "type",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unset",
];

/// Whether a command starts no service.
pub(crate) fn is_harmless(word: &str) -> bool {
    HARMLESS.contains(&word)
}

/// Whether the shell itself runs this word: no file has that name, or the file does something else.
pub(crate) fn is_own_word(word: &str) -> bool {
    KEYWORDS.contains(&word) || RUNNERS.contains(&word) || HARMLESS.contains(&word)
}

/// A line as the shell reads it: continued lines and quoted line ends are part of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// From one.
    pub(crate) number: u32,
    /// Offset of its first word.
    pub(crate) start: usize,
    pub(crate) text: String,
}

/// The lines of a script that hold code, without the texts that some of them are given; nothing
/// for a script whose last quote is not closed.
pub(crate) fn lines(text: &str) -> Option<Vec<Line>> {
    let mut lines: Vec<Line> = Vec::new();
    let mut current: Option<Line> = None;
    let mut document: Option<String> = None;
    let mut offset = 0;
    for (index, raw) in text.split_inclusive('\n').enumerate() {
        let start = offset;
        offset += raw.len();
        if let Some(end) = &document {
            if raw.trim() == end {
                document = None;
            }
            continue;
        }
        let mut line = match current.take() {
            Some(mut line) => {
                line.text.push_str(raw.trim_end());
                line
            }
            None => {
                let trimmed = raw.trim();
                if trimmed.is_empty() || trimmed.starts_with('#') {
                    continue;
                }
                Line {
                    number: index as u32 + 1,
                    start: start + (raw.len() - raw.trim_start().len()),
                    text: trimmed.to_owned(),
                }
            }
        };
        match end_of(&line.text) {
            End::Whole => {
                document = document_end(&line.text);
                lines.push(line);
            }
            End::Continued => {
                line.text.pop();
                current = Some(line);
            }
            End::Quoted => {
                line.text.push('\n');
                current = Some(line);
            }
        }
    }
    match current {
        None => Some(lines),
        // A backslash at the very end continues nothing.
        Some(line) if !line.text.ends_with('\n') => {
            lines.push(line);
            Some(lines)
        }
        Some(_) => None,
    }
}

enum End {
    Whole,
    /// A backslash.
    Continued,
    /// Inside quotes.
    Quoted,
}

fn end_of(text: &str) -> End {
    let mut quote = None;
    let mut at_word = true;
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match (quote, char) {
            (None, '#') if at_word => return End::Whole,
            (None | Some('"'), '\\') => match chars.next() {
                Some(_) => {}
                None => return End::Continued,
            },
            (None, '"' | '\'') => quote = Some(char),
            (Some(open), char) if open == char => quote = None,
            _ => {}
        }
        at_word = quote.is_none() && (char.is_whitespace() || ";&|(".contains(char));
    }
    match quote {
        Some(_) => End::Quoted,
        None => End::Whole,
    }
}

/// The line that ends the text which begins behind this one, if any does.
fn document_end(line: &str) -> Option<String> {
    let (_, rest) = line.split_once("<<")?;
    let word = rest.trim_start_matches(['-', ' ']);
    let word = word.trim_start_matches(['"', '\'', '\\']);
    let end = word.find(|c: char| !c.is_alphanumeric() && c != '_');
    let word = &word[..end.unwrap_or(word.len())];
    // A shift of bits does not begin a here-document.
    let is_word = word.starts_with(|c: char| c.is_alphabetic() || c == '_');
    (!rest.starts_with('<') && is_word).then(|| word.to_owned())
}

/// The name of the function that a line begins to define, and what stands behind its head.
pub(crate) fn function(line: &str) -> Option<(&str, &str)> {
    let keyword = line
        .strip_prefix("function")
        .filter(|rest| rest.starts_with(char::is_whitespace));
    let (name, rest) = match keyword {
        Some(rest) => {
            let rest = rest.trim_start();
            let end = rest.find(|c: char| c.is_whitespace() || c == '(');
            let (name, rest) = rest.split_at(end.unwrap_or(rest.len()));
            let rest = rest.trim_start();
            (name, rest.strip_prefix("()").unwrap_or(rest))
        }
        None => {
            let (name, rest) = line.split_once('(')?;
            (name.trim_end(), rest.trim_start().strip_prefix(')')?)
        }
    };
    let plain = |c: char| c.is_alphanumeric() || "_-.:+@".contains(c);
    (!name.is_empty() && name.chars().all(plain)).then_some((name, rest.trim()))
}

#[cfg(test)]
mod tests {
    use super::{function, lines};

    fn texts(text: &str) -> Vec<String> {
        let lines = lines(text).expect("closed quotes");
        lines.into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn lines_are_joined_as_the_shell_does() {
        assert_eq!(texts("a \\\n  && b\nc\n"), ["a   && b", "c"]);
        assert_eq!(texts("a 'x\ny' b\nc\n"), ["a 'x\ny' b", "c"]);
        assert_eq!(texts("# don't\na # it's\nb\n"), ["a # it's", "b"]);
        assert_eq!(texts("# no \\\na\n"), ["a"]);
        assert_eq!(texts("cat <<END\nit's\nEND\na\n"), ["cat <<END", "a"]);
        assert_eq!(texts("a ${#x} $# it\\'s\nb\n"), ["a ${#x} $# it\\'s", "b"]);
        assert_eq!(lines("a 'x\n"), None);
    }

    #[test]
    fn heads_of_functions_are_known() {
        assert_eq!(function("server() {"), Some(("server", "{")));
        assert_eq!(function("server ()"), Some(("server", "")));
        assert_eq!(function("function server {"), Some(("server", "{")));
        assert_eq!(function("function run-it() ("), Some(("run-it", "(")));
        assert_eq!(function("a() { b; }"), Some(("a", "{ b; }")));
        assert_eq!(function("echo \"()\""), None);
        assert_eq!(function("x=()"), None);
        assert_eq!(function("python app.py"), None);
    }
}
