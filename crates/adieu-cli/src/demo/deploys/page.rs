//! The timeline as an HTML page of its own, without a script.

use std::fmt::Write;
use std::time::Instant;

use super::Story;
use super::client::ConnectionKind;

const WIDTH: f64 = 1_000.0;
const LANE: f64 = 40.0;
const LEFT: f64 = 90.0;
const STYLE: &str = "\
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; color-scheme: light dark }
svg { width: 100%; height: auto; font-size: 12px }
svg text { fill: currentColor }
.even { stroke: #2f6fd0 } .odd { stroke: #d0742f }
.deploy { stroke: currentColor; stroke-dasharray: 3 3; opacity: 0.5 }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
td, th { text-align: right; padding: 0.1rem 0.8rem }
";

/// Every message is a mark in the colour of its process, every deploy a dashed line.
pub(super) fn html(story: &Story) -> String {
    let end = story.messages.last().map_or(story.begun, |last| last.at);
    let whole = (end - story.begun).as_secs_f64().max(0.001);
    let x = |at: Instant| {
        LEFT + (at.saturating_duration_since(story.begun).as_secs_f64() / whole) * (WIDTH - LEFT)
    };
    let mut marks = String::new();
    for (lane, kind) in ConnectionKind::ALL.into_iter().enumerate() {
        let top = lane as f64 * LANE + 10.0;
        let _ = writeln!(
            marks,
            "<text x=\"0\" y=\"{}\">{}</text>",
            top + 18.0,
            kind.name()
        );
        for message in story.of(kind) {
            let process = story
                .deploys
                .iter()
                .position(|deploy| deploy.new == message.pid);
            let colour = if process.map_or(0, |it| it + 1) % 2 == 0 {
                "even"
            } else {
                "odd"
            };
            let (x, bottom) = (x(message.at), top + LANE - 14.0);
            let _ = writeln!(
                marks,
                "<line class=\"{colour}\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top}\" y2=\"{bottom}\"><title>{} from process {}</title></line>",
                message.number, message.pid
            );
        }
    }
    let height = ConnectionKind::ALL.len() as f64 * LANE + 10.0;
    let mut rows = String::new();
    for (number, deploy) in (1_usize..).zip(&story.deploys) {
        let x = x(deploy.at);
        let _ = writeln!(
            marks,
            "<line class=\"deploy\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"0\" y2=\"{height}\"><title>deploy {number}: process {} to {}</title></line>",
            deploy.old, deploy.new
        );
        let _ = write!(rows, "<tr><td>{number}<td>{}<td>{}", deploy.old, deploy.new);
        let next = story.deploys.get(number).map(|next| next.at);
        for kind in ConnectionKind::ALL {
            let ms = story.longest_gap(kind, deploy.at, next).as_secs_f64() * 1_000.0;
            let _ = write!(rows, "<td>{ms:.0} ms");
        }
        rows.push('\n');
    }
    let kinds: String = ConnectionKind::ALL
        .map(|kind| format!("<th>{}", kind.name()))
        .concat();
    let summary = story.summary();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"generator\" content=\"adieu drill\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Deploys that no client notices</title>\n\
         <style>{STYLE}</style>\n<h1>Deploys that no client notices</h1>\n<p>{summary}</p>\n\
         <svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"Messages of three connections over time, and the deploys\">\n\
         {marks}</svg>\n<p>Every mark is a message, in the colour of the process that has sent it. Every dashed line is a deploy. \
         Each row is one connection.</p>\n<h2>Longest gap between two messages, from each deploy on</h2>\n\
         <table>\n<tr><th>deploy<th>old process<th>new process{kinds}\n{rows}</table>\n"
    )
}
