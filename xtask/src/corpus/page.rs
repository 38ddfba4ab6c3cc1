//! The tables in `docs/check.md`, between their marks.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use super::Failure;
use super::compare::{Confirmed, Row};
use super::speed::Speed;

const START: &str = "<!-- corpus: made by cargo xtask check-corpus -->";
const END: &str = "<!-- corpus: end -->";

pub(crate) fn render(rows: &[Row], confirmed: &[Confirmed], speed: &Speed) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "| package | lines | ruff, shared kinds | found by both | documented disagreement | missed | ours, in the coroutine | ours, through calls | ours, other kinds |"
    );
    let _ = writeln!(out, "|---|---:|---:|---:|---:|---:|---:|---:|---:|");
    for row in rows {
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            row.package,
            row.lines,
            row.ruff,
            row.both,
            row.disagreed,
            row.unexplained.len(),
            row.direct,
            row.through_calls,
            row.others
        );
    }
    let _ = writeln!(
        out,
        "\nFound by us and not by ruff, each confirmed by reading (Home Assistant):\n"
    );
    for entry in confirmed {
        let mark = if entry.found {
            ""
        } else {
            " (no longer found)"
        };
        let path = entry.path.trim_start_matches("homeassistant/");
        let _ = writeln!(
            out,
            "- `{path}:{}` {}: {}{mark}",
            entry.line, entry.code, entry.why
        );
    }
    let lines: usize = rows.iter().map(|row| row.lines).sum();
    let million = lines as f64 / 1_000_000.0;
    let _ = writeln!(
        out,
        "\nThe whole corpus, {lines} lines, best of seven turns in one run on {} cores:\n",
        speed.cores
    );
    let _ = writeln!(
        out,
        "| command | seconds | seconds a million lines | memory |"
    );
    let _ = writeln!(out, "|---|---:|---:|---:|");
    for (name, cost) in [
        ("`ruff check --select ASYNC --no-cache`", speed.ruff),
        ("`adieu check --select ADP`", speed.adieu),
    ] {
        let _ = writeln!(
            out,
            "| {name} | {:.2} | {:.2} | {:.0} MB |",
            cost.seconds,
            cost.seconds / million,
            cost.megabytes
        );
    }
    let small = rows
        .iter()
        .find(|row| row.package == "discord.py")
        .map_or(0, |row| row.lines);
    let _ = writeln!(
        out,
        "\nMemory grows with the source: {:.0} MB for the {small} lines of discord.py alone, {:.0} MB for all.",
        speed.one.megabytes, speed.adieu.megabytes
    );
    out
}

pub(crate) fn write(text: &str) -> Result<(), Failure> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/check.md");
    let page = fs::read_to_string(&path).map_err(|error| format!("docs/check.md: {error}"))?;
    let (before, rest) = page
        .split_once(START)
        .ok_or("docs/check.md has lost its corpus mark")?;
    let (_, after) = rest
        .split_once(END)
        .ok_or("docs/check.md has lost its end of corpus")?;
    fs::write(&path, format!("{before}{START}\n\n{text}\n{END}{after}"))
        .map_err(|error| error.to_string())
}
