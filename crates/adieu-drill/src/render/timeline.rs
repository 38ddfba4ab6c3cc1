//! One stop as lines of text.

use unicode_width::UnicodeWidthStr;

use super::sparkline::sparkline;
use super::style::{Style, Tone};
use super::words;
use crate::report::{Fate, MarkKind, StopTimeline};

/// Columns of the names at the left.
const NAMES: usize = 17;
/// Columns of the times at the right.
const TIMES: usize = 10;

/// One stop: a line a mark, at its place in time, and the requests in flight as a sparkline.
#[must_use]
pub fn timeline(stop: &StopTimeline, style: Style) -> String {
    let mut lines = heading(stop, style);
    let (from, to) = window(stop);
    let labels = stop
        .marks
        .iter()
        .map(|mark| words::tame(&mark.label).width());
    let widest = labels.max().unwrap_or(0);
    let room = widest.clamp(10, style.columns() / 4);
    let columns = style.columns() - (2 + NAMES + TIMES + 2 + room);
    let column = |at: i64| {
        let share = (at - from) as f64 / (to - from) as f64;
        ((share * columns as f64) as usize).min(columns - 1)
    };
    let curve = stop.in_flight(from, to, columns);
    let peak = curve.iter().max().copied().unwrap_or(0);
    if !stop.requests.is_empty() {
        lines.push(format!(
            "  {:NAMES$}{}  {}",
            "in flight",
            style.paint(Tone::Good, &sparkline(&curve)),
            style.paint(
                Tone::Aside,
                &format!("at most {}", words::thousands(u64::from(peak)))
            ),
        ));
    }
    let mut marks: Vec<_> = stop.marks.iter().collect();
    marks.sort_by_key(|mark| mark.at_us);
    for mark in marks {
        let at = column(mark.at_us);
        let tone = match mark.kind {
            MarkKind::Signal => Tone::Careful,
            _ => Tone::Heading,
        };
        let time = words::micros(mark.at_us);
        let blank = " ".repeat(TIMES.saturating_sub(time.width()));
        lines.push(format!(
            "  {:NAMES$}{}{}{}{blank}{time}  {}",
            mark.kind.words(),
            style.paint(Tone::Aside, &"·".repeat(at)),
            style.paint(tone, "◆"),
            style.paint(Tone::Aside, &"·".repeat(columns - 1 - at)),
            style.paint(Tone::Aside, &words::cut(&words::tame(&mark.label), room)),
        ));
    }
    lines
        .iter()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}

fn heading(stop: &StopTimeline, style: Style) -> Vec<String> {
    let name = words::tame(&stop.title());
    let name = style.paint(Tone::Heading, &name);
    let mut lines = vec![match stop.at(MarkKind::Exit) {
        // Several instances have an exit each.
        Some(exit) if stop.at(MarkKind::OutOfRoutes).is_none() => {
            format!("{name}: {} from signal to exit", words::micros(exit))
        }
        _ => name,
    }];
    let total = stop.requests.len() + usize::try_from(stop.omitted).unwrap_or(usize::MAX);
    if total > 0 {
        let met = |fate| stop.requests.iter().filter(|bar| bar.fate == fate).count();
        let mut fates: Vec<String> = Fate::ALL
            .into_iter()
            .filter(|fate| met(*fate) > 0)
            .map(|fate| format!("{} {}", words::thousands(met(fate) as u64), fate.words()))
            .collect();
        if stop.omitted > 0 {
            fates.push(format!("{} not drawn", words::thousands(stop.omitted)));
        }
        let said = format!(
            "{}: {}",
            words::count(total, "request", "requests"),
            fates.join(", ")
        );
        let bad = stop
            .requests
            .iter()
            .any(|bar| bar.fate.lost() || bar.fate == Fate::ServerError);
        let tone = if bad { Tone::Bad } else { Tone::Aside };
        for line in words::wrap(&said, style.columns() - 2) {
            lines.push(format!("  {}", style.paint(tone, &line)));
        }
    }
    lines
}

/// All that came after the signal, and a quarter as much of what was before it.
fn window(stop: &StopTimeline) -> (i64, i64) {
    let (first, last) = stop.span();
    let last = last.max(1);
    (first.max(-last / 4), last)
}
