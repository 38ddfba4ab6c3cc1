//! Where the reports go.

use std::path::PathBuf;

use adieu_drill::report::{Report, VERSION, Verdict};
use adieu_drill::{file, render};
use serde_json::json;

use super::args::DrillArgs;
use crate::output;
use crate::ui;

/// Finds out before the first drill whether all reports can be written after the last.
pub(super) fn check(args: &DrillArgs) -> Result<(), String> {
    let files = [&args.html, &args.junit, &args.markdown, &args.badge];
    for path in files.into_iter().flatten() {
        file::check_writable(path).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// All targets as one text.
type Renderer = fn(&[Report]) -> String;

/// Writes the files: all targets in one of each kind.
pub(super) fn files(args: &DrillArgs, reports: &[Report]) -> Result<(), String> {
    if let Some(path) = &args.html {
        let page = render::html_of_all(reports);
        file::write_shared(path, page.as_bytes()).map_err(|error| error.to_string())?;
    }
    let texts: [(&Option<PathBuf>, Renderer); 3] = [
        (&args.junit, render::junit),
        (&args.markdown, render::markdown),
        (&args.badge, render::badge),
    ];
    for (path, render) in texts {
        if let Some(path) = path {
            let text = render(reports);
            file::write_shared(path, text.as_bytes()).map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

/// Says where the files are.
pub(super) fn tell_files(args: &DrillArgs) {
    for (path, what) in [
        (&args.html, "a browser"),
        (&args.junit, "a build server"),
        (&args.markdown, "a comment"),
        (&args.badge, "a badge"),
    ] {
        if let Some(path) = path {
            output::note(format!("the report for {what}: {}", path.display()));
        }
    }
}

/// One report for a person.
pub(super) fn text(report: &Report) -> Result<(), String> {
    output::print(&render::text(report, ui::style()))
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
            let verdict = Verdict::of_all(several.iter().map(|report| report.verdict));
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
