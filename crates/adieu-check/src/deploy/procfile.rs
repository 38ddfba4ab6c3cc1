//! Procfiles, as Heroku reads them.
//!
//! Heroku sends SIGTERM to every process of a dyno, so a shell or a wrapper keeps nothing back
//! there; how long it waits is fixed.

use super::Reporter;
use super::command;
use super::launch;
use super::start::Start;
use crate::rule;

/// What Heroku waits, always.
const GRACE: u64 = 30;

/// One kind of process.
#[derive(Debug)]
pub(crate) struct Process {
    line: u32,
    name: String,
    command: String,
}

pub(crate) fn parse(text: &str) -> Vec<Process> {
    let lines = text.lines().enumerate();
    lines
        .filter(|(_, line)| !line.trim_start().starts_with('#'))
        .filter_map(|(index, line)| {
            let (name, command) = line.split_once(':')?;
            let plain = name
                .trim()
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
            plain.then(|| Process {
                line: index as u32 + 1,
                name: name.trim().to_owned(),
                command: command.trim().to_owned(),
            })
        })
        .collect()
}

pub(crate) fn check(processes: &[Process], reporter: &mut Reporter<'_>) {
    let folder = reporter
        .path
        .rsplit_once('/')
        .map_or("", |(folder, _)| folder);
    for process in processes.iter().filter(|process| process.name != "release") {
        let Some(words) = command::started(&process.command) else {
            continue;
        };
        let at = reporter.spot(process.line);
        let start = Start {
            at: Some(at),
            folder: Some(folder.to_owned()),
            ..Start::of(words)
        };
        if let Some(own) = reporter.own(&start)
            && own.seconds > GRACE
        {
            let message = format!(
                "Heroku kills `{}` {GRACE} s after SIGTERM while {}: make that shorter",
                process.name,
                own.said()
            );
            reporter.report_grace(process.line, rule::SERVER_GRACE, message, Some(&own));
        }
        reporter.launch(&process.name, process.line, start, launch::heroku(), None);
    }
}
