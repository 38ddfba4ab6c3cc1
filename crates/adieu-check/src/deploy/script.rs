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
    last: Option<LastCommand>,
}

#[derive(Debug)]
struct LastCommand {
    line: u32,
    /// Offset of its first word.
    start: usize,
    text: String,
    /// At the left margin: not inside a condition or a function.
    plain: bool,
}

pub(crate) fn parse(text: &str) -> Script {
    let mut script = Script::default();
    let mut offset = 0;
    let mut continued = false;
    let mut depth = 0usize;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let trimmed = line.trim();
        let first = trimmed.split_whitespace().next().unwrap_or("");
        let was_continued = std::mem::replace(&mut continued, trimmed.ends_with('\\'));
        let is_code = !trimmed.is_empty() && !trimmed.starts_with('#');
        if is_code && !was_continued {
            script.has_trap |= first == "trap";
            script.has_children |= trimmed.ends_with('&') && !trimmed.ends_with("&&");
            match first {
                "if" | "for" | "while" | "until" | "case" | "{" | "(" => depth += 1,
                "fi" | "done" | "esac" | "}" | ")" => depth = depth.saturating_sub(1),
                _ if trimmed.ends_with("() {") || first == "function" => depth += 1,
                _ => {}
            }
            let closes = matches!(first, "fi" | "done" | "esac" | "}" | ")");
            let start = offset + (line.len() - line.trim_start().len());
            script.last = Some(LastCommand {
                line: index as u32 + 1,
                start,
                text: trimmed.to_owned(),
                plain: depth == 0 && !closes,
            });
        }
        offset += line.len();
    }
    script
}

impl Script {
    /// The command it ends in, with the arguments it was given; nothing where that hangs on a
    /// condition.
    pub(crate) fn starts(&self, arguments: &[String]) -> Vec<String> {
        let Some(last) = self.last.as_ref().filter(|last| last.plain) else {
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
    let Some(last) = script
        .last
        .as_ref()
        .filter(|last| last.plain && !script.has_trap)
    else {
        return;
    };
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
    let message = format!(
        "the script stays process 1 above `{}` and keeps the signal: write `exec {}`",
        command::program(first),
        first
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
