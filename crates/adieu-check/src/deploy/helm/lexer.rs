//! The pieces of a template: texts and actions, with blanks trimmed as the dashes say.

/// A text, or what stands between the braces.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Text(String, u32),
    Action(Vec<TemplateToken>, u32),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TemplateToken {
    /// A name, or a number.
    Word(String),
    Text(String),
    /// `.a.b` without its first dot; `+.a` behind a bracket.
    Path(String),
    /// `$a.b` without its mark.
    Variable(String),
    Open,
    Close,
    Pipe,
    Comma,
    /// `:=` and `=`.
    Assign,
}

/// The pieces in order; nothing where an action is not closed.
pub(crate) fn pieces(text: &str) -> Option<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    let mut line = 1;
    let mut trims = false;
    loop {
        let (before, action) = match rest.split_once("{{") {
            Some((before, behind)) => (before, Some(behind)),
            None => (rest, None),
        };
        let lead = if trims {
            before.len() - before.trim_start().len()
        } else {
            0
        };
        let start = line + newlines(&before[..lead]);
        let trims_end = action.is_some_and(|it| {
            it.starts_with("- ") || it.starts_with("-\n") || it.starts_with("-/*")
        });
        let shown = &before[lead..];
        let shown = if trims_end { shown.trim_end() } else { shown };
        if !shown.is_empty() {
            pieces.push(Piece::Text(shown.to_owned(), start));
        }
        line += newlines(before);
        let Some(behind) = action else {
            return Some(pieces);
        };
        let end = end_of(behind)?;
        let whole = &behind[..end];
        let inner = whole
            .strip_prefix('-')
            .filter(|_| trims_end)
            .unwrap_or(whole);
        trims = inner.ends_with(" -") || inner.ends_with("\n-") || inner.ends_with("*/-");
        let inner = if trims {
            &inner[..inner.len() - 1]
        } else {
            inner
        };
        if !inner.trim_start().starts_with("/*") {
            pieces.push(Piece::Action(tokens(inner)?, line));
        }
        line += newlines(whole);
        rest = &behind[end + 2..];
    }
}

fn newlines(text: &str) -> u32 {
    text.matches('\n').count() as u32
}

/// Where `}}` closes, outside of quotes and comments.
fn end_of(text: &str) -> Option<usize> {
    if text.trim_start_matches('-').trim_start().starts_with("/*") {
        let comment = text.find("*/")? + 2;
        return text[comment..].find("}}").map(|at| comment + at);
    }
    let mut quote = None;
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match (quote, char) {
            (Some('"'), '\\') => {
                chars.next();
            }
            (Some(open), char) if open == char => quote = None,
            (None, '"' | '`') => quote = Some(char),
            (None, '}') if text[at..].starts_with("}}") => return Some(at),
            _ => {}
        }
    }
    None
}

fn tokens(text: &str) -> Option<Vec<TemplateToken>> {
    let mut tokens = Vec::new();
    let mut chars = text.char_indices().peekable();
    while let Some((at, char)) = chars.next() {
        let token = match char {
            char if char.is_whitespace() => continue,
            '(' => TemplateToken::Open,
            ')' => TemplateToken::Close,
            '|' => TemplateToken::Pipe,
            ',' => TemplateToken::Comma,
            '=' => TemplateToken::Assign,
            ':' if text[at..].starts_with(":=") => {
                chars.next();
                TemplateToken::Assign
            }
            '"' => {
                let mut value = String::new();
                loop {
                    match chars.next()?.1 {
                        '"' => break,
                        '\\' => match chars.next()?.1 {
                            'n' => value.push('\n'),
                            't' => value.push('\t'),
                            other => value.push(other),
                        },
                        char => value.push(char),
                    }
                }
                TemplateToken::Text(value)
            }
            '`' => {
                let mut value = String::new();
                loop {
                    match chars.next()?.1 {
                        '`' => break,
                        char => value.push(char),
                    }
                }
                TemplateToken::Text(value)
            }
            char => {
                let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
                let mut word = String::from(char);
                while let Some((_, next)) = chars.next_if(|(_, c)| is_name(*c)) {
                    word.push(next);
                }
                match char {
                    '.' => {
                        let path = word.trim_start_matches('.');
                        match tokens.last() {
                            // Right behind the bracket, without a blank.
                            Some(TemplateToken::Close) if text[..at].ends_with(')') => {
                                TemplateToken::Path(format!("+.{path}"))
                            }
                            _ => TemplateToken::Path(path.to_owned()),
                        }
                    }
                    '$' => TemplateToken::Variable(word[1..].to_owned()),
                    '-' | '_' => TemplateToken::Word(word),
                    char if char.is_alphanumeric() => TemplateToken::Word(word),
                    _ => return None,
                }
            }
        };
        tokens.push(token);
    }
    Some(tokens)
}

#[cfg(test)]
mod tests {
    use super::{Piece, TemplateToken, pieces};

    #[test]
    fn dashes_trim_and_lines_are_counted() {
        let pieces = pieces("a:\n  {{- if .Values.x }}\n  b: 1\n{{- end }}\n").expect("closed");
        let word = |word: &str| TemplateToken::Word(word.to_owned());
        assert_eq!(
            pieces,
            [
                Piece::Text("a:".to_owned(), 1),
                Piece::Action(
                    vec![word("if"), TemplateToken::Path("Values.x".to_owned())],
                    2
                ),
                Piece::Text("\n  b: 1".to_owned(), 2),
                Piece::Action(vec![word("end")], 4),
                Piece::Text("\n".to_owned(), 4),
            ]
        );
    }

    #[test]
    fn what_does_not_close_is_nothing() {
        assert_eq!(pieces("a {{ .Values.x"), None);
        assert_eq!(pieces("a {{ \"x }}"), None);
    }
}
