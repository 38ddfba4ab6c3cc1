//! `drill.toml`: targets, checked in beside the code.
//!
//! `[defaults]` hold for every target; what a `[[target]]` says is stronger, and the command line is strongest.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use adieu_drill::report::Level;
use adieu_drill::{Ready, StopSignal, find_check, parse_duration};
use serde::{Deserialize, Deserializer, de};
use toml::Spanned;

use super::wish::Wish;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct DrillFile {
    #[serde(default)]
    target: Vec<Spanned<Table>>,
    #[serde(default)]
    defaults: Table,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Table {
    name: Option<String>,
    #[serde(default)]
    command: Vec<String>,
    http: Option<String>,
    tcp: Option<String>,
    #[serde(default)]
    tls: bool,
    #[serde(default)]
    env: BTreeMap<String, String>,
    ready_line: Option<String>,
    ready_url: Option<String>,
    ready_tcp: Option<String>,
    #[serde(default)]
    ready_notify: bool,
    #[serde(default, deserialize_with = "time")]
    ready_within: Option<Duration>,
    #[serde(default, deserialize_with = "signal")]
    signal: Option<StopSignal>,
    #[serde(default, deserialize_with = "time")]
    grace: Option<Duration>,
    #[serde(default)]
    reload: bool,
    #[serde(default)]
    held_socket: bool,
    slow: Option<String>,
    stream: Option<String>,
    large: Option<String>,
    sse: Option<String>,
    ws: Option<String>,
    upload: Option<String>,
    readiness: Option<String>,
    liveness: Option<String>,
    #[serde(default)]
    header: BTreeMap<String, String>,
    body: Option<String>,
    method: Option<String>,
    state_file: Option<PathBuf>,
    state_command: Option<String>,
    ledger: Option<String>,
    level: Option<Level>,
    #[serde(default)]
    check: Vec<Spanned<String>>,
    #[serde(default)]
    skip: Vec<Spanned<String>>,
    #[serde(default)]
    threshold: BTreeMap<Spanned<String>, Value>,
    repeat: Option<u32>,
    seed: Option<u64>,
    clients: Option<usize>,
}

/// A threshold may be written as a number or as text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Value {
    Number(u64),
    Text(String),
}

fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(from)?;
    parse_duration(&text).map(Some).map_err(de::Error::custom)
}

fn signal<'de, D: Deserializer<'de>>(from: D) -> Result<Option<StopSignal>, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map(Some).map_err(de::Error::custom)
}

/// The targets of a file, in order, each with the place where it begins.
///
/// # Errors
///
/// With a sentence that names file, line and column.
pub(super) fn read(path: &Path) -> Result<Vec<(String, Wish)>, String> {
    let shown = path.display();
    let text = fs::read_to_string(path).map_err(|error| format!("{shown}: {error}"))?;
    let at = |offset: usize| {
        let before = &text[..offset.min(text.len())];
        let line = before.matches('\n').count() + 1;
        // As an editor counts: characters.
        let column = before.chars().rev().take_while(|it| *it != '\n').count() + 1;
        format!("{shown}:{line}:{column}")
    };
    let file: DrillFile = toml::from_str(&text).map_err(|error| {
        let place = error
            .span()
            .map_or_else(|| shown.to_string(), |span| at(span.start));
        format!("{place}: {}", error.message())
    })?;
    if file.target.is_empty() {
        return Err(format!("{shown}: no [[target]] in it"));
    }
    let targets = file.target.iter().map(Spanned::get_ref);
    for table in targets.chain([&file.defaults]) {
        for id in table.check.iter().chain(&table.skip) {
            let known = is_group(id.get_ref()) || find_check(id.get_ref()).is_ok();
            if let (false, Err(sentence)) = (known, find_check(id.get_ref())) {
                return Err(format!("{}: {sentence}", at(id.span().start)));
            }
        }
        for id in table.threshold.keys() {
            if let Err(sentence) = find_check(id.get_ref()) {
                return Err(format!("{}: {sentence}", at(id.span().start)));
            }
        }
    }
    let defaults = Wish::from(file.defaults);
    let targets = file.target.into_iter().map(|table| {
        let place = at(table.span().start);
        let wish = defaults.clone().overlaid(&Wish::from(table.into_inner()));
        (place, wish)
    });
    Ok(targets.collect())
}

fn is_group(word: &str) -> bool {
    adieu_drill::report::Group::ALL
        .iter()
        .any(|group| group.name() == word)
}

impl From<Table> for Wish {
    fn from(table: Table) -> Self {
        let line = table.ready_line.map(Ready::Line);
        let url = table.ready_url.map(Ready::Url);
        let tcp = table.ready_tcp.map(Ready::Tcp);
        Self {
            name: table.name,
            command: table.command,
            http: table.http,
            tcp: table.tcp,
            tls: table.tls,
            env: table.env.into_iter().collect(),
            ready: line
                .or(url)
                .or(tcp)
                .or(table.ready_notify.then_some(Ready::Notify)),
            ready_within: table.ready_within,
            signal: table.signal,
            grace: table.grace,
            reload: table.reload,
            held_socket: table.held_socket,
            slow: table.slow,
            stream: table.stream,
            large: table.large,
            sse: table.sse,
            ws: table.ws,
            upload: table.upload,
            readiness: table.readiness,
            liveness: table.liveness,
            headers: table.header.into_iter().collect(),
            body: table.body,
            method: table.method,
            state_file: table.state_file,
            state_command: table.state_command,
            ledger: table.ledger,
            level: table.level,
            check: table.check.into_iter().map(Spanned::into_inner).collect(),
            skip: table.skip.into_iter().map(Spanned::into_inner).collect(),
            threshold: table
                .threshold
                .into_iter()
                .map(|(id, value)| {
                    let value = match value {
                        Value::Number(number) => number.to_string(),
                        Value::Text(text) => text,
                    };
                    (id.into_inner(), value)
                })
                .collect(),
            repeat: table.repeat,
            seed: table.seed,
            clients: table.clients,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(text: &str) -> Result<Vec<(String, Wish)>, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("drill.toml");
        fs::write(&path, text).expect("a file");
        read(&path).map_err(|words| words.replace(&folder.path().display().to_string(), "."))
    }

    #[test]
    fn a_target_is_stronger_than_the_defaults() {
        let wishes = reading(
            "[defaults]\ngrace = \"10s\"\nlevel = \"quick\"\n[[target]]\nname = \"a\"\ncommand = [\"a\"]\n\
             [[target]]\nname = \"b\"\ngrace = \"5s\"\ncheck = [\"drain\", \"exit-code\"]\n\
             threshold = { exit-code = \"0,143\", keepalive-race = 2 }\n",
        )
        .expect("a file");
        let [(first, a), (second, b)] = &wishes[..] else {
            panic!("two targets");
        };
        assert_eq!(a.grace, Some(Duration::from_secs(10)));
        assert_eq!(
            (b.grace, b.level),
            (Some(Duration::from_secs(5)), Some(Level::Quick))
        );
        assert_eq!(b.threshold.len(), 2);
        assert!(first.ends_with("drill.toml:4:1"), "{first}");
        assert!(second.ends_with("drill.toml:7:1"), "{second}");
    }

    #[test]
    fn what_is_wrong_is_shown_by_line_and_column() {
        for (text, words) in [
            ("[[target]]\nname = \n", "./drill.toml:2:8: "),
            (
                "[[target]]\ncolour = 1\n",
                "./drill.toml:2:1: unknown field `colour`",
            ),
            (
                "[[target]]\ngrace = \"soon\"\n",
                "./drill.toml:2:9: `soon` is no time",
            ),
            (
                "[[target]]\ncheck = [\n  \"port-fre\",\n]\n",
                "./drill.toml:3:3: `port-fre` is no check; did you mean `port-free`?",
            ),
            (
                "[[target]]\nthreshold = { nope = 1 }\n",
                "./drill.toml:2:15: `nope` is no check",
            ),
            ("[[target]]\ncommand = [\"ü\", y]\n", "./drill.toml:2:17: "),
            ("", "./drill.toml: no [[target]]"),
        ] {
            let said = reading(text).expect_err(text);
            assert!(said.starts_with(words), "{said}");
        }
    }
}
