//! Annotations in a GitHub workflow.

use std::io::{self, Write};

use crate::check::Outcome;
use crate::severity::Severity;

pub(crate) fn write(outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    for finding in &outcome.findings {
        let mut message = finding.message.clone();
        for step in finding.trace.iter().skip(1) {
            message.push_str(&format!(
                "\n{}:{}: {}",
                step.path, step.place.line, step.call
            ));
        }
        writeln!(
            out,
            "::{} file={},line={},col={},title={}::{}",
            command(finding.severity),
            property(&finding.path),
            finding.place.line,
            finding.place.column,
            finding.code,
            escape(&message)
        )?;
    }
    Ok(())
}

fn command(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "notice",
    }
}

/// The workflow's own quoting of data.
fn escape(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

/// Properties also end at a colon or comma.
fn property(text: &str) -> String {
    escape(text).replace(':', "%3A").replace(',', "%2C")
}
