//! What is read: every section of the page, without any script.

use maud::{Markup, html as markup};
use serde_json::Value;

use super::chart;
use super::overlay::Overlay;
use crate::render::words;
use crate::report::{Check, Fate, Group, Outcome, Report, StopTimeline, Verdict};

pub(super) fn header(report: &Report) -> Markup {
    let (class, word, sign) = match report.verdict {
        Verdict::Passed => ("passed", "Passed", "✓"),
        Verdict::Failed => ("failed", "Failed", "✗"),
        Verdict::NotJudged => ("skipped", "Not judged", "–"),
    };
    markup! {
        header class=(class) {
            p.verdict { span aria-hidden="true" { (sign) } " " (word) }
            h1 { (report.target.name) }
            p.counts {
                @for (outcome, word) in [(Outcome::Failed, "failed"), (Outcome::Passed, "passed"), (Outcome::Skipped, "skipped")] {
                    @if report.count(outcome) > 0 {
                        span class=(outcome.name()) { strong { (report.count(outcome)) } " " (word) }
                    }
                }
            }
            dl.facts {
                @if !report.target.command.is_empty() {
                    div { dt { "Command" } dd { code { (report.target.command.join(" ")) } } }
                }
                @if !report.target.address.is_empty() {
                    div { dt { "Address" } dd { code { (report.target.address) } } }
                }
                div { dt { "When" } dd { time datetime=(report.started) { (report.started) } ", " (words::millis(report.duration_ms as f64)) } }
                div { dt { "How" } dd {
                    @if let Some(rollout) = &report.rollout { (rollout.pace) } @else if report.jobs.is_some() { "jobs" } @else { "level " (report.level.name()) }
                    ", seed " (report.seed) ", " (report.tool)
                } }
            }
        }
    }
}

pub(super) fn starvation(report: &Report) -> Markup {
    markup! {
        @if let Some(starved) = &report.starvation {
            section.careful aria-label="A caution" {
                p {
                    strong { "The drill itself was short of processor time: " }
                    "it was late " (words::count(usize::try_from(starved.times).unwrap_or(usize::MAX), "time", "times"))
                    " by up to " (words::millis(starved.worst_ms)) "; " (starved.note)
                }
            }
        }
    }
}

pub(super) fn failures(report: &Report) -> Markup {
    let failed: Vec<&Check> = report
        .checks
        .iter()
        .filter(|check| check.outcome == Outcome::Failed)
        .collect();
    markup! {
        @if !failed.is_empty() {
            section #failures aria-labelledby="failures-title" {
                h2 #failures-title { "What failed, and how to fix it" }
                @for check in failed {
                    article.failure id=(anchor(&check.id)) {
                        h3 { code { (check.id) } }
                        p.reason { (words::tame(&check.reason)) }
                        p.why { (check.why) }
                        @if let (Some(measured), Some(threshold)) = (&check.measured, &check.threshold) {
                            p { "Measured " strong { (measured) } ", demanded " strong { (threshold) } "." }
                        }
                        @if !check.evidence.is_empty() {
                            h4 { "Evidence" }
                            ul.evidence { @for line in &check.evidence { li { (words::tame(line)) } } }
                        }
                        @if let Some(hint) = &check.hint {
                            h4 { "How to fix it" }
                            @for line in hint.lines() { @if !line.trim().is_empty() { p.hint { (line) } } }
                        }
                    }
                }
            }
        }
    }
}

pub(super) fn timeline(report: &Report, overlay: Option<&Overlay>) -> Markup {
    let chosen = report.most_telling_stop();
    markup! {
        section #timeline aria-labelledby="timeline-title" {
            h2 #timeline-title {
                @if report.rollout.is_some() { "The roll-out, request by request" } @else { "The stop, request by request" }
            }
            @if report.stops.is_empty() {
                p { "No stop was watched closely enough to draw." }
            } @else {
                div.scripted hidden {
                    div.tools role="toolbar" aria-label="Timeline" aria-controls="canvas" {
                        label {
                            "Stop "
                            select #stop {
                                @for (at, stop) in report.stops.iter().enumerate() {
                                    option value=(at) selected[chosen.is_some_and(|chosen| std::ptr::eq(chosen, stop))] { (option_name(stop)) }
                                }
                            }
                        }
                        button type="button" data-do="in" aria-label="Zoom in" { "+" }
                        button type="button" data-do="out" aria-label="Zoom out" { "−" }
                        button type="button" data-do="fit" { "All" }
                        button type="button" data-do="stop" {
                            @if report.rollout.is_some() { "From the command" } @else { "From the signal" }
                        }
                        button type="button" data-do="next" { "Next request not answered" }
                    }
                    canvas #canvas tabindex="0" role="application" aria-roledescription="timeline"
                        aria-label="Requests as bars against the marks of the stop" aria-describedby="keys" {}
                    p #said role="status" aria-live="polite" {}
                    p #keys.keys {
                        kbd { "←" } " " kbd { "→" } " move, " kbd { "+" } " " kbd { "−" } " zoom, " kbd { "0" } " all, "
                        kbd { "," } " " kbd { "." } " the request before or after, " kbd { "n" }
                        " the next not answered. Drag to move, hold Ctrl and turn the wheel to zoom."
                    }
                    (legend(overlay.is_some()))
                }
                noscript { p { "The drawing needs the script in this page; the tables below do not." } }
                details #in-words {
                    summary { (words::count(report.stops.len(), "stop", "stops")) " in words" }
                    @for stop in &report.stops { (marks(stop)) }
                }
                div.scripted hidden {
                    details #requests {
                        summary { "The requests of this stop as a table" }
                        p {
                            label { input #only type="checkbox"; " only those that were not answered" } " "
                            button type="button" data-do="earlier" { "Earlier" } " "
                            button type="button" data-do="later" { "Later" } " "
                            span #page role="status" aria-live="polite" {}
                        }
                        table {
                            caption.hidden { "Requests in order of their start" }
                            thead { tr {
                                th scope="col" { "Request" } th scope="col" { "Connection" } th scope="col" { "Sent at" }
                                th scope="col" { "Took" } th scope="col" { "Fate" }
                            } }
                            tbody #rows {}
                        }
                    }
                }
            }
        }
    }
}

fn option_name(stop: &StopTimeline) -> String {
    let lost = stop.requests.iter().filter(|bar| bar.fate.lost()).count();
    let requests = words::count(stop.requests.len(), "request", "requests");
    match lost {
        0 => format!("{}: {requests}", chart::name(stop)),
        _ => format!("{}: {requests}, {lost} lost", chart::name(stop)),
    }
}

fn legend(own: bool) -> Markup {
    markup! {
        ul.legend aria-label="Colours" {
            @for (class, word) in [
                ("answered", "answered"), ("retry", "told to retry"), ("refused", "refused"), ("unsent", "not sent whole"),
                ("failed", "5xx"), ("lost", "lost: reset, closed, truncated or timed out"),
            ] {
                li { span.swatch.(class) aria-hidden="true" {} (word) }
            }
            @if own { li { span.swatch.own aria-hidden="true" {} "the target's own account" } }
        }
    }
}

/// The marks and the fates of a stop in words: the drawing for those who cannot see it, or have paper.
fn marks(stop: &StopTimeline) -> Markup {
    let mut marks: Vec<_> = stop.marks.iter().collect();
    marks.sort_by_key(|mark| mark.at_us);
    markup! {
        article.stop {
            h3 { (option_name(stop)) }
            table {
                caption.hidden { "Marks of " (chart::name(stop)) }
                thead { tr { th scope="col" { "What" } th scope="col" { @if stop.is_rollout() { "After its beginning" } @else { "After the signal" } } th scope="col" { "More" } } }
                tbody {
                    @for mark in marks {
                        tr { th scope="row" { (mark.kind.words()) } td.number { (words::micros(mark.at_us)) } td { (mark.label) } }
                    }
                }
            }
            ul {
                @for fate in Fate::ALL {
                    @let met = stop.requests.iter().filter(|bar| bar.fate == fate).count();
                    @if met > 0 { li { (words::count(met, "request", "requests")) " " (fate.words()) @if fate.lost() { ", lost" } } }
                }
                @if stop.omitted > 0 { li { (words::thousands(stop.omitted)) " more are counted and not drawn" } }
            }
        }
    }
}

/// The numbers of a roll-out: before, during and after.
pub(super) fn rollout(report: &Report) -> Markup {
    markup! {
        @if let Some(rollout) = &report.rollout {
            section #rollout aria-labelledby="rollout-title" {
                h2 #rollout-title { "Before, during and after the roll-out" }
                @for (run, number) in rollout.runs.iter().zip(1..) {
                    table {
                        caption { "Roll-out " (number) ": the command took " (words::millis(run.command_ms)) }
                        thead { tr {
                            th scope="col" { "Phase" }
                            @for name in words::ROLLOUT_COLUMNS { th.number scope="col" { (name) } }
                        } }
                        tbody {
                            @for (name, phase) in [("before", &run.before), ("during", &run.during), ("after", &run.after)] {
                                tr { th scope="row" { (name) } @for cell in words::rollout_cells(phase) { td.number { (cell) } } }
                            }
                        }
                    }
                    @if !run.failures.is_empty() {
                        ul.evidence { @for line in &run.failures { li { (words::tame(line)) } } }
                    }
                }
            }
        }
    }
}

/// What happened behind a balancer.
pub(super) fn behind(report: &Report) -> Markup {
    markup! {
        @if let Some(behind) = &report.behind {
            section #behind aria-labelledby="behind-title" {
                h2 #behind-title { "Behind " (behind.profile) ": " (behind.about) }
                ul { @for number in &behind.numbers { li { (words::tame(number)) } } }
                @for run in &behind.runs {
                    p {
                        "With " (words::millis(run.pre_stop_ms)) " before the stop signal and a grace period of "
                        (words::millis(run.grace_ms)) ": " strong { (words::thousands(run.lost)) } " of "
                        (words::thousands(run.requests)) " requests lost, " (words::thousands(run.retried)) " retried."
                    }
                    ul.evidence { @for loss in &run.losses { li { (words::tame(loss)) } } }
                }
                @for line in &behind.advice.lines { p.hint { (words::tame(line)) } }
            }
        }
    }
}

pub(super) fn advice(report: &Report) -> Markup {
    markup! {
        @if let Some(advice) = &report.recommendation {
            section #advice aria-labelledby="advice-title" {
                h2 #advice-title { "The grace period to configure" }
                p {
                    "The slowest stop took " strong { (words::millis(advice.worst_ms)) }
                    (words::seen_by(advice)) (words::endless(advice)) ". Half as long again and two seconds for the platform's own part, at least five:"
                }
                dl.advice {
                    div { dt { "Kubernetes" } dd { code { "terminationGracePeriodSeconds: " (advice.termination_grace_period_seconds) } } }
                    div { dt { "Compose" } dd { code { "stop_grace_period: " (advice.stop_grace_period) } } }
                    div { dt { "systemd" } dd { code { "TimeoutStopSec=" (advice.timeout_stop_sec) } } }
                }
            }
        }
    }
}

pub(super) fn checks(report: &Report) -> Markup {
    markup! {
        section #checks aria-labelledby="checks-title" {
            h2 #checks-title { "Every check" }
            div.wide tabindex="0" role="region" aria-labelledby="checks-title" {
                table.checks {
                    thead { tr {
                        th scope="col" { "Check" } th scope="col" { "Outcome" } th scope="col" { "What was seen" }
                        th scope="col" { "Measured" } th scope="col" { "Threshold" } th.number scope="col" { "Runs" } th.number scope="col" { "Time" }
                    } }
                    @for group in Group::ALL {
                        @let checks: Vec<&Check> = report.checks.iter().filter(|check| check.group == group).collect();
                        @if !checks.is_empty() {
                            tbody {
                                tr.group { th scope="rowgroup" colspan="7" { (group.name()) } }
                                @for check in checks { (row(check)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn row(check: &Check) -> Markup {
    let sign = match check.outcome {
        Outcome::Passed => "✓",
        Outcome::Failed => "✗",
        Outcome::Skipped => "–",
    };
    markup! {
        tr class=(check.outcome.name()) {
            th scope="row" title=(check.why) {
                @if check.outcome == Outcome::Failed { a href={ "#" (anchor(&check.id)) } { code { (check.id) } } }
                @else { code { (check.id) } }
            }
            td.outcome { span aria-hidden="true" { (sign) } " " (check.outcome.name()) }
            td { (words::tame(&check.reason)) }
            td { (check.measured.as_deref().unwrap_or_default()) }
            td { (check.threshold.as_deref().unwrap_or_default()) }
            td.number { @if check.outcome != Outcome::Skipped { (check.repeats) } }
            td.number { @if check.outcome != Outcome::Skipped { (words::millis(check.duration_ms as f64)) } }
        }
    }
}

/// The target's own report, in its own words.
pub(super) fn own(report: &Report, overlay: Option<&Overlay>) -> Markup {
    markup! {
        @if let (Some(own), Some(overlay)) = (&report.target_report, overlay) {
            section #own aria-labelledby="own-title" {
                h2 #own-title { "What " (overlay.service) " says of its stop" }
                p {
                    "Cause " strong { (said(&own["cause"])) } ", exit code " strong { (said(&own["exit_code"])) } ", "
                    (words::millis(own["took_ms"].as_f64().unwrap_or_default())) " of "
                    (words::millis(own["grace_ms"].as_f64().unwrap_or_default())) "."
                }
                table {
                    thead { tr { th scope="col" { "Phase" } th.number scope="col" { "Began" } th.number scope="col" { "Took" } } }
                    tbody {
                        @for (phase, from, to) in &overlay.phases {
                            tr { th scope="row" { (phase) } td.number { (words::micros(*from)) } td.number { (words::micros(to - from)) } }
                        }
                    }
                }
                @if let Some(parts) = own["parts"].as_array() {
                    table {
                        thead { tr { th scope="col" { "Part" } th scope="col" { "Kind" } th scope="col" { "Outcome" } th scope="col" { "Notes" } } }
                        tbody {
                            @for part in parts {
                                tr {
                                    th scope="row" { (said(&part["name"])) } td { (said(&part["kind"])) } td { (said(&part["outcome"])) }
                                    td { @for note in part["notes"].as_array().into_iter().flatten() { (said(note)) " " } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A value that a target wrote, whatever it is.
fn said(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

pub(super) fn footer(report: &Report) -> Markup {
    markup! {
        footer { p {
            (report.definition)
            @if report.jobs.is_none() { " Refused connections, and answers that tell the client to try elsewhere, are counted apart." }
        } }
    }
}

/// An id that is safe in an attribute and after a `#`.
fn anchor(id: &str) -> String {
    let safe = |found: char| {
        if found.is_ascii_alphanumeric() {
            found
        } else {
            '-'
        }
    };
    format!("check-{}", id.chars().map(safe).collect::<String>())
}
