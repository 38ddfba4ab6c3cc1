//! The table in `docs/check.md`, between its marks.

use std::fmt::Write;
use std::fs;

use super::{Computed, Row};
use crate::checkout::Checkout;
use crate::step::Failure;

const START: &str = "<!-- budgets: made by cargo xtask budgets -->";
const END: &str = "<!-- budgets: end -->";

pub(crate) fn render(rows: &[Row]) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "| program | computed | measured | computed ÷ measured |"
    );
    let _ = writeln!(out, "|---|---:|---:|---:|");
    for row in rows {
        let Computed {
            at_least,
            is_clear,
            is_limited,
        } = row.computed;
        if !is_limited {
            let (program, command, after) = (&row.program, &row.command, row.longest / 1_000);
            let _ = writeln!(
                out,
                "| {program}: `{command}` | no limit | still there after {after} s | – |"
            );
            continue;
        }
        let over = if is_clear { "" } else { "over " };
        let ratio = match is_clear {
            true => format!("{:.2}", at_least as f64 / row.longest.max(1) as f64),
            false => "–".to_owned(),
        };
        let _ = writeln!(
            out,
            "| {}: `{}` | {over}{:.1} s | {:.2} s | {ratio} |",
            row.program,
            row.command,
            at_least as f64 / 1_000.0,
            row.longest as f64 / 1_000.0,
        );
    }
    out
}

pub(crate) fn write(checkout: &Checkout, text: &str) -> Result<(), Failure> {
    let path = checkout.root().join("docs/check.md");
    let page = fs::read_to_string(&path)?;
    let lost = || Failure::new("docs/check.md has lost the marks of its budgets");
    let (before, rest) = page.split_once(START).ok_or_else(lost)?;
    let (_, after) = rest.split_once(END).ok_or_else(lost)?;
    fs::write(&path, format!("{before}{START}\n\n{text}\n{END}{after}"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{Computed, Row};
    use super::render;

    #[test]
    fn what_is_not_clear_has_no_ratio() {
        let row = |program: &str, is_clear, is_limited| Row {
            program: program.to_owned(),
            command: "web --fast".to_owned(),
            computed: Computed {
                at_least: 4_500,
                is_clear,
                is_limited,
            },
            longest: 4_250,
        };
        let expected = "\
| program | computed | measured | computed ÷ measured |
|---|---:|---:|---:|
| a: `web --fast` | 4.5 s | 4.25 s | 1.06 |
| b: `web --fast` | over 4.5 s | 4.25 s | – |
| c: `web --fast` | no limit | still there after 4 s | – |
";
        assert_eq!(
            render(&[
                row("a", true, true),
                row("b", false, true),
                row("c", true, false)
            ]),
            expected
        );
    }
}
