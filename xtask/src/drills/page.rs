//! The tables in `docs`, between their marks.

use std::fmt::Write;
use std::fs;

use super::judge::Column;
use crate::checkout::Checkout;
use crate::step::Failure;

const END: &str = "<!-- drills: end -->";

pub(crate) fn render(columns: &[Column]) -> String {
    let mut out = String::new();
    let Some(first) = columns.first() else {
        return out;
    };
    // Writing to a string cannot fail.
    let heads: Vec<String> = columns
        .iter()
        .map(|column| format!("{} {}", column.peer.name, column.peer.version))
        .collect();
    let _ = writeln!(out, "| check | {} |", heads.join(" | "));
    let _ = writeln!(out, "|---|{}", ":-:|".repeat(columns.len()));
    for check in &first.checks {
        let cells: Vec<&str> = columns
            .iter()
            .map(|column| cell(column, &check.id))
            .collect();
        let _ = writeln!(out, "| `{}` | {} |", check.id, cells.join(" | "));
    }
    let totals: Vec<String> = columns.iter().map(total).collect();
    let _ = writeln!(out, "| passed of those tried | {} |", totals.join(" | "));
    for column in columns {
        failures(&mut out, column);
    }
    out
}

fn cell(column: &Column, id: &str) -> &'static str {
    match column
        .checks
        .iter()
        .find(|check| check.id == id)
        .map(|check| check.outcome.as_str())
    {
        Some("passed") => "✓",
        Some("failed") => "**✗**",
        _ => "–",
    }
}

fn total(column: &Column) -> String {
    let with = |outcome: &str| {
        column
            .checks
            .iter()
            .filter(|check| check.outcome == outcome)
            .count()
    };
    format!("{} of {}", with("passed"), with("passed") + with("failed"))
}

fn failures(out: &mut String, column: &Column) {
    let failed: Vec<_> = column
        .checks
        .iter()
        .filter(|check| check.outcome == "failed")
        .collect();
    if failed.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n**{} {}**\n", column.peer.name, column.peer.version);
    for check in failed {
        let _ = write!(out, "- `{}`: {}", check.id, check.reason);
        match column.shown.iter().find(|(id, _)| *id == check.id) {
            Some((id, words)) => {
                let _ = writeln!(
                    out,
                    ". Without the drill ([`{id}.py`](../fixtures/peers/repro/{id}.py)): {words}"
                );
            }
            None => out.push('\n'),
        }
    }
}

/// Puts the text into this page, between the marks that name the chore.
pub(crate) fn write(
    checkout: &Checkout,
    page: &str,
    chore: &str,
    text: &str,
) -> Result<(), Failure> {
    let start = format!("<!-- drills: made by {chore} -->");
    let path = checkout.root().join(page);
    let old = fs::read_to_string(&path)?;
    let lost = || Failure::new(format!("{page} has lost its marks"));
    let (before, rest) = old.split_once(&start).ok_or_else(lost)?;
    let (_, after) = rest.split_once(END).ok_or_else(lost)?;
    fs::write(&path, format!("{before}{start}\n\n{text}\n{END}{after}"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drills::judge::Check;
    use crate::drills::peers::Peer;

    #[test]
    fn who_passes_what() {
        let check = |id: &str, outcome: &str| Check {
            id: id.to_owned(),
            outcome: outcome.to_owned(),
            reason: "as seen".to_owned(),
        };
        let column = Column {
            peer: Peer {
                name: "node",
                version: "1.2".to_owned(),
                options: Vec::new(),
                signal: "TERM",
                command: Vec::new(),
            },
            checks: vec![
                check("a", "passed"),
                check("b", "failed"),
                check("c", "skipped"),
            ],
            shown: vec![("b".to_owned(), "three lost".to_owned())],
        };
        let expected = "\
| check | node 1.2 |
|---|:-:|
| `a` | ✓ |
| `b` | **✗** |
| `c` | – |
| passed of those tried | 1 of 2 |

**node 1.2**

- `b`: as seen. Without the drill ([`b.py`](../fixtures/peers/repro/b.py)): three lost
";
        assert_eq!(render(&[column]), expected);
    }
}
