//! Templates of charts, as far as values suffice to render them.

use rustc_hash::FxHashMap;

use super::functions;
use super::lexer::{self, Piece, TemplateToken};
use super::value::ChartValue;

/// Templates that take in templates are followed this far.
const DEEPEST: usize = 24;
/// What one template may be rendered to.
const LONGEST: usize = 2 * 1024 * 1024;
/// How many actions one template may perform.
const MOST_STEPS: usize = 200_000;

/// Why a template cannot be rendered: what it would take.
pub(crate) type Missing = String;

/// A part of a template.
#[derive(Debug, Clone)]
pub(crate) enum Part {
    Text {
        text: String,
        line: u32,
    },
    Show {
        words: Vec<TemplateToken>,
        line: u32,
    },
    Set {
        name: String,
        words: Vec<TemplateToken>,
    },
    If {
        ways: Vec<(Vec<TemplateToken>, Vec<Part>)>,
        otherwise: Vec<Part>,
    },
    With {
        name: Option<String>,
        words: Vec<TemplateToken>,
        parts: Vec<Part>,
        otherwise: Vec<Part>,
    },
    Range {
        names: Vec<String>,
        words: Vec<TemplateToken>,
        parts: Vec<Part>,
        otherwise: Vec<Part>,
    },
}

/// A file of templates, parsed: what it shows, and the templates it defines.
#[derive(Debug, Default)]
pub(crate) struct Template {
    pub(crate) parts: Vec<Part>,
    pub(crate) defines: Vec<(String, Vec<Part>)>,
}

/// Parses a file; nothing where a block is not closed.
pub(crate) fn parse(text: &str) -> Option<Template> {
    let pieces = lexer::pieces(text)?;
    let mut template = Template::default();
    let mut reader = TemplateReader {
        pieces: &pieces,
        at: 0,
        defines: Vec::new(),
        depth: 0,
    };
    let (parts, end) = reader.parts()?;
    if end.is_some() {
        return None;
    }
    template.parts = parts;
    template.defines = reader.defines;
    Some(template)
}

struct TemplateReader<'p> {
    pieces: &'p [Piece],
    at: usize,
    defines: Vec<(String, Vec<Part>)>,
    depth: usize,
}

/// What closes a list of parts: `end`, or `else` with what stands behind it.
type Close = Option<Vec<TemplateToken>>;

impl TemplateReader<'_> {
    fn parts(&mut self) -> Option<(Vec<Part>, Close)> {
        self.depth += 1;
        if self.depth > DEEPEST * 4 {
            return None;
        }
        let mut parts = Vec::new();
        while let Some(piece) = self.pieces.get(self.at) {
            self.at += 1;
            let (words, line) = match piece {
                Piece::Text(text, line) => {
                    parts.push(Part::Text {
                        text: text.clone(),
                        line: *line,
                    });
                    continue;
                }
                Piece::Action(words, line) => (words, *line),
            };
            let Some(first) = words.first() else { continue };
            let rest = words[1..].to_vec();
            match first {
                TemplateToken::Word(word) => match word.as_str() {
                    "end" | "else" => {
                        self.depth -= 1;
                        return Some((parts, Some(words.clone())));
                    }
                    "if" => parts.push(self.condition(rest)?),
                    "with" => {
                        let (name, words) = assigned(rest);
                        let (inner, otherwise) = self.two()?;
                        parts.push(Part::With {
                            name,
                            words,
                            parts: inner,
                            otherwise,
                        });
                    }
                    "range" => {
                        let (names, words) = ranged(rest);
                        let (inner, otherwise) = self.two()?;
                        parts.push(Part::Range {
                            names,
                            words,
                            parts: inner,
                            otherwise,
                        });
                    }
                    "define" | "block" => {
                        let (inner, close) = self.parts()?;
                        is_end(&close).then_some(())?;
                        if let Some(TemplateToken::Text(name)) = rest.first() {
                            self.defines.push((name.clone(), inner));
                        }
                    }
                    "template" => {
                        let mut call = vec![TemplateToken::Word("include".to_owned())];
                        call.extend(rest);
                        parts.push(Part::Show { words: call, line });
                    }
                    "break" | "continue" => return None,
                    _ => parts.push(Part::Show {
                        words: words.clone(),
                        line,
                    }),
                },
                TemplateToken::Variable(name)
                    if matches!(words.get(1), Some(TemplateToken::Assign)) =>
                {
                    parts.push(Part::Set {
                        name: name.clone(),
                        words: words[2..].to_vec(),
                    });
                }
                _ => parts.push(Part::Show {
                    words: words.clone(),
                    line,
                }),
            }
        }
        self.depth -= 1;
        Some((parts, None))
    }

    /// The two sides of `with` and `range`.
    fn two(&mut self) -> Option<(Vec<Part>, Vec<Part>)> {
        let (inner, close) = self.parts()?;
        if is_end(&close) {
            return Some((inner, Vec::new()));
        }
        let (otherwise, close) = self.parts()?;
        is_end(&close).then_some((inner, otherwise))
    }

    fn condition(&mut self, words: Vec<TemplateToken>) -> Option<Part> {
        let mut ways = Vec::new();
        let mut words = words;
        loop {
            let (inner, close) = self.parts()?;
            ways.push((words, inner));
            if is_end(&close) {
                return Some(Part::If {
                    ways,
                    otherwise: Vec::new(),
                });
            }
            let close = close?;
            match close.get(1) {
                Some(TemplateToken::Word(word)) if word == "if" => words = close[2..].to_vec(),
                _ => {
                    let (otherwise, close) = self.parts()?;
                    return is_end(&close).then_some(Part::If { ways, otherwise });
                }
            }
        }
    }
}

fn is_end(close: &Close) -> bool {
    matches!(close.as_deref(), Some([TemplateToken::Word(word), ..]) if word == "end")
}

/// `$x := pipeline`
fn assigned(words: Vec<TemplateToken>) -> (Option<String>, Vec<TemplateToken>) {
    match words.as_slice() {
        [
            TemplateToken::Variable(name),
            TemplateToken::Assign,
            rest @ ..,
        ] => (Some(name.clone()), rest.to_vec()),
        _ => (None, words),
    }
}

/// `$key, $value := pipeline`
fn ranged(words: Vec<TemplateToken>) -> (Vec<String>, Vec<TemplateToken>) {
    match words.as_slice() {
        [
            TemplateToken::Variable(a),
            TemplateToken::Comma,
            TemplateToken::Variable(b),
            TemplateToken::Assign,
            rest @ ..,
        ] => (vec![a.clone(), b.clone()], rest.to_vec()),
        [TemplateToken::Variable(a), TemplateToken::Assign, rest @ ..] => {
            (vec![a.clone()], rest.to_vec())
        }
        _ => (Vec::new(), words),
    }
}

/// What a template is rendered with.
pub(crate) struct Context<'c> {
    pub(crate) root: &'c ChartValue,
    pub(crate) defines: &'c FxHashMap<&'c str, &'c [Part]>,
}

/// A text with the line of the template behind each of its lines.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Rendered {
    pub(crate) text: String,
    pub(crate) lines: Vec<u32>,
    /// Whether the last line holds more than blanks.
    begun: bool,
}

impl Rendered {
    fn push(&mut self, text: &str, mut line: u32, is_source: bool) {
        for char in text.chars() {
            if self.lines.is_empty() {
                self.lines.push(line);
            }
            if !self.begun && !char.is_whitespace() {
                self.begun = true;
                if let Some(last) = self.lines.last_mut() {
                    *last = line;
                }
            }
            self.text.push(char);
            if char == '\n' {
                line += u32::from(is_source);
                self.lines.push(line);
                self.begun = false;
            }
        }
    }
}

/// Renders the parts of a file.
pub(crate) fn render(parts: &[Part], context: &Context<'_>) -> Result<Rendered, Missing> {
    let mut run = Run {
        context,
        variables: Vec::new(),
        depth: 0,
        steps: 0,
    };
    let mut out = Rendered::default();
    run.all(parts, context.root, &mut out)?;
    Ok(out)
}

/// A template that is being rendered.
pub(crate) struct Run<'c> {
    pub(crate) context: &'c Context<'c>,
    variables: Vec<(String, ChartValue)>,
    depth: usize,
    steps: usize,
}

impl Run<'_> {
    fn all(&mut self, parts: &[Part], dot: &ChartValue, out: &mut Rendered) -> Result<(), Missing> {
        let outer = self.variables.len();
        for part in parts {
            self.part(part, dot, out)?;
        }
        self.variables.truncate(outer);
        Ok(())
    }

    fn step(&mut self, out: &Rendered) -> Result<(), Missing> {
        self.steps += 1;
        if self.steps > MOST_STEPS || out.text.len() > LONGEST {
            return Err("more than a template is rendered to".to_owned());
        }
        Ok(())
    }

    fn part(&mut self, part: &Part, dot: &ChartValue, out: &mut Rendered) -> Result<(), Missing> {
        self.step(out)?;
        match part {
            Part::Text { text, line } => out.push(text, *line, true),
            Part::Show { words, line } => {
                let value = self.pipeline(words, dot)?;
                out.push(&value.shown(), *line, false);
            }
            Part::Set { name, words, .. } => {
                let value = self.pipeline(words, dot)?;
                match self
                    .variables
                    .iter_mut()
                    .rev()
                    .find(|(known, _)| known == name)
                {
                    Some((_, held)) => *held = value,
                    None => self.variables.push((name.clone(), value)),
                }
            }
            Part::If {
                ways, otherwise, ..
            } => {
                for (words, parts) in ways {
                    if self.pipeline(words, dot)?.holds() {
                        return self.all(parts, dot, out);
                    }
                }
                self.all(otherwise, dot, out)?;
            }
            Part::With {
                name,
                words,
                parts,
                otherwise,
                ..
            } => {
                let value = self.pipeline(words, dot)?;
                if !value.holds() {
                    return self.all(otherwise, dot, out);
                }
                let outer = self.variables.len();
                self.variables
                    .extend(name.clone().map(|name| (name, value.clone())));
                self.all(parts, &value, out)?;
                self.variables.truncate(outer);
            }
            Part::Range {
                names,
                words,
                parts,
                otherwise,
                ..
            } => {
                let items = items(self.pipeline(words, dot)?);
                if items.is_empty() {
                    return self.all(otherwise, dot, out);
                }
                for (key, value) in items {
                    self.step(out)?;
                    let outer = self.variables.len();
                    match names.as_slice() {
                        [one] => self.variables.push((one.clone(), value.clone())),
                        [first, second] => {
                            self.variables
                                .push((first.clone(), ChartValue::Scalar(key)));
                            self.variables.push((second.clone(), value.clone()));
                        }
                        _ => {}
                    }
                    self.all(parts, &value, out)?;
                    self.variables.truncate(outer);
                }
            }
        }
        Ok(())
    }

    /// The text of a template that is defined somewhere.
    pub(crate) fn include(&mut self, name: &str, dot: &ChartValue) -> Result<String, Missing> {
        let Some(parts) = self.context.defines.get(name).copied() else {
            return Err(format!("the template `{name}`, which is in no file"));
        };
        self.inside(parts, dot)
    }

    /// What a text of the values becomes as a template.
    pub(crate) fn as_template(&mut self, text: &str, dot: &ChartValue) -> Result<String, Missing> {
        let template = parse(text).ok_or("a template in the values that can be read")?;
        self.inside(&template.parts, dot)
    }

    fn inside(&mut self, parts: &[Part], dot: &ChartValue) -> Result<String, Missing> {
        if self.depth >= DEEPEST {
            return Err("templates that end".to_owned());
        }
        self.depth += 1;
        let variables = std::mem::take(&mut self.variables);
        let mut out = Rendered::default();
        let result = self.all(parts, dot, &mut out);
        self.variables = variables;
        self.depth -= 1;
        result.map(|()| out.text)
    }

    /// `a | b | c "x"`
    fn pipeline(
        &mut self,
        words: &[TemplateToken],
        dot: &ChartValue,
    ) -> Result<ChartValue, Missing> {
        let mut piped: Option<ChartValue> = None;
        for command in split(words) {
            piped = Some(self.command(command, piped, dot)?);
        }
        Ok(piped.unwrap_or_default())
    }

    fn command(
        &mut self,
        words: &[TemplateToken],
        piped: Option<ChartValue>,
        dot: &ChartValue,
    ) -> Result<ChartValue, Missing> {
        if let Some(TemplateToken::Word(name)) = words.first()
            && !matches!(name.as_str(), "true" | "false" | "nil")
        {
            let mut arguments = self.operands(&words[1..], dot)?;
            arguments.extend(piped);
            return functions::call(self, name, arguments, dot);
        }
        if let Some(TemplateToken::Path(path)) = words.first()
            && words.len() > 1
        {
            // A method: `.Capabilities.APIVersions.Has "x"`, `.Files.Get "x"`.
            return functions::method(path);
        }
        let operands = self.operands(words, dot)?;
        Ok(operands.into_iter().next().unwrap_or_default())
    }

    /// Values one beside the other.
    fn operands(
        &mut self,
        words: &[TemplateToken],
        dot: &ChartValue,
    ) -> Result<Vec<ChartValue>, Missing> {
        let mut values = Vec::new();
        let mut at = 0;
        while let Some(word) = words.get(at) {
            at += 1;
            let value = match word {
                TemplateToken::Text(text) => ChartValue::Scalar(text.clone()),
                TemplateToken::Path(path) => walk(dot, path),
                TemplateToken::Variable(path) => {
                    let (name, rest) = path.split_once('.').unwrap_or((path, ""));
                    let held = match name {
                        "" => Some(self.context.root),
                        name => self
                            .variables
                            .iter()
                            .rev()
                            .find(|(known, _)| known == name)
                            .map(|(_, value)| value),
                    };
                    walk(held.unwrap_or(&ChartValue::Null), rest)
                }
                TemplateToken::Word(word) => match word.as_str() {
                    "nil" => ChartValue::Null,
                    "true" | "false" => ChartValue::Scalar(word.clone()),
                    word if word.starts_with(|c: char| c.is_ascii_digit() || c == '-') => {
                        ChartValue::Scalar(word.to_owned())
                    }
                    // A function without arguments.
                    name => functions::call(self, name, Vec::new(), dot)?,
                },
                TemplateToken::Open => {
                    let end = closing(words, at).ok_or("brackets that close")?;
                    let value = self.pipeline(&words[at..end], dot)?;
                    at = end + 1;
                    match words.get(at) {
                        // `(index .x 0).name`
                        Some(TemplateToken::Path(path)) if path.starts_with('+') => {
                            at += 1;
                            walk(&value, &path[1..])
                        }
                        _ => value,
                    }
                }
                TemplateToken::Close
                | TemplateToken::Pipe
                | TemplateToken::Comma
                | TemplateToken::Assign => {
                    return Err("another grammar".to_owned());
                }
            };
            values.push(value);
        }
        Ok(values)
    }
}

fn items(value: ChartValue) -> Vec<(String, ChartValue)> {
    match value {
        ChartValue::List(items) => items
            .into_iter()
            .enumerate()
            .map(|(at, item)| (at.to_string(), item))
            .collect(),
        ChartValue::Map(entries) => {
            let mut entries = entries;
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            entries
        }
        ChartValue::Null | ChartValue::Scalar(_) => Vec::new(),
    }
}

/// The value at the end of `a.b.c`.
fn walk(value: &ChartValue, path: &str) -> ChartValue {
    let mut keys = path.split('.').filter(|key| !key.is_empty());
    keys.try_fold(value, |value, key| value.get(key))
        .cloned()
        .unwrap_or_default()
}

/// The commands of a pipeline, by the bars outside of brackets.
fn split(words: &[TemplateToken]) -> Vec<&[TemplateToken]> {
    let mut commands = Vec::new();
    let (mut start, mut open) = (0, 0_usize);
    for (at, word) in words.iter().enumerate() {
        match word {
            TemplateToken::Open => open += 1,
            TemplateToken::Close => open = open.saturating_sub(1),
            TemplateToken::Pipe if open == 0 => {
                commands.push(&words[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    commands.push(&words[start..]);
    commands
}

/// Where the bracket closes that was opened before `from`.
fn closing(words: &[TemplateToken], from: usize) -> Option<usize> {
    let mut open = 1;
    for (at, word) in words.iter().enumerate().skip(from) {
        match word {
            TemplateToken::Open => open += 1,
            TemplateToken::Close => {
                open -= 1;
                if open == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}
