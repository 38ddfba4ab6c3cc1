//! GitLab's code quality report.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::check::Outcome;
use crate::finding::Finding;
use crate::report::fingerprint::fingerprints;
use crate::severity::Severity;

pub(crate) fn write(outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    let findings = outcome.findings.iter();
    let issues: Vec<Value> = findings
        .zip(fingerprints(&outcome.findings))
        .map(issue)
        .collect();
    serde_json::to_writer_pretty(&mut *out, &issues)?;
    writeln!(out)
}

fn issue((finding, fingerprint): (&Finding, String)) -> Value {
    json!({
        "check_name": finding.code,
        "description": format!("{}: {}", finding.code, finding.message),
        "severity": match finding.severity {
            Severity::Error => "major",
            Severity::Warning => "minor",
            Severity::Note => "info",
        },
        "fingerprint": fingerprint,
        "location": {
            "path": finding.path,
            "positions": {
                "begin": { "line": finding.place.line, "column": finding.place.column },
            },
        },
    })
}
