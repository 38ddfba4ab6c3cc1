//! Start scripts: the last command must take the shell's place.

use super::Desk;
use super::command;
use crate::fix::Fix;
use crate::rule;

/// A shell script, as far as it starts a service.
#[derive(Debug, Default)]
pub(crate) struct Script {
    has_trap: bool,
    /// Something runs behind it with `&`.
    has_children: bool,
    /// What it ends in: one command, or one for each branch of its last condition.
    ends: Vec<Command>,
}

#[derive(Debug)]
struct Command {
    line: u32,
    /// Offset of its first word.
    start: usize,
    text: String,
}

/// Something with an end of its own that is being read.
#[derive(Debug, Default)]
struct Block {
    /// What takes one of several ways: its ends are those of the ways.
    branches: bool,
    /// Whether one of the ways is taken for sure.
    has_else: bool,
    /// The ends of the ways before this one.
    ends: Vec<Command>,
    /// What came last on this way.
    last: Vec<Command>,
}

impl Block {
    fn next_way(&mut self) {
        self.ends.append(&mut self.last);
    }
}

pub(crate) fn parse(text: &str) -> Script {
    let mut script = Script::default();
    let mut blocks = vec![Block::default()];
    let mut continued = false;
    let mut document: Option<String> = None;
    let mut offset = 0;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let start = offset;
        offset += line.len();
        if let Some(end) = &document {
            if line.trim() == end {
                document = None;
            }
            continue;
        }
        let trimmed = line.trim();
        let was_continued = std::mem::replace(&mut continued, trimmed.ends_with('\\'));
        if trimmed.is_empty() || trimmed.starts_with('#') || was_continued {
            continue;
        }
        document = document_end(trimmed);
        script.has_trap |= trimmed.split_whitespace().next() == Some("trap");
        script.has_children |= trimmed.ends_with('&') && !trimmed.ends_with("&&");
        let line_start = start + (line.len() - line.trim_start().len());
        read_line(&mut blocks, trimmed, line_start, index as u32 + 1);
    }
    // An end that is missing is a script that does not run.
    if let [whole] = &mut *blocks {
        script.ends = std::mem::take(&mut whole.last);
    }
    script
}

/// One line of code, which begins at this offset.
fn read_line(blocks: &mut Vec<Block>, line: &str, start: usize, number: u32) {
    let first = line.split_whitespace().next().unwrap_or("");
    let after = |word: &str| {
        let rest = line[word.len()..].trim_start();
        (rest, start + (line.len() - rest.len()))
    };
    match first.trim_end_matches(';') {
        "if" | "for" | "while" | "until" | "case" | "{" | "(" => {
            let block = Block {
                branches: matches!(first, "if" | "case"),
                // No case may fit, and then nothing is started; but it was meant to be.
                has_else: first == "case",
                ..Block::default()
            };
            if is_closed(first, line) {
                forget(blocks);
            } else {
                blocks.push(block);
            }
        }
        "function" => blocks.push(Block::default()),
        _ if line.ends_with("() {") || line.ends_with("(){") => blocks.push(Block::default()),
        "elif" => with_last(blocks, Block::next_way),
        word @ ("else" | "then" | "do") => {
            if word == "else" {
                with_last(blocks, |block| {
                    block.next_way();
                    block.has_else = true;
                });
            }
            let (rest, start) = after(first);
            if !rest.is_empty() {
                read_line(blocks, rest, start, number);
            }
        }
        "fi" | "done" | "esac" | "}" | ")" => {
            let Some(mut block) = blocks.pop().filter(|_| !blocks.is_empty()) else {
                return;
            };
            block.next_way();
            // A condition without an else is a step on the way, not what the script is there for.
            let ends = if block.branches && block.has_else {
                block.ends
            } else {
                Vec::new()
            };
            with_last(blocks, |outer| outer.last = ends);
        }
        _ => {
            let in_case = blocks.last().is_some_and(|block| block.branches);
            let pattern = line.find(')').filter(|at| {
                in_case && !line[..*at].contains(['(', '$', ' ']) || line.starts_with('(')
            });
            if let Some(at) = pattern {
                let (rest, start) = after(&line[..=at]);
                if !rest.is_empty() {
                    read_line(blocks, rest, start, number);
                }
                return;
            }
            let command = line.trim_end_matches(";;").trim_end();
            with_last(blocks, |block| {
                if !command.is_empty() {
                    block.last = vec![Command {
                        line: number,
                        start,
                        text: command.to_owned(),
                    }];
                }
                if line.ends_with(";;") {
                    block.next_way();
                }
            });
        }
    }
}

fn with_last(blocks: &mut [Block], change: impl FnOnce(&mut Block)) {
    if let Some(block) = blocks.last_mut() {
        change(block);
    }
}

/// What ends in this hangs on something that is not looked into.
fn forget(blocks: &mut [Block]) {
    with_last(blocks, |block| block.last.clear());
}

/// Whether what a line opens is closed at its end.
fn is_closed(opened: &str, line: &str) -> bool {
    let close = match opened {
        "if" => "fi",
        "case" => "esac",
        "{" => "}",
        "(" => ")",
        _ => "done",
    };
    let last = line.split([' ', ';', '\t']).next_back();
    last == Some(close) || close == ")" && line.ends_with(')')
}

/// The line that ends the text which begins behind this one, if any does.
fn document_end(line: &str) -> Option<String> {
    let (_, rest) = line.split_once("<<")?;
    let word = rest.trim_start_matches(['-', ' ']);
    let word = word.trim_start_matches(['"', '\'', '\\']);
    let end = word.find(|c: char| !c.is_alphanumeric() && c != '_');
    let word = &word[..end.unwrap_or(word.len())];
    // A shift of bits is no text to follow.
    let is_word = word.starts_with(|c: char| c.is_alphabetic() || c == '_');
    (!rest.starts_with('<') && is_word).then(|| word.to_owned())
}

impl Script {
    /// Whether one of its ends makes way for the command it was given.
    pub(crate) fn hands_on(&self) -> bool {
        self.ends.iter().any(|end| {
            let words = command::split(&end.text);
            words.first().is_some_and(|first| first == "exec")
                && command::inner(&words)
                    .first()
                    .is_some_and(|first| first == "$@" || first == "$*")
        })
    }

    /// The command it ends in, with the arguments it was given; nothing where that hangs on a
    /// condition.
    pub(crate) fn starts(&self, arguments: &[String]) -> Vec<String> {
        let [last] = &*self.ends else {
            return Vec::new();
        };
        let mut words = Vec::new();
        for word in command::started(&last.text).unwrap_or_default() {
            match word.as_str() {
                "$@" | "$*" => words.extend_from_slice(arguments),
                _ => words.push(word),
            }
        }
        words
    }
}

/// Commands that start no service.
const HARMLESS: &[&str] = &[
    "exec", "exit", "echo", "wait", "true", "set", "export", "cd", "return", "source", ".",
    "printf",
];

pub(crate) fn check(script: &Script, desk: &mut Desk<'_>) {
    if script.has_trap {
        return;
    }
    for end in &script.ends {
        check_end(script, end, desk);
        let started = command::started(&end.text);
        if let Some(wrapper) = started.and_then(|words| command::wrapper(&words)) {
            desk.report_wrapper(end.line, &wrapper);
        }
    }
}

fn check_end(script: &Script, last: &Command, desk: &mut Desk<'_>) {
    let words = command::split(&last.text);
    let Some(first) = words.first() else { return };
    if first == "wait" && script.has_children {
        desk.report(
            last.line,
            rule::SCRIPT_WITHOUT_EXEC,
            "the script is process 1 above its children and keeps the signal from them: `trap` it and pass it on, or \
             give each its own container",
        );
        return;
    }
    let is_assignment = first.contains('=');
    if HARMLESS.contains(&first.as_str()) || is_assignment && words.len() == 1 {
        return;
    }
    // As it is written, with its quotes.
    let written = last.text.split_whitespace().next().unwrap_or(first);
    let message = format!(
        "the script stays process 1 above `{}` and keeps the signal: write `exec {written}`",
        command::program(first),
    );
    desk.report(last.line, rule::SCRIPT_WITHOUT_EXEC, message);
    // One simple command: with `exec` it does the same, in the shell's place.
    let simple = !last.text.contains(['|', '&', ';', '<', '>', '(', '`']) && !is_assignment;
    if simple && let Some(finding) = desk.last_mut() {
        finding.fix = Some(Fix {
            start: last.start,
            end: last.start,
            text: "exec ".to_owned(),
        });
    }
}
