//! Where the reports go.

use std::path::{Path, PathBuf};

use adieu_drill::report::{Report, VERSION, Verdict};
use adieu_drill::{file, render};
use serde_json::json;

use super::args::DrillArgs;
use crate::output;
use crate::show;

/// Where a report of the `number`th of `total` targets goes: `report.html`, or `report-2.html`.
fn place(path: &Path, number: usize, total: usize) -> PathBuf {
    if total == 1 {
        return path.to_owned();
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = match path.extension() {
        Some(extension) => format!("{stem}-{number}.{}", extension.to_string_lossy()),
        None => format!("{stem}-{number}"),
    };
    path.with_file_name(name)
}

/// Finds out before the first drill whether all reports can be written after the last.
pub(super) fn check(args: &DrillArgs, total: usize) -> Result<(), String> {
    for path in args.html.iter().chain(&args.junit) {
        for number in 1..=total {
            file::check_writable(&place(path, number, total)).map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

/// Writes the files of one report.
pub(super) fn files(
    args: &DrillArgs,
    report: &Report,
    number: usize,
    total: usize,
) -> Result<(), String> {
    if let Some(path) = &args.html {
        let path = place(path, number, total);
        file::write(&path, render::html(report).as_bytes()).map_err(|error| error.to_string())?;
        if !args.json {
            output::note(format!("the report for a browser: {}", path.display()));
        }
    }
    if let Some(path) = &args.junit {
        let path = place(path, number, total);
        file::write(&path, render::junit(report).as_bytes()).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// One report for a person.
pub(super) fn text(report: &Report) -> Result<(), String> {
    output::print(&render::text(report, show::style()))
}

/// The reports of those targets that were drilled before one could not be, if any, and why that one could not.
pub(super) fn json_so_far(reports: &[Report], target: &str, error: &str) -> Result<(), String> {
    let checks: Vec<_> = reports.iter().flat_map(|report| &report.checks).collect();
    let object = json!({
        "version": VERSION,
        // Not all that was asked for has been shown.
        "verdict": Verdict::Failed,
        "checks": checks,
        "reports": reports,
        "errors": [{ "target": target, "error": error }],
    });
    output::print(&format!("{object:#}\n"))
}

/// All reports as one object: a report itself if there is one, otherwise all of them beside a common verdict.
pub(super) fn json(reports: &[Report]) -> Result<(), String> {
    let text = match reports {
        [report] => report.to_json(),
        several => {
            let failed = several
                .iter()
                .any(|report| report.verdict == Verdict::Failed);
            let verdict = if failed {
                Verdict::Failed
            } else {
                Verdict::Passed
            };
            let checks: Vec<_> = several.iter().flat_map(|report| &report.checks).collect();
            let object = json!({
                "version": VERSION,
                "verdict": verdict,
                "checks": checks,
                "reports": several,
            });
            format!("{object:#}\n")
        }
    };
    output::print(&text)
}
