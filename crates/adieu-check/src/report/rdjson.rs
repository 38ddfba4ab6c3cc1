//! reviewdog's diagnostics. Its columns count bytes, which are not known here; the line is enough for a comment.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::check::Outcome;
use crate::finding::{Finding, Place};
use crate::severity::Severity;

pub(crate) fn write(outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    let report = json!({
        "source": { "name": "adieu check" },
        "diagnostics": outcome.findings.iter().map(diagnostic).collect::<Vec<_>>(),
    });
    serde_json::to_writer_pretty(&mut *out, &report)?;
    writeln!(out)
}

fn diagnostic(finding: &Finding) -> Value {
    let way: Vec<Value> = finding
        .trace
        .iter()
        .skip(1)
        .map(|step| json!({ "message": step.call, "location": location(&step.path, step.place) }))
        .collect();
    json!({
        "message": finding.message,
        "severity": match finding.severity {
            Severity::Error => "ERROR",
            Severity::Warning => "WARNING",
            Severity::Note => "INFO",
        },
        "code": { "value": finding.code },
        "location": location(&finding.path, finding.place),
        "related_locations": way,
    })
}

fn location(path: &str, place: Place) -> Value {
    json!({ "path": path, "range": { "start": { "line": place.line } } })
}
