//! What the script draws, in as few bytes as a hundred thousand bars deserve: columns instead of objects, labels once.

use std::collections::HashMap;

use serde::Serialize;

use super::lanes::lanes;
use super::overlay::Overlay;
use crate::report::{Bar, Fate, Report, StopTimeline};

#[derive(Serialize)]
pub(super) struct Chart<'a> {
    fates: Vec<FateKey>,
    stops: Vec<StopMark<'a>>,
}

#[derive(Serialize)]
struct FateKey {
    words: &'static str,
    lost: bool,
    /// The name of its colour.
    colour: &'static str,
}

#[derive(Serialize)]
struct StopMark<'a> {
    name: String,
    marks: Vec<MarkKey<'a>>,
    labels: Vec<&'a str>,
    /// Columns of the bars, all in order of their start.
    start: Vec<i64>,
    end: Vec<i64>,
    connection: Vec<u32>,
    label: Vec<usize>,
    fate: Vec<usize>,
    lane: Vec<u32>,
    omitted: u64,
    own: Option<&'a Overlay>,
}

#[derive(Serialize)]
struct MarkKey<'a> {
    at: i64,
    words: &'static str,
    label: &'a str,
}

impl<'a> Chart<'a> {
    pub(super) fn of(report: &'a Report, overlay: Option<&'a Overlay>) -> Self {
        // A target that was stopped once can only have told of that.
        let about = report
            .target_report_stop
            .or((report.stops.len() == 1).then_some(0));
        let stops = report.stops.iter().enumerate();
        Self {
            fates: Fate::ALL.iter().map(|fate| FateKey::of(*fate)).collect(),
            stops: stops
                .map(|(at, timeline)| StopMark::of(timeline, overlay.filter(|_| about == Some(at))))
                .collect(),
        }
    }

    /// JSON that may stand in a script element: nothing in it ends one, or begins another.
    pub(super) fn to_script(&self) -> String {
        // Nothing in it can fail to serialise.
        let json = serde_json::to_string(self).unwrap_or_default();
        let mut escaped = String::with_capacity(json.len());
        for found in json.chars() {
            match found {
                '<' => escaped.push_str("\\u003c"),
                '>' => escaped.push_str("\\u003e"),
                '&' => escaped.push_str("\\u0026"),
                '\u{2028}' => escaped.push_str("\\u2028"),
                '\u{2029}' => escaped.push_str("\\u2029"),
                _ => escaped.push(found),
            }
        }
        escaped
    }
}

impl FateKey {
    fn of(fate: Fate) -> Self {
        let colour = match fate {
            Fate::Answered => "answered",
            Fate::Retry => "retry",
            Fate::Refused => "refused",
            Fate::Unsent => "unsent",
            Fate::ServerError => "failed",
            Fate::Reset | Fate::Closed | Fate::Truncated | Fate::TimedOut => "lost",
        };
        Self {
            words: fate.words(),
            lost: fate.lost(),
            colour,
        }
    }
}

impl<'a> StopMark<'a> {
    fn of(stop: &'a StopTimeline, own: Option<&'a Overlay>) -> Self {
        let mut bars: Vec<&Bar> = stop.requests.iter().collect();
        bars.sort_by_key(|bar| bar.start_us);
        let mut labels = Vec::new();
        let mut known = HashMap::new();
        let label = bars
            .iter()
            .map(|bar| {
                *known.entry(bar.label.as_str()).or_insert_with(|| {
                    labels.push(bar.label.as_str());
                    labels.len() - 1
                })
            })
            .collect();
        let fate = |bar: &&Bar| {
            let position = Fate::ALL.iter().position(|fate| *fate == bar.fate);
            position.unwrap_or_default()
        };
        let mut marks: Vec<MarkKey<'_>> = stop
            .marks
            .iter()
            .map(|mark| MarkKey {
                at: mark.at_us,
                words: mark.kind.words(),
                label: &mark.label,
            })
            .collect();
        marks.sort_by_key(|mark| mark.at);
        Self {
            name: name(stop),
            marks,
            label,
            labels,
            start: bars.iter().map(|bar| bar.start_us).collect(),
            end: bars
                .iter()
                .map(|bar| bar.end_us.max(bar.start_us))
                .collect(),
            connection: bars.iter().map(|bar| bar.connection).collect(),
            fate: bars.iter().map(fate).collect(),
            lane: lanes(&bars),
            omitted: stop.omitted,
            own,
        }
    }
}

/// What a stop is called in the list of stops.
pub(super) fn name(stop: &StopTimeline) -> String {
    stop.title()
}
