//! `drill.toml`: targets, checked in beside the code.
//!
//! `[defaults]` hold for every target; what a `[[target]]` says is stronger, and the command line is strongest.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use adieu::parse_duration;
use adieu_drill::report::Level;
use adieu_drill::{Ready, StopSignal, find_check};
use serde::{Deserialize, Deserializer, de};
use toml::Spanned;

use super::options::DrillOptions;

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
    http: Option<Spanned<String>>,
    tcp: Option<Spanned<String>>,
    #[serde(default)]
    tls: bool,
    #[serde(default)]
    env: BTreeMap<String, String>,
    cwd: Option<PathBuf>,
    ready_line: Option<Spanned<String>>,
    ready_url: Option<Spanned<String>>,
    ready_tcp: Option<Spanned<String>>,
    ready_notify: Option<Spanned<bool>>,
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
    feed: Option<String>,
    ledger: Option<String>,
    level: Option<Level>,
    #[serde(default)]
    check: Vec<Spanned<String>>,
    #[serde(default)]
    skip: Vec<Spanned<String>>,
    #[serde(default)]
    require: Vec<Spanned<String>>,
    #[serde(default)]
    threshold: BTreeMap<Spanned<String>, Spanned<Value>>,
    repeat: Option<Spanned<u32>>,
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

impl Value {
    fn text(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text.clone(),
        }
    }
}

impl Table {
    /// What makes no sense in it, and where it stands.
    fn mistake(&self) -> Option<(usize, String)> {
        for id in self.check.iter().chain(&self.skip).chain(&self.require) {
            if is_group(id.get_ref()) {
                continue;
            }
            if let Err(sentence) = find_check(id.get_ref()) {
                return Some((id.span().start, sentence));
            }
        }
        for (id, value) in &self.threshold {
            match find_check(id.get_ref()) {
                Err(sentence) => return Some((id.span().start, sentence)),
                Ok(check) => {
                    if let Err(sentence) = check.threshold(&value.get_ref().text()) {
                        return Some((value.span().start, sentence));
                    }
                }
            }
        }
        if let Some(repeat) = self.repeat.as_ref().filter(|it| *it.get_ref() == 0) {
            let sentence = "a check that is repeated 0 times says nothing: at least 1";
            return Some((repeat.span().start, sentence.to_owned()));
        }
        let start = |it: &Option<Spanned<String>>| it.as_ref().map(|it| it.span().start);
        let notify = self.ready_notify.as_ref().filter(|it| *it.get_ref());
        second(&mut [("http", start(&self.http)), ("tcp", start(&self.tcp))]).or_else(|| {
            second(&mut [
                ("ready-line", start(&self.ready_line)),
                ("ready-url", start(&self.ready_url)),
                ("ready-tcp", start(&self.ready_tcp)),
                ("ready-notify", notify.map(|it| it.span().start)),
            ])
        })
    }
}

/// Where the second one stands of keys that cannot stand together, and a sentence.
fn second(keys: &mut [(&str, Option<usize>)]) -> Option<(usize, String)> {
    keys.sort_by_key(|(_, at)| *at);
    let mut given = keys.iter().filter_map(|(key, at)| Some((key, (*at)?)));
    let (first, _) = given.next()?;
    let (key, at) = given.next()?;
    Some((
        at,
        format!("`{key}` beside `{first}`: only one of them can be"),
    ))
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
pub(super) fn read(path: &Path) -> Result<Vec<(String, DrillOptions)>, String> {
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
        if let Some((offset, sentence)) = table.mistake() {
            return Err(format!("{}: {sentence}", at(offset)));
        }
    }
    let defaults = DrillOptions::from(file.defaults);
    let targets = file.target.into_iter().map(|table| {
        let place = at(table.span().start);
        let mut options = defaults
            .clone()
            .merged_with(&DrillOptions::from(table.into_inner()));
        // A file that is checked in means the same wherever it is used from.
        let folder = path.parent().unwrap_or(Path::new(""));
        options.cwd = options.cwd.map(|cwd| folder.join(cwd));
        (place, options)
    });
    Ok(targets.collect())
}

fn is_group(word: &str) -> bool {
    adieu_drill::report::Group::ALL
        .iter()
        .any(|group| group.name() == word)
}

impl From<Table> for DrillOptions {
    fn from(table: Table) -> Self {
        let plain = |it: Option<Spanned<String>>| it.map(Spanned::into_inner);
        let line = plain(table.ready_line).map(Ready::Line);
        let url = plain(table.ready_url).map(Ready::Url);
        let tcp = plain(table.ready_tcp).map(Ready::Tcp);
        let notify = table.ready_notify.is_some_and(Spanned::into_inner);
        Self {
            name: table.name,
            command: table.command,
            http: plain(table.http),
            tcp: plain(table.tcp),
            tls: table.tls,
            env: table.env.into_iter().collect(),
            cwd: table.cwd,
            ready: line.or(url).or(tcp).or(notify.then_some(Ready::Notify)),
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
            feed: table.feed,
            ledger: table.ledger,
            level: table.level,
            check: table.check.into_iter().map(Spanned::into_inner).collect(),
            skip: table.skip.into_iter().map(Spanned::into_inner).collect(),
            require: (table.require.into_iter())
                .map(Spanned::into_inner)
                .collect(),
            threshold: table
                .threshold
                .into_iter()
                .map(|(id, value)| (id.into_inner(), value.get_ref().text()))
                .collect(),
            repeat: table.repeat.map(Spanned::into_inner),
            seed: table.seed,
            clients: table.clients,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(text: &str) -> Result<Vec<(String, DrillOptions)>, String> {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("drill.toml");
        fs::write(&path, text).expect("a file");
        read(&path).map_err(|words| words.replace(&folder.path().display().to_string(), "."))
    }

    #[test]
    fn a_target_is_stronger_than_the_defaults() {
        let targets = reading(
            "[defaults]\ngrace = \"10s\"\nlevel = \"quick\"\n[[target]]\nname = \"a\"\ncommand = [\"a\"]\n\
             [[target]]\nname = \"b\"\ngrace = \"5s\"\ncheck = [\"drain\", \"exit-code\"]\n\
             threshold = { exit-code = \"0,143\", keepalive-race = 2 }\n",
        )
        .expect("a file");
        let [(first, a), (second, b)] = &targets[..] else {
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
                "./drill.toml:2:9: `soon` is not a duration",
            ),
            (
                "[[target]]\ncheck = [\n  \"port-fre\",\n]\n",
                "./drill.toml:3:3: `port-fre` is not a check; did you mean `port-free`?",
            ),
            (
                "[[target]]\nthreshold = { nope = 1 }\n",
                "./drill.toml:2:15: `nope` is not a check",
            ),
            ("[[target]]\ncommand = [\"ü\", y]\n", "./drill.toml:2:17: "),
            (
                "[[target]]\ntcp = \"a:1\"\nhttp = \"b\"\n",
                "./drill.toml:3:8: `http` beside `tcp`: only one",
            ),
            (
                "[[target]]\nready-line = \"a\"\nready-notify = true\n",
                "./drill.toml:3:16: `ready-notify` beside `ready-line`",
            ),
            (
                "[[target]]\nrepeat = 0\n",
                "./drill.toml:2:10: a check that is",
            ),
            (
                "[defaults]\nthreshold = { port-free = \"soon\" }\n[[target]]\n",
                "./drill.toml:2:27: the threshold of port-free: `soon` is not a duration",
            ),
            ("", "./drill.toml: no [[target]]"),
        ] {
            let said = reading(text).expect_err(text);
            assert!(said.starts_with(words), "{said}");
        }
    }

    /// One of each kind of value.
    #[cfg(unix)]
    const WHOLE: &str = r#"
[defaults]
grace = "10s"
threshold = { exit-code = "0,143", keepalive-race = 2 }

[[target]]
name = "grüße"
command = ["uvicorn", "shop:app", "--port", "{port}"]
http = "http://127.0.0.1:{port}/"
env = { MODE = "tést" }
ready-within = "30s"
signal = "TERM"
check = ["drain", "exit-code"]
level = "quick"
repeat = 3
seed = 7

[[target]]
tcp = "127.0.0.1:{port}"
ready-line = "ready — go"
header = { "X-Key" = "a" }
"#;

    #[cfg(unix)]
    #[test]
    fn a_file_with_each_kind_of_value_is_read() {
        assert_eq!(reading(WHOLE).expect("targets").len(), 2);
    }

    #[cfg(unix)]
    proptest::proptest! {
        #[test]
        fn a_file_with_slips_is_read_or_refused_at_its_place(
            slips in proptest::collection::vec((0..=1_000_u16, 0..6_u8, "\\PC{0,3}|[\\[\\]\"'=\n.{}#,-]{1,3}|[0-9]{1,20}"), 0..5)
        ) {
            if let Err(words) = reading(&adieu_testkit::with_typing_errors(WHOLE, &slips)) {
                proptest::prop_assert!(words.starts_with("./drill.toml:"), "{}", words);
            }
        }
    }
}
