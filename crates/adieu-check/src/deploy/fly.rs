//! `fly.toml` of Fly.io, which stops with SIGINT and waits five seconds where it is not told otherwise.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::{Spanned, Value};

use super::command;
use super::launch::FLY;
use super::program::{HostedProgram, ImageOf};
use crate::finding::Place;
use crate::source::Lines;

#[derive(Debug, Deserialize)]
struct Fly {
    app: Option<Spanned<Value>>,
    kill_timeout: Option<Spanned<Value>>,
    kill_signal: Option<Spanned<Value>>,
    #[serde(default)]
    processes: BTreeMap<String, Spanned<Value>>,
    #[serde(default)]
    env: BTreeMap<String, Spanned<Value>>,
    #[serde(default)]
    build: Build,
    #[serde(default)]
    experimental: Experimental,
}

#[derive(Debug, Default, Deserialize)]
struct Build {
    dockerfile: Option<String>,
    image: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Experimental {
    cmd: Option<Value>,
    entrypoint: Option<Value>,
}

pub(crate) fn parse(text: &str) -> Result<Vec<HostedProgram>, (Place, String)> {
    let lines = Lines::new(text);
    let line_of = |at: usize| lines.place(text, at).line;
    let fly: Fly = toml::from_str(text).map_err(|error| {
        let place = error
            .span()
            .map_or(Place::TOP, |span| lines.place(text, span.start));
        (
            place,
            format!(
                "syntax error: {}",
                error.message().lines().next().unwrap_or_default()
            ),
        )
    })?;
    let wait = fly.kill_timeout.as_ref().map(|said| {
        let seconds = match said.get_ref() {
            Value::Integer(number) => u64::try_from(*number).ok(),
            Value::String(text) => command::seconds(text),
            _ => None,
        };
        (seconds, line_of(said.span().start))
    });
    let signal = fly.kill_signal.as_ref().and_then(|said| {
        Some((
            said.get_ref().as_str()?.to_owned(),
            line_of(said.span().start),
        ))
    });
    let variables: Vec<(String, String, u32)> = fly
        .env
        .iter()
        .map(|(name, value)| {
            (
                name.clone(),
                plain(value.get_ref()),
                line_of(value.span().start),
            )
        })
        .collect();
    let first = fly.app.as_ref().map_or(1, |app| line_of(app.span().start));
    let name = fly
        .app
        .as_ref()
        .and_then(|app| app.get_ref().as_str())
        .unwrap_or("the app");
    let one = |name: &str, line: u32, command: Option<Vec<String>>| HostedProgram {
        image: match (&fly.build.image, &fly.build.dockerfile) {
            (Some(image), _) => ImageOf::Named(image.clone()),
            (None, file) => ImageOf::Built(file.clone().unwrap_or_else(|| "Dockerfile".to_owned())),
        },
        entrypoint: fly.experimental.entrypoint.as_ref().map(words),
        command: command.or_else(|| fly.experimental.cmd.as_ref().map(words)),
        variables: variables.clone(),
        wait,
        signal: signal.clone(),
        ..HostedProgram::new(&FLY, name, line)
    };
    if fly.processes.is_empty() {
        return Ok(vec![one(name, first, None)]);
    }
    let processes = fly.processes.iter();
    Ok(processes
        .map(|(name, said)| {
            let command = Some(words(said.get_ref())).filter(|words| !words.is_empty());
            one(name, line_of(said.span().start), command)
        })
        .collect())
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn words(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => command::split(text),
        Value::Array(items) => items.iter().map(plain).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn processes_share_the_wait() {
        let text = "app = 'shop'\nkill_timeout = '90s'\n\n[processes]\nweb = 'gunicorn app:app'\nworker = ''\n";
        let programs = parse(text).expect("a table");
        let told: Vec<_> = programs
            .iter()
            .map(|it| (&*it.name, it.line, it.wait, it.command.is_some()))
            .collect();
        assert_eq!(
            told,
            [
                ("web", 5, Some((Some(90), 2)), true),
                ("worker", 6, Some((Some(90), 2)), false)
            ]
        );
    }

    #[test]
    fn what_is_no_table_is_said_with_its_place() {
        let (place, message) = parse("app = 'shop'\nkill_timeout = \n").expect_err("broken");
        assert_eq!(place.line, 2);
        assert!(message.starts_with("syntax error: "), "{message}");
    }
}
