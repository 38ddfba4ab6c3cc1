//! `drill.toml`: targets, checked in beside the code.
//!
//! `[defaults]` hold for every target; what a `[[target]]` says is stronger, and the command line is strongest.

use std::fs;
use std::path::Path;

use adieu_drill::find_check;
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeInteger, DeTable};

use super::options::DrillOptions;

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct DrillFile {
    #[serde(default)]
    target: Vec<Spanned<DrillOptions>>,
    #[serde(default)]
    defaults: DrillOptions,
}

/// What makes no sense in a table, and where it stands.
fn mistake(table: &DeTable<'_>) -> Option<(usize, String)> {
    let start = |key: &str| table.get(key).map(|value| value.span().start);
    for key in ["check", "skip", "require"] {
        let ids = table.get(key).and_then(|ids| ids.get_ref().as_array());
        for id in ids.into_iter().flatten() {
            let name = id.get_ref().as_str().filter(|name| !is_group(name));
            if let Some(Err(sentence)) = name.map(find_check) {
                return Some((id.span().start, sentence));
            }
        }
    }
    let limits = table
        .get("threshold")
        .and_then(|it| it.get_ref().as_table());
    for (id, value) in limits.into_iter().flatten() {
        match find_check(id.get_ref()) {
            Err(sentence) => return Some((id.span().start, sentence)),
            Ok(check) => {
                let number = value.get_ref().as_integer().map(DeInteger::as_str);
                let text = value.get_ref().as_str().or(number).unwrap_or_default();
                if let Err(sentence) = check.threshold(text) {
                    return Some((value.span().start, sentence));
                }
            }
        }
    }
    let repeat = table.get("repeat").and_then(|it| it.get_ref().as_integer());
    if repeat.is_some_and(|it| it.as_str() == "0") {
        let sentence = "a check that is repeated 0 times says nothing: at least 1";
        return Some((start("repeat")?, sentence.to_owned()));
    }
    let notify = table.get("ready-notify");
    let notify = notify.filter(|it| it.get_ref().as_bool() == Some(true));
    second(&mut [("http", start("http")), ("tcp", start("tcp"))]).or_else(|| {
        second(&mut [
            ("ready-line", start("ready-line")),
            ("ready-url", start("ready-url")),
            ("ready-tcp", start("ready-tcp")),
            ("ready-notify", notify.map(|it| it.span().start)),
        ])
    })
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
    let refused = |error: toml::de::Error| {
        let place = error
            .span()
            .map_or_else(|| shown.to_string(), |span| at(span.start));
        format!("{place}: {}", error.message())
    };
    let file: DrillFile = toml::from_str(&text).map_err(refused)?;
    if file.target.is_empty() {
        return Err(format!("{shown}: no [[target]] in it"));
    }
    // Read once more for the place of each value.
    let places = DeTable::parse(&text).map_err(refused)?;
    let targets = places.get_ref().get("target");
    let targets = targets.and_then(|it| it.get_ref().as_array());
    let defaults = places.get_ref().get("defaults");
    let tables = targets.into_iter().flatten().chain(defaults);
    for table in tables.filter_map(|it| it.get_ref().as_table()) {
        if let Some((offset, sentence)) = mistake(table) {
            return Err(format!("{}: {sentence}", at(offset)));
        }
    }
    let targets = file.target.into_iter().map(|table| {
        let place = at(table.span().start);
        let mut options = file.defaults.clone().merged_with(table.get_ref());
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use adieu_drill::report::Level;

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
