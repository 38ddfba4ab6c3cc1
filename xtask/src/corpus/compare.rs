//! What both tools find, and what only one of them does.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::Failure;
use super::fetch::Corpus;

/// ruff's codes whose kind of rule we have too. The others are about style and other frameworks:
/// 100, 105, 109, 110, 115, 116.
const SHARED: &[&str] = &[
    "ASYNC210", "ASYNC212", "ASYNC220", "ASYNC221", "ASYNC222", "ASYNC230", "ASYNC240", "ASYNC250",
    "ASYNC251",
];

/// Calls that ruff reports and that touch no disk: they only ask for the working directory.
const DISAGREED: &[&str] = &["abspath(", ".absolute("];

/// Findings that ruff does not make, each confirmed by reading the code.
const CONFIRMED: &[(&str, u64, &str, &str)] = &[
    (
        "homeassistant/homeassistant/components/matrix/__init__.py",
        340,
        "ADP104",
        "the coroutine loads its session file through `load_json_object`",
    ),
    (
        "homeassistant/homeassistant/components/ps4/media_player.py",
        103,
        "ADP104",
        "a status update reads the list of games from disk, five calls down",
    ),
    (
        "homeassistant/homeassistant/components/mqtt/config_flow.py",
        510,
        "ADP104",
        "leaving the `with` block removes a directory tree",
    ),
    (
        "homeassistant/homeassistant/components/camera/__init__.py",
        1005,
        "ADP105",
        "`is_allowed_path` asks the disk; twelve integrations call it from coroutines",
    ),
    (
        "homeassistant/homeassistant/helpers/template.py",
        673,
        "ADP110",
        "a timeout is followed by the join of the thread that timed out",
    ),
    (
        "homeassistant/homeassistant/components/ness_alarm/__init__.py",
        119,
        "ADP301",
        "two tasks run forever and no code holds them",
    ),
];

/// One package.
pub(crate) struct Row {
    pub(crate) package: String,
    pub(crate) lines: usize,
    pub(crate) ruff: usize,
    pub(crate) both: usize,
    pub(crate) disagreed: usize,
    pub(crate) unexplained: Vec<String>,
    /// Ours in the shared kinds: made in the coroutine, and reached through calls.
    pub(crate) direct: usize,
    pub(crate) through_calls: usize,
    /// Ours in kinds that ruff does not have.
    pub(crate) others: usize,
}

/// A finding of ours that was read and found to be right.
pub(crate) struct Confirmed {
    pub(crate) path: &'static str,
    pub(crate) line: u64,
    pub(crate) code: &'static str,
    pub(crate) why: &'static str,
    pub(crate) found: bool,
}

/// Runs both tools on one package.
pub(crate) fn package(corpus: &Corpus, package: &str) -> Result<Row, Failure> {
    let theirs = json(
        Command::new(&corpus.ruff)
            .args([
                "check",
                "--isolated",
                "--no-cache",
                "--select",
                "ASYNC",
                "--output-format",
                "json",
                package,
            ])
            .current_dir(&corpus.folder),
    )?;
    let ours = findings(corpus, package)?;
    let mut ours_at: BTreeSet<(String, u64)> = BTreeSet::new();
    let (mut direct, mut through_calls, mut others) = (0, 0, 0);
    for finding in &ours {
        ours_at.insert((text(&finding["path"]), number(&finding["line"])));
        let shared = matches!(
            finding["code"].as_str(),
            Some("ADP101" | "ADP102" | "ADP103" | "ADP104" | "ADP105" | "ADP107")
        );
        let followed = finding["trace"]
            .as_array()
            .is_some_and(|trace| !trace.is_empty());
        match (shared, followed) {
            (false, _) => others += 1,
            (true, true) => through_calls += 1,
            (true, false) => direct += 1,
        }
    }
    let mut row = Row {
        package: package.to_owned(),
        lines: lines(&corpus.folder.join(package)),
        ruff: 0,
        both: 0,
        disagreed: 0,
        unexplained: Vec::new(),
        direct,
        through_calls,
        others,
    };
    for finding in theirs.as_array().into_iter().flatten() {
        let code = text(&finding["code"]);
        if !SHARED.contains(&code.as_str()) {
            continue;
        }
        row.ruff += 1;
        let absolute = text(&finding["filename"]);
        let path = absolute
            .find(&format!("/packages/{package}/"))
            .map_or(absolute.clone(), |at| {
                absolute[at + "/packages/".len()..].to_owned()
            });
        let line = number(&finding["location"]["row"]);
        let source = fs::read_to_string(&absolute).unwrap_or_default();
        let code_line = source
            .lines()
            .nth(line.saturating_sub(1) as usize)
            .unwrap_or("");
        if ours_at.contains(&(path.clone(), line)) {
            row.both += 1;
        } else if DISAGREED.iter().any(|call| code_line.contains(call)) {
            row.disagreed += 1;
        } else {
            row.unexplained
                .push(format!("{path}:{line}: {code} {}", code_line.trim()));
        }
    }
    Ok(row)
}

/// Looks each confirmed finding up again.
pub(crate) fn confirmed(corpus: &Corpus) -> Result<Vec<Confirmed>, Failure> {
    let ours = findings(corpus, "homeassistant")?;
    Ok(CONFIRMED
        .iter()
        .map(|(path, line, code, why)| {
            let found = ours.iter().any(|finding| {
                finding["path"] == *path && finding["line"] == *line && finding["code"] == *code
            });
            Confirmed {
                path,
                line: *line,
                code,
                why,
                found,
            }
        })
        .collect())
}

fn findings(corpus: &Corpus, package: &str) -> Result<Vec<Value>, Failure> {
    let report = json(
        Command::new(&corpus.adieu)
            .args([
                "check", "--show", "notes", "--select", "ADP", "--format", "json", package,
            ])
            .current_dir(&corpus.folder),
    )?;
    Ok(report["findings"].as_array().cloned().unwrap_or_default())
}

/// Both tools exit with 1 when they find something.
fn json(command: &mut Command) -> Result<Value, Failure> {
    let output = command
        .output()
        .map_err(|error| format!("{:?}: {error}", command.get_program()))?;
    serde_json::from_slice(&output.stdout).map_err(|error| {
        format!(
            "{:?} gave no JSON: {error}; {}",
            command.get_program(),
            String::from_utf8_lossy(&output.stderr)
        )
    })
}

fn lines(folder: &Path) -> usize {
    let Ok(entries) = fs::read_dir(folder) else {
        return 0;
    };
    entries
        .flatten()
        .map(|entry| {
            let path = entry.path();
            if path.is_dir() {
                lines(&path)
            } else if path.extension().is_some_and(|extension| extension == "py") {
                fs::read(&path).map_or(0, |bytes| {
                    bytes.iter().filter(|byte| **byte == b'\n').count()
                })
            } else {
                0
            }
        })
        .sum()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}
