//! Programs of supervisord.

use super::command;
use super::launch::SUPERVISOR;
use super::program::HostedProgram;

/// Whether a text is one of its files, before it is read.
pub(crate) fn is_one(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("[program:"))
}

pub(crate) fn parse(text: &str) -> Vec<HostedProgram> {
    let mut programs: Vec<HostedProgram> = Vec::new();
    let mut in_program = false;
    for (index, raw) in text.lines().enumerate() {
        let line = index as u32 + 1;
        let text = raw.split(" ;").next().unwrap_or(raw).trim();
        if text.starts_with(['#', ';']) {
            continue;
        }
        if let Some(section) = text.strip_prefix('[') {
            let name = section
                .strip_prefix("program:")
                .and_then(|rest| rest.split(']').next());
            in_program = name.is_some();
            programs.extend(name.map(|name| HostedProgram::new(&SUPERVISOR, name, line)));
            continue;
        }
        let (Some((key, value)), Some(program), true) =
            (text.split_once('='), programs.last_mut(), in_program)
        else {
            continue;
        };
        let value = value.trim();
        let is_true = matches!(
            value.to_ascii_lowercase().as_str(),
            "true" | "yes" | "on" | "1" | "t" | "y"
        );
        match key.trim() {
            "command" => {
                program.line = line;
                program.command = Some(command::split(value));
            }
            "stopwaitsecs" => program.wait = Some((value.parse().ok(), line)),
            "stopsignal" => program.signal = Some((value.to_owned(), line)),
            "stopasgroup" => program.reaches_children = is_true,
            "environment" => program.variables = variables(value, line),
            _ => {}
        }
    }
    // What is not meant to run on is not stopped.
    programs.retain(|program| program.command.is_some());
    programs
}

/// `A="b",C=d`
fn variables(value: &str, line: u32) -> Vec<(String, String, u32)> {
    let pairs = command::split(&value.replace(',', " "));
    pairs
        .iter()
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned(), line))
        .collect()
}
