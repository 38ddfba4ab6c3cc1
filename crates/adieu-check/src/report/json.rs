//! For programs. `version` changes when a field goes or changes its meaning; new fields may come.

use std::io::{self, Write};

use serde::Serialize;

use crate::check::Outcome;
use crate::finding::{Finding, Notice};
use crate::report::fingerprint::fingerprints;

const VERSION: u32 = 1;

#[derive(Serialize)]
struct JsonEntry<'a> {
    #[serde(flatten)]
    finding: &'a Finding,
    fingerprint: String,
}

#[derive(Serialize)]
struct Report<'a> {
    version: u32,
    files: usize,
    findings: Vec<JsonEntry<'a>>,
    notices: &'a [Notice],
}

pub(crate) fn write(outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    let report = Report {
        version: VERSION,
        files: outcome.files,
        findings: outcome
            .findings
            .iter()
            .zip(fingerprints(&outcome.findings))
            .map(|(finding, fingerprint)| JsonEntry {
                finding,
                fingerprint,
            })
            .collect(),
        notices: &outcome.notices,
    };
    serde_json::to_writer_pretty(&mut *out, &report)?;
    writeln!(out)
}
