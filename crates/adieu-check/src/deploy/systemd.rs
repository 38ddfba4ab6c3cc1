//! systemd service units.

use super::Desk;
use super::command;
use crate::rule;

/// Shorter than this nothing drains.
const SHORTEST: u64 = 5;

/// The `[Service]` section.
#[derive(Debug, Default)]
pub(crate) struct UnitFile {
    entries: Vec<(u32, String, String)>,
}

pub(crate) fn parse(text: &str) -> UnitFile {
    let mut unit = UnitFile::default();
    let mut in_service = false;
    let mut joined = String::new();
    let mut first = 0;
    for (index, line) in text.lines().enumerate() {
        let trimmed = line.trim();
        if joined.is_empty() {
            first = index as u32 + 1;
        }
        if trimmed.starts_with(['#', ';']) {
            continue;
        }
        if let Some(part) = trimmed.strip_suffix('\\') {
            joined.push_str(part);
            joined.push(' ');
            continue;
        }
        joined.push_str(trimmed);
        let whole = std::mem::take(&mut joined);
        if whole.starts_with('[') {
            in_service = whole == "[Service]";
        } else if in_service && let Some((key, value)) = whole.split_once('=') {
            unit.entries
                .push((first, key.trim().to_owned(), value.trim().to_owned()));
        }
    }
    unit
}

impl UnitFile {
    /// The value that counts: the last one.
    fn last(&self, key: &str) -> Option<(u32, &str)> {
        self.entries
            .iter()
            .rev()
            .find(|(_, name, _)| name == key)
            .map(|(line, _, value)| (*line, value.as_str()))
    }
}

pub(crate) fn check(unit: &UnitFile, desk: &mut Desk<'_>) {
    let start = unit
        .last("ExecStart")
        .map(|(_, value)| value.trim_start_matches(['-', '@', ':', '+', '!']))
        .unwrap_or("");
    let words = command::split(start);
    if let Some((line, mode)) = unit.last("KillMode") {
        let message = match mode {
            "none" => Some(
                "`KillMode=none` stops nothing: every process lives on; use `mixed` or `control-group`",
            ),
            "process" => Some(
                "`KillMode=process` leaves the children behind; use `mixed` or `control-group`",
            ),
            _ => None,
        };
        if let Some(message) = message {
            desk.report(line, rule::KILL_MODE, message);
        }
    }
    let environment = unit
        .entries
        .iter()
        .filter(|(_, key, _)| key == "Environment")
        .find_map(|(_, _, value)| {
            let value = value.trim_matches('"');
            value
                .split_once('=')
                .and_then(|(name, value)| command::grace_variable(name, value))
        });
    let own = command::grace(&words).or(environment).or(desk.grace);
    if let Some((line, value)) = unit
        .last("TimeoutStopSec")
        .or_else(|| unit.last("TimeoutSec"))
    {
        match (command::seconds(value), own) {
            // Zero means for ever, as does the word.
            (Some(0), _) | (None, _) if matches!(value, "0" | "infinity") => desk.report(
                line,
                rule::UNIT_TIMEOUT,
                "without a limit a stop that hangs holds up the shutdown of the machine: name a time",
            ),
            (Some(given), Some(own)) if given < own => {
                let server = command::server(&words);
                let code = if server.is_some() { rule::SERVER_GRACE } else { rule::UNIT_TIMEOUT };
                let who = server.unwrap_or("the program");
                let message = format!("systemd kills after {given} s while {who} takes up to {own} s to stop");
                desk.report(line, code, message);
            }
            (Some(given), None) if given < SHORTEST => {
                let message = format!("{given} s is too short for anything to be finished or saved");
                desk.report(line, rule::UNIT_TIMEOUT, message);
            }
            _ => {}
        }
    }
    if let Some((line, "notify" | "notify-reload")) = unit.last("Type")
        && never_notifies(&words)
    {
        desk.report(
            line,
            rule::UNIT_NOTIFY,
            "this program never says READY=1: systemd will kill it at the start time-out; use `Type=exec`, or notify",
        );
    }
}

/// Programs known not to speak to systemd: a shell, and standard modules of interpreters.
fn never_notifies(words: &[String]) -> bool {
    let inner = command::inner(words);
    let Some(first) = inner.first() else {
        return false;
    };
    let name = command::program(first);
    let python = name.starts_with("python");
    python
        && inner.get(1).is_some_and(|flag| flag == "-m")
        && inner.get(2).is_some_and(|module| {
            matches!(
                module.as_str(),
                "http.server" | "uvicorn" | "celery" | "flask" | "aiohttp.web"
            )
        })
        || matches!(
            name,
            "uvicorn" | "hypercorn" | "celery" | "node" | "npm" | "sleep" | "java"
        )
}
