//! systemd service units.

use std::sync::Arc;

use super::Reporter;
use super::command;
use super::launch;
use super::start::{Spot, Start, StopTime, Variable};
use crate::budget::Bound;
use crate::rule;

/// Shorter than this nothing drains.
const SHORTEST: u64 = 5;

/// What systemd waits without being told.
const DEFAULT: u64 = 90;

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

    /// The variables it sets, the last first.
    fn variables(&self, path: &Arc<str>) -> Vec<Variable> {
        let lines = self.entries.iter().rev();
        lines
            .filter(|(_, key, _)| key == "Environment")
            .flat_map(|(line, _, value)| {
                command::split(value).into_iter().map(|word| (*line, word))
            })
            .filter_map(|(line, word)| {
                let (name, value) = word.split_once('=')?;
                Some(Variable {
                    name: name.to_owned(),
                    value: value.to_owned(),
                    at: Some(Spot {
                        path: Arc::clone(path),
                        line,
                    }),
                })
            })
            .collect()
    }
}

pub(crate) fn check(unit: &UnitFile, reporter: &mut Reporter<'_>) {
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
            reporter.report(line, rule::KILL_MODE, message);
        }
    }
    if let Some((line, "SIGKILL" | "KILL" | "9")) = unit.last("KillSignal") {
        reporter.report(
            line,
            rule::STOP_SIGNAL,
            "SIGKILL cannot be handled: the program is cut off in the middle; leave `KillSignal=` out",
        );
    }
    // What has run to its end holds nothing when it stops.
    if unit.last("Type").map(|(_, kind)| kind) != Some("oneshot") {
        timeout(unit, words.clone(), reporter);
    }
    if let Some((line, "notify" | "notify-reload")) = unit.last("Type")
        && never_notifies(&words)
    {
        reporter.report(
            line,
            rule::UNIT_NOTIFY,
            "this program never says READY=1: systemd will kill it at the start timeout; use `Type=exec`, or notify",
        );
    }
}

fn timeout(unit: &UnitFile, words: Vec<String>, reporter: &mut Reporter<'_>) {
    let line = unit.last("ExecStart").map_or(1, |(line, _)| line);
    let start = Start {
        at: Some(reporter.spot(line)),
        variables: unit.variables(reporter.path),
        ..Start::of(words)
    };
    let own = reporter.own(&start);
    let notifies = unit
        .last("Type")
        .is_some_and(|(_, kind)| kind.starts_with("notify"));
    let set = unit
        .last("TimeoutStopSec")
        .or_else(|| unit.last("TimeoutSec"));
    let patience = match set {
        // It asks for more time while it stops.
        Some((line, _)) if notifies && own.as_ref().is_some_and(StopTime::extends_itself) => {
            Some((Bound::UNLIMITED, line))
        }
        Some((line, "0" | "infinity")) => Some((Bound::UNLIMITED, line)),
        Some((line, value)) => {
            let seconds = command::seconds(value);
            Some((seconds.map_or(Bound::UNCLEAR, Bound::seconds), line))
        }
        None => None,
    };
    let patience = patience.map(|(bound, line)| (bound, reporter.spot(line)));
    let name = command::program(reporter.path).to_owned();
    if !start.words.is_empty() {
        reporter.launch(
            &name,
            line,
            start,
            launch::systemd(patience, reporter.spot(line)),
            None,
        );
    }
    let too_short = |given: u64| {
        own.as_ref()
            .filter(|own| given < own.seconds && !(notifies && own.extends_itself()))
    };
    let code = match &own {
        Some(own) if own.is_server => rule::SERVER_GRACE,
        _ => rule::UNIT_TIMEOUT,
    };
    let Some((line, value)) = set else {
        if let (Some(own), Some((line, _))) = (too_short(DEFAULT), unit.last("ExecStart")) {
            let message = format!(
                "systemd kills after {DEFAULT} s while {}: say `TimeoutStopSec=`",
                own.said()
            );
            reporter.report_grace(line, code, message, Some(own));
        }
        return;
    };
    match command::seconds(value) {
        // Zero means forever, as does the word.
        _ if matches!(value, "0" | "infinity") => reporter.report(
            line,
            rule::UNIT_TIMEOUT,
            "without a limit a stop that hangs holds up the shutdown of the machine: name a time",
        ),
        Some(given) => {
            if let Some(own) = too_short(given) {
                let message = format!("systemd kills after {given} s while {}", own.said());
                reporter.report_grace(line, code, message, Some(own));
            } else if own.is_none() && given < SHORTEST {
                let message =
                    format!("{given} s is too short for anything to be finished or saved");
                reporter.report(line, rule::UNIT_TIMEOUT, message);
            }
        }
        None => {}
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
