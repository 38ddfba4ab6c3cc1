//! `cargo xtask charts`: the chart of lost requests, drawn from the measured numbers in `docs/benchmarks.md`.

use std::fmt::Write;
use std::fs;
use std::process::ExitCode;

use crate::checkout::Checkout;
use crate::step::Failure;

const PAGE: &str = "docs/benchmarks.md";
const CHART: &str = "docs/img/lost-requests.svg";
/// Stands in the page before the table that is drawn.
const MARK: &str =
    "<!-- chart: lost-requests.svg is drawn from this table by cargo xtask charts -->";

const HELP: &str = "\
Charts of the pages, drawn from their numbers.

usage: cargo xtask charts

Draws docs/img/lost-requests.svg from the table that `cargo xtask bench cloak` fills in docs/benchmarks.md. A test fails
when the chart and the table differ.

exit code: 0 drawn, 1 the table cannot be read, 2 usage
";

pub(crate) fn run(words: &[&str]) -> ExitCode {
    match words {
        [] => match draw(&Checkout::here()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                eprintln!("error: {}", failure.why());
                ExitCode::FAILURE
            }
        },
        ["--help" | "-h"] => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        [unknown, ..] => crate::usage(
            &format!("`charts` has no option `{unknown}`"),
            "charts --help",
        ),
    }
}

fn draw(checkout: &Checkout) -> Result<(), Failure> {
    let page = fs::read_to_string(checkout.root().join(PAGE))?;
    fs::write(checkout.root().join(CHART), svg(&rows(&page)?))?;
    Ok(())
}

/// A server with the requests that it lost, as it is and under `adieu run`.
struct Row<'page> {
    server: &'page str,
    alone: u32,
    under_run: u32,
}

fn rows(page: &str) -> Result<Vec<Row<'_>>, Failure> {
    let wrong = || {
        Failure::new(format!(
            "{PAGE} has no table of lost requests after its mark"
        ))
    };
    let (_, table) = page.split_once(MARK).ok_or_else(wrong)?;
    let lines = table.trim_start().lines().skip(2);
    let rows: Option<Vec<_>> = lines
        .take_while(|line| line.starts_with('|'))
        .map(row)
        .collect();
    rows.filter(|rows| !rows.is_empty()).ok_or_else(wrong)
}

fn row(line: &str) -> Option<Row<'_>> {
    let mut cells = line.trim_matches('|').split('|').map(str::trim);
    // What follows a comma says how the server was started.
    let server = cells.next()?.split(',').next()?;
    let alone = cells.next()?.parse().ok()?;
    let under_run = cells.next()?.parse().ok()?;
    Some(Row {
        server,
        alone,
        under_run,
    })
}

const LEFT: u32 = 150;
const WIDEST: u32 = 560;

fn svg(rows: &[Row<'_>]) -> String {
    let most = rows.iter().map(|row| row.alone.max(row.under_run)).max();
    let most = most.unwrap_or(1).max(1);
    let length = |lost: u32| lost * WIDEST / most;
    let height = 96 + 56 * u32::try_from(rows.len()).unwrap_or(0);
    let mut out = String::new();
    let described: Vec<String> = rows
        .iter()
        .map(|row| {
            format!(
                "{} {}, with adieu run {}",
                row.server, row.alone, row.under_run
            )
        })
        .collect();
    // Writing to a string cannot fail.
    let _ = write!(
        out,
        "\
<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 800 {height}\" width=\"800\" height=\"{height}\" role=\"img\" aria-labelledby=\"t d\">
<title id=\"t\">Requests lost in 20 shutdowns under load</title>
<desc id=\"d\">{}.</desc>
<rect width=\"800\" height=\"{height}\" fill=\"#ffffff\"/>
<g font-family=\"system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif\" font-size=\"14\" fill=\"#1f2933\">
<text x=\"16\" y=\"28\" font-size=\"17\" font-weight=\"600\">Requests lost in 20 shutdowns under load</text>
<text x=\"16\" y=\"50\" font-size=\"13\" fill=\"#5b6770\">32 clients, a new connection for each request; lost: sent whole, and no response</text>
",
        described.join("; ")
    );
    for (row, top) in rows.iter().zip((72..).step_by(56)) {
        let (alone, under_run) = (length(row.alone), length(row.under_run).max(3));
        let _ = write!(
            out,
            "\
<text x=\"16\" y=\"{name}\">{server}</text>
<rect x=\"{LEFT}\" y=\"{top}\" width=\"{alone}\" height=\"20\" rx=\"2\" fill=\"#c7372f\"/>
<text x=\"{after_alone}\" y=\"{line}\" fill=\"#c7372f\" font-weight=\"600\">{lost}</text>
<rect x=\"{LEFT}\" y=\"{second}\" width=\"{under_run}\" height=\"20\" rx=\"2\" fill=\"#1f8a5b\"/>
<text x=\"{after_run}\" y=\"{second_line}\" fill=\"#1f8a5b\" font-weight=\"600\">{with_run} with adieu run</text>
",
            name = top + 26,
            server = row.server,
            after_alone = LEFT + alone + 8,
            line = top + 15,
            lost = row.alone,
            second = top + 22,
            after_run = LEFT + under_run + 8,
            second_line = top + 37,
            with_run = row.under_run,
        );
    }
    out.push_str("</g>\n</svg>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chart_shows_the_table() {
        let root = Checkout::here();
        let page = fs::read_to_string(root.root().join(PAGE)).expect("the page");
        let chart = fs::read_to_string(root.root().join(CHART)).expect("the chart");
        let drawn = svg(&rows(&page).expect("a table"));
        assert!(
            chart == drawn,
            "`cargo xtask charts` draws {CHART} anew: its table has changed"
        );
    }

    #[test]
    fn bars_are_as_long_as_their_numbers() {
        let page = format!(
            "{MARK}\n\n| server | as it is | with `adieu run` |\n|---|--:|--:|\n| a 1, x | 200 | 0 |\n| b | 100 | 10 |\n"
        );
        let rows = rows(&page).expect("a table");
        assert_eq!((rows[0].server, rows[1].under_run), ("a 1", 10));
        let drawn = svg(&rows);
        for width in [WIDEST, WIDEST / 2, WIDEST / 20] {
            assert!(
                drawn.contains(&format!("width=\"{width}\" height=\"20\"")),
                "{drawn}"
            );
        }
    }

    #[test]
    fn a_page_without_the_table_is_an_error() {
        assert!(rows("no table").is_err());
        assert!(rows(&format!("{MARK}\n\nno table")).is_err());
    }
}
