//! What became of jobs, as a section of the page.

use maud::{Markup, html as markup};

use crate::render::jobs::{COLUMNS, cells, heading};
use crate::report::Report;

/// The stops of the workers.
pub(super) fn jobs(report: &Report) -> Markup {
    markup! {
        @if let Some(jobs) = &report.jobs {
            section #jobs aria-labelledby="jobs-title" {
                h2 #jobs-title { "Stops of workers" }
                p { (heading(jobs)) }
                dl.facts {
                    div { dt { "Enqueued by" } dd { code { (jobs.enqueue) } } }
                    div { dt { "Ledger of" } dd { code { (jobs.done) } } }
                }
                div.wide tabindex="0" role="region" aria-labelledby="jobs-title" {
                    table {
                        thead { tr { @for name in COLUMNS { th scope="col" { (name) } } } }
                        tbody {
                            @for stop in &jobs.stops { tr { @for cell in cells(stop) { td { (cell) } } } }
                        }
                    }
                }
                @if !jobs.ended_alone.is_empty() {
                    ul.evidence { @for line in &jobs.ended_alone { li { (line) } } }
                }
            }
        }
    }
}
