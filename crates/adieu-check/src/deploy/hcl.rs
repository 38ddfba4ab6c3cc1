//! A small reader of HCL: blocks, and attributes that are text, numbers or lists of these.
//!
//! What is more than that (`${…}`, functions, conditions) is there without a value. A text with more levels than any file
//! has is cut off.

/// Deeper jobs do not exist.
const DEEPEST: usize = 40;

/// A block: `task "web" { … }`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct HclBlock {
    pub(crate) kind: String,
    pub(crate) label: Option<String>,
    pub(crate) line: u32,
    pub(crate) attributes: Vec<HclAttribute>,
    pub(crate) blocks: Vec<HclBlock>,
}

/// `name = value`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HclAttribute {
    pub(crate) name: String,
    pub(crate) line: u32,
    pub(crate) value: HclValue,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum HclValue {
    Text(String),
    List(Vec<String>),
    Map(Vec<HclAttribute>),
    /// Something that only its tool can compute.
    Unclear,
}

impl HclBlock {
    pub(crate) fn get(&self, name: &str) -> Option<&HclAttribute> {
        self.attributes.iter().find(|it| it.name == name)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        match &self.get(name)?.value {
            HclValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The blocks of a kind, at any depth.
    pub(crate) fn all<'b>(&'b self, kind: &str, into: &mut Vec<&'b HclBlock>) {
        for block in &self.blocks {
            if block.kind == kind {
                into.push(block);
            }
            block.all(kind, into);
        }
    }

    pub(crate) fn block(&self, kind: &str) -> Option<&HclBlock> {
        self.blocks.iter().find(|it| it.kind == kind)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum HclToken {
    Word(String),
    Text(String),
    Mark(char),
    Unclear,
    End,
}

/// The file as one block; nothing for a text that is cut off in the middle of one.
pub(crate) fn parse(text: &str) -> Option<HclBlock> {
    let tokens = tokens(text);
    let mut reader = HclReader {
        tokens: &tokens,
        at: 0,
    };
    let mut file = HclBlock {
        line: 1,
        ..HclBlock::default()
    };
    reader.body(&mut file, 0)?;
    (reader.at >= tokens.len()).then_some(file)
}

struct HclReader<'t> {
    tokens: &'t [(HclToken, u32)],
    at: usize,
}

impl HclReader<'_> {
    fn peek(&self) -> Option<&HclToken> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    fn is(&self, mark: char) -> bool {
        self.peek() == Some(&HclToken::Mark(mark))
    }

    fn line(&self) -> u32 {
        self.tokens.get(self.at).map_or(1, |(_, line)| *line)
    }

    fn skip_ends(&mut self) {
        while matches!(self.peek(), Some(HclToken::End)) || self.is(',') {
            self.at += 1;
        }
    }

    fn body(&mut self, block: &mut HclBlock, depth: usize) -> Option<()> {
        loop {
            self.skip_ends();
            let line = self.line();
            let name = match self.peek() {
                None => return (depth == 0).then_some(()),
                Some(HclToken::Mark('}')) if depth > 0 => {
                    self.at += 1;
                    return Some(());
                }
                Some(HclToken::Word(name) | HclToken::Text(name)) => name.clone(),
                Some(_) => {
                    self.at += 1;
                    continue;
                }
            };
            self.at += 1;
            if self.is('=') || self.is(':') {
                self.at += 1;
                let value = self.value(depth)?;
                block.attributes.push(HclAttribute { name, line, value });
                continue;
            }
            let mut inner = HclBlock {
                kind: name,
                line,
                ..HclBlock::default()
            };
            while let Some(HclToken::Text(label) | HclToken::Word(label)) = self.peek() {
                inner.label.get_or_insert_with(|| label.clone());
                self.at += 1;
            }
            if self.is('{') && depth < DEEPEST {
                self.at += 1;
                self.body(&mut inner, depth + 1)?;
                block.blocks.push(inner);
            } else if self.is('{') {
                return None;
            }
        }
    }

    fn value(&mut self, depth: usize) -> Option<HclValue> {
        let value = match self.peek()? {
            HclToken::Text(text) | HclToken::Word(text) => HclValue::Text(text.clone()),
            HclToken::Mark('[') => {
                self.at += 1;
                return Some(self.list());
            }
            HclToken::Mark('{') if depth < DEEPEST => {
                self.at += 1;
                let mut map = HclBlock::default();
                self.body(&mut map, depth + 1)?;
                return Some(HclValue::Map(map.attributes));
            }
            _ => HclValue::Unclear,
        };
        self.at += 1;
        // `a == b ? c : d`, `f(x)`: more than one token is an expression.
        let is_whole = matches!(
            self.peek(),
            None | Some(HclToken::End | HclToken::Mark('}' | ','))
        );
        while !matches!(
            self.peek(),
            None | Some(HclToken::End | HclToken::Mark('}' | ','))
        ) {
            self.at += 1;
        }
        Some(if is_whole { value } else { HclValue::Unclear })
    }

    fn list(&mut self) -> HclValue {
        let mut items = Vec::new();
        let mut is_plain = true;
        let mut open = 1;
        while let Some(token) = self.peek().cloned() {
            self.at += 1;
            match token {
                HclToken::Text(text) | HclToken::Word(text) => items.push(text),
                HclToken::Mark('[' | '{' | '(') => {
                    open += 1;
                    is_plain = false;
                }
                HclToken::Mark(']' | '}' | ')') => {
                    open -= 1;
                    if open == 0 {
                        break;
                    }
                }
                HclToken::Mark(',') | HclToken::End => {}
                HclToken::Mark(_) | HclToken::Unclear => is_plain = false,
            }
        }
        if is_plain {
            HclValue::List(items)
        } else {
            HclValue::Unclear
        }
    }
}

fn tokens(text: &str) -> Vec<(HclToken, u32)> {
    let mut tokens = Vec::new();
    let mut line = 1;
    let mut document: Option<String> = None;
    for raw in text.lines() {
        if let Some(end) = &document {
            if raw.trim() == end {
                document = None;
            }
            line += 1;
            continue;
        }
        document = line_of(raw, line, &mut tokens);
        tokens.push((HclToken::End, line));
        line += 1;
    }
    while matches!(tokens.last(), Some((HclToken::End, _))) {
        tokens.pop();
    }
    comments_out(tokens)
}

/// The tokens of a line, and the word that ends the text which begins behind it, if one does.
fn line_of(raw: &str, line: u32, tokens: &mut Vec<(HclToken, u32)>) -> Option<String> {
    let mut chars = raw.char_indices().peekable();
    while let Some((at, char)) = chars.next() {
        match char {
            '#' => return None,
            '/' if raw[at..].starts_with("//") => return None,
            '/' if raw[at..].starts_with("/*") => {
                chars.next();
                tokens.push((HclToken::Mark('/'), line));
            }
            '*' if raw[at..].starts_with("*/") => {
                chars.next();
                tokens.push((HclToken::Mark('*'), line));
            }
            '<' if raw[at..].starts_with("<<") => {
                let end = raw[at + 2..].trim_start_matches('-').trim().to_owned();
                tokens.push((HclToken::Unclear, line));
                return Some(end);
            }
            '"' => {
                let mut text = String::new();
                let mut is_computed = false;
                while let Some((_, char)) = chars.next() {
                    match char {
                        '"' => break,
                        '\\' => text.extend(chars.next().map(|(_, char)| char)),
                        char => {
                            is_computed |= char == '{' && text.ends_with('$');
                            text.push(char);
                        }
                    }
                }
                let token = if is_computed {
                    HclToken::Unclear
                } else {
                    HclToken::Text(text)
                };
                tokens.push((token, line));
            }
            char if char.is_alphanumeric() || char == '_' => {
                let mut word = String::from(char);
                while let Some((_, char)) =
                    chars.next_if(|(_, c)| c.is_alphanumeric() || "_-.".contains(*c))
                {
                    word.push(char);
                }
                tokens.push((HclToken::Word(word), line));
            }
            char if char.is_whitespace() => {}
            char => tokens.push((HclToken::Mark(char), line)),
        }
    }
    None
}

/// Takes out what stands between `/*` and `*/`.
fn comments_out(tokens: Vec<(HclToken, u32)>) -> Vec<(HclToken, u32)> {
    let mut inside = false;
    tokens
        .into_iter()
        .filter(|(token, _)| {
            match token {
                HclToken::Mark('/') => inside = true,
                HclToken::Mark('*') if inside => {
                    inside = false;
                    return false;
                }
                _ => {}
            }
            !inside
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{HclValue, parse};

    #[test]
    fn blocks_labels_and_values_are_read() {
        let file = parse(
            "# a job\njob \"shop\" {\n  task \"web\" {\n    config {\n      image = \"shop:1\" // now\n      args  = [\n        \"a\",\n        \"b\",\n      ]\n    }\n    kill_timeout = \"30s\"\n    n = 5\n    x = \"${var.a}\"\n    data = <<EOF\n  } not a brace\nEOF\n  }\n}\n",
        )
        .expect("a job");
        let mut tasks = Vec::new();
        file.all("task", &mut tasks);
        assert_eq!(tasks.len(), 1);
        let task = tasks[0];
        assert_eq!((task.label.as_deref(), task.line), (Some("web"), 3));
        assert_eq!(task.text("kill_timeout"), Some("30s"));
        assert_eq!(task.get("kill_timeout").map(|it| it.line), Some(11));
        assert_eq!(task.text("n"), Some("5"));
        assert_eq!(task.get("x").map(|it| &it.value), Some(&HclValue::Unclear));
        let config = task.block("config").expect("a config");
        assert_eq!(
            config.get("args").map(|it| &it.value),
            Some(&HclValue::List(vec!["a".into(), "b".into()]))
        );
    }

    #[test]
    fn what_is_cut_off_or_too_deep_is_nothing() {
        assert_eq!(parse("job \"x\" {\n task \"a\" {\n"), None);
        assert_eq!(parse(&"a {\n".repeat(100_000)), None);
    }
}
