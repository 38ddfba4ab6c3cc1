//! A report as a trace, in the JSON encoding of OTLP: a span for the stop, one for each phase, one for each component with the
//! event `adieu.part.stop`.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use adieu_lifecycle::{Outcome, Phase};
use serde_json::{Value, json};

use crate::report::{ComponentReport, Notice, Report};

/// `SPAN_KIND_INTERNAL`.
const INTERNAL: u8 = 1;
const STATUS_OK: u8 = 1;
const STATUS_ERROR: u8 = 2;

/// The trace of a stop that has come so far by `now`.
pub(super) fn trace(report: &Report, now: SystemTime) -> String {
    let ids = Ids::new();
    let began = now.checked_sub(report.took()).unwrap_or(UNIX_EPOCH);
    let started = now.checked_sub(report.uptime).unwrap_or(UNIX_EPOCH);
    let root = ids.span(0);
    let cause = report.cause().map(ToString::to_string).unwrap_or_default();
    let mut spans = vec![json!({
        "traceId": ids.trace,
        "spanId": root,
        "name": "adieu.stop",
        "kind": INTERNAL,
        "startTimeUnixNano": nanos(began),
        "endTimeUnixNano": nanos(now),
        "attributes": [
            text("adieu.stop.cause", &cause),
            double("adieu.stop.grace", report.grace.as_secs_f64()),
        ],
    })];
    let mut of_phase = Vec::new();
    for (number, phase) in (1_u64..).zip(report.phases()) {
        let id = ids.span(number);
        let from = began + phase.began;
        spans.push(json!({
            "traceId": ids.trace,
            "spanId": id,
            "parentSpanId": root,
            "name": format!("adieu.phase.{}", phase.phase),
            "kind": INTERNAL,
            "startTimeUnixNano": nanos(from),
            "endTimeUnixNano": nanos(from + phase.took),
            "attributes": [double("adieu.phase.budget", phase.budget.as_secs_f64())],
        }));
        of_phase.push((phase.phase, id));
    }
    for (number, part) in (1_000_u64..).zip(report.parts()) {
        // What is not over has no outcome to tell of: the export itself, and what comes after it.
        let Some(ended) = ended_at(report, part) else {
            continue;
        };
        let phase = part.kind.role().phase();
        let parent = (of_phase.iter()).find(|(known, _)| *known == phase);
        let span = Span {
            trace: &ids.trace,
            id: ids.span(number),
            parent: parent.map_or(&root, |(_, id)| id),
            ended: started + ended,
        };
        spans.push(component(&span, part, phase));
    }
    let resource = [
        text("service.name", report.service()),
        json!({"key": "process.pid", "value": {"intValue": std::process::id().to_string()}}),
    ];
    json!({"resourceSpans": [{
        "resource": {"attributes": resource},
        "scopeSpans": [{
            "scope": {"name": "adieu", "version": env!("CARGO_PKG_VERSION")},
            "spans": spans,
        }],
    }]})
    .to_string()
}

/// Where a span is in its trace.
struct Span<'a> {
    trace: &'a str,
    id: String,
    parent: &'a str,
    ended: SystemTime,
}

fn component(span: &Span<'_>, part: &ComponentReport, phase: Phase) -> Value {
    let mut attributes = vec![
        text("adieu.part.name", &part.name),
        text("adieu.part.kind", part.kind.name()),
        text("adieu.part.phase", phase.name()),
        text("adieu.part.outcome", part.outcome.name()),
        text("code.location", &part.place),
        double("adieu.part.stop.duration", part.ending.as_secs_f64()),
    ];
    let error = error_type(part.outcome);
    attributes.extend(error.map(|error| text("error.type", error)));
    let mut status = json!({"code": if error.is_some() { STATUS_ERROR } else { STATUS_OK }});
    if let Some(failure) = &part.failure {
        status["message"] = failure.to_string().into();
    }
    let from = span.ended.checked_sub(part.ending).unwrap_or(span.ended);
    json!({
        "traceId": span.trace,
        "spanId": span.id,
        "parentSpanId": span.parent,
        "name": format!("{} {}", part.kind.name(), part.name),
        "kind": INTERNAL,
        "startTimeUnixNano": nanos(from),
        "endTimeUnixNano": nanos(span.ended),
        "events": [{
            "timeUnixNano": nanos(span.ended),
            "name": "adieu.part.stop",
            "attributes": attributes,
        }],
        "status": status,
    })
}

/// As OpenTelemetry's own components say it: nothing on success.
const fn error_type(outcome: Outcome) -> Option<&'static str> {
    match outcome {
        Outcome::Finished | Outcome::Closed => None,
        Outcome::Failed => Some("failed"),
        Outcome::Cancelled | Outcome::Abandoned | Outcome::NotReached => Some("timeout"),
    }
}

/// When the component got its outcome, since the start of the service.
fn ended_at(report: &Report, part: &ComponentReport) -> Option<Duration> {
    report
        .timeline()
        .iter()
        .rev()
        .find_map(|(at, notice)| match notice {
            Notice::Settled { part: name, .. } if **name == *part.name => Some(*at),
            _ => None,
        })
}

fn text(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

fn double(key: &str, value: f64) -> Value {
    json!({"key": key, "value": {"doubleValue": value}})
}

/// 64-bit numbers are strings in this encoding.
fn nanos(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_nanos().to_string()
}

/// The numbers of one trace. The hasher's keys are random.
struct Ids {
    random: RandomState,
    trace: String,
}

impl Ids {
    fn new() -> Self {
        let random = RandomState::new();
        let half = |number: u64| random.hash_one((number, "trace"));
        let trace = format!("{:016x}{:016x}", half(0), half(1));
        Self { random, trace }
    }

    fn span(&self, number: u64) -> String {
        // All zeros is not allowed.
        format!("{:016x}", self.random.hash_one(number).max(1))
    }
}
