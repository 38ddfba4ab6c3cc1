//! The target's own account of its stop, in the drill's time.
//!
//! The target counts from the moment it was asked to stop; the drill, from the moment it sent the signal. The two are
//! taken for the same: the way of a signal is shorter than a pixel, unless the target did not get to run.

use serde::Serialize;
use serde_json::Value;

/// More is not read by anyone, and a target may write what it likes.
const MOST_EVENTS: usize = 500;

/// What the target said of one stop. Times in microseconds.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct Overlay {
    /// Who said it.
    pub(super) service: String,
    /// Name, begin, end.
    pub(super) phases: Vec<(String, i64, i64)>,
    /// When, what.
    pub(super) events: Vec<(i64, String)>,
}

impl Overlay {
    /// None if it is not a report of version 1, or has no stop in it.
    pub(super) fn read(report: &Value) -> Option<Self> {
        if report["version"] != 1 {
            return None;
        }
        let phases: Vec<(String, i64, i64)> = report["phases"]
            .as_array()?
            .iter()
            .filter_map(|phase| {
                let began = micros(&phase["began_ms"])?;
                let took = micros(&phase["took_ms"])?;
                Some((
                    phase["phase"].as_str()?.to_owned(),
                    began,
                    began.saturating_add(took),
                ))
            })
            .collect();
        let service = report["service"]
            .as_str()
            .unwrap_or("the target")
            .to_owned();
        let events = events(report).unwrap_or_default();
        (!phases.is_empty()).then_some(Self {
            service,
            phases,
            events,
        })
    }
}

fn events(report: &Value) -> Option<Vec<(i64, String)>> {
    let timeline = report["timeline"].as_array()?;
    let began = timeline
        .iter()
        .position(|entry| entry["event"] == "stopping")?;
    let zero = micros(&timeline[began]["at_ms"])?;
    let events = timeline[began..].iter().take(MOST_EVENTS);
    Some(
        events
            .filter_map(|entry| {
                let at = micros(&entry["at_ms"])?.saturating_sub(zero);
                Some((at, words(entry)?))
            })
            .collect(),
    )
}

/// `drain begins`, `http web closed`, `stopping: sigterm`.
fn words(entry: &Value) -> Option<String> {
    let event = entry["event"].as_str()?;
    let said = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
    Some(match event {
        "phase" => format!("{} begins", said("phase")),
        "stopping" => format!("stopping: {}", said("cause")),
        "ended" => format!("ended with exit code {}", entry["exit_code"]),
        _ => {
            let of = [said("kind"), said("part"), said("task")];
            let of: Vec<&str> = of
                .iter()
                .map(String::as_str)
                .filter(|word| !word.is_empty())
                .collect();
            format!("{} {event}", of.join(" ")).trim().to_owned()
        }
    })
}

fn micros(ms: &Value) -> Option<i64> {
    let ms = ms.as_f64().filter(|ms| ms.is_finite())?;
    Some((ms * 1_000.0).round() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn times_count_from_the_request_to_stop() {
        let report = json!({
            "version": 1,
            "service": "web",
            "phases": [{"phase": "drain", "began_ms": 0.5, "took_ms": 20, "budget_ms": 7000}],
            "timeline": [
                {"event": "running", "at_ms": 3},
                {"event": "stopping", "cause": "sigterm", "at_ms": 1000},
                {"event": "phase", "phase": "drain", "at_ms": 1000.5},
                {"event": "finished", "kind": "http", "part": "web", "at_ms": 1020.25},
                {"event": "ended", "exit_code": 0, "at_ms": 1021},
            ],
        });
        let overlay = Overlay::read(&report).expect("a report");
        assert_eq!(overlay.phases, [("drain".to_owned(), 500, 20_500)]);
        let events: Vec<(i64, &str)> = overlay
            .events
            .iter()
            .map(|(at, words)| (*at, words.as_str()))
            .collect();
        assert_eq!(
            events,
            [
                (0, "stopping: sigterm"),
                (500, "drain begins"),
                (20_250, "http web finished"),
                (21_000, "ended with exit code 0"),
            ]
        );
    }

    #[test]
    fn what_is_no_report_is_left_out() {
        for nonsense in [
            json!(null),
            json!([]),
            json!({"version": 2, "phases": []}),
            json!({"version": 1}),
            json!({"version": 1, "phases": [{"phase": 3}]}),
            json!({"version": 1, "phases": "none"}),
        ] {
            assert_eq!(Overlay::read(&nonsense), None, "{nonsense}");
        }
    }
}
