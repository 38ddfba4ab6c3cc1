//! The page as a whole: head, order of the sections, data, script.

use maud::{DOCTYPE, Markup, PreEscaped, html as markup};

use super::chart::Chart;
use super::jobs;
use super::overlay::Overlay;
use super::policy::policy;
use super::sections;
use crate::report::{Report, Verdict};

const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("timeline.js");

/// Marks a file as ours, so that the next one may replace it.
const GENERATOR: &str = "adieu drill";

/// The report as one self-contained HTML file.
#[must_use]
pub fn html(report: &Report) -> String {
    let overlay = report.target_report.as_ref().and_then(Overlay::read);
    let chart = Chart::of(report, overlay.as_ref());
    page(report, overlay.as_ref(), &chart).into_string()
}

/// Reports of several targets as one self-contained HTML file: each is a page in a frame of its own, under its name.
#[must_use]
pub fn html_of_all(reports: &[Report]) -> String {
    if let [report] = reports {
        return html(report);
    }
    let page = markup! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="generator" content=(GENERATOR);
                // The frames inherit it, and have the same style and script.
                meta http-equiv="Content-Security-Policy" content=(policy(STYLE, SCRIPT));
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "the drills of " (reports.len()) " targets" }
                style { (PreEscaped(STYLE)) }
            }
            body.all {
                main {
                    @for report in reports {
                        details open[report.verdict == Verdict::Failed] {
                            summary { (report.target.name) ": " (report.verdict.name()) }
                            iframe.target title=(report.target.name) srcdoc=(html(report)) {}
                        }
                    }
                }
            }
        }
    };
    page.into_string()
}

/// Whether a file that begins like this was written by [`html`].
#[must_use]
pub fn is_report(beginning: &str) -> bool {
    let mark = format!("<meta name=\"generator\" content=\"{GENERATOR}\">");
    beginning.starts_with("<!DOCTYPE html>") && beginning.contains(&mark)
}

fn page(report: &Report, overlay: Option<&Overlay>, chart: &Chart<'_>) -> Markup {
    let verdict = match report.verdict {
        Verdict::Passed => "passed",
        Verdict::Failed => "failed",
        Verdict::NotJudged => "was not judged by",
    };
    markup! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="generator" content=(GENERATOR);
                meta http-equiv="Content-Security-Policy" content=(policy(STYLE, SCRIPT));
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (report.target.name) " " (verdict) " the drill" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                a.skip href="#checks" { "To the checks" }
                (sections::header(report))
                main {
                    (sections::starvation(report))
                    (sections::failures(report))
                    (sections::rollout(report))
                    (sections::behind(report))
                    (jobs::jobs(report))
                    (sections::timeline(report, overlay))
                    (sections::advice(report))
                    (sections::checks(report))
                    (sections::own(report, overlay))
                }
                (sections::footer(report))
                script type="application/json" id="chart" { (PreEscaped(chart.to_script())) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
}
