//! For people, and for editors that jump to `path:line:column`.

use std::io::{self, Write};

use rustc_hash::FxHashMap;

use crate::check::Outcome;
use crate::finding::{Finding, Place, Step};
use crate::report::plain;
use crate::rule::Code;
use crate::severity::Severity;

/// Ways shorter than this are shown as often as they are met.
const WORTH_FOLDING: usize = 2;

/// Many coroutines may call into one function that blocks. Each call is a finding of its own,
/// because each holds up the loop; the way they share is shown once.
pub(crate) fn write(outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    let mut shown: FxHashMap<(Code, &str, Place), &Finding> = FxHashMap::default();
    for finding in &outcome.findings {
        let place = finding.place;
        writeln!(
            out,
            "{}:{}:{}: {} {}{}",
            plain(&finding.path),
            place.line,
            place.column,
            finding.code,
            marked(finding.severity),
            plain(&finding.message)
        )?;
        way(finding, &mut shown, out)?;
    }
    Ok(())
}

/// An error is what a finding is where nothing else is said.
fn marked(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "",
        Severity::Warning => "warning: ",
        Severity::Note => "note: ",
    }
}

fn way<'a>(
    finding: &'a Finding,
    shown: &mut FxHashMap<(Code, &'a str, Place), &'a Finding>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let key = |step: &'a Step| (finding.code, &*step.path, step.place);
    for (depth, step) in finding.trace.iter().enumerate().skip(1) {
        let indent = "  ".repeat(depth);
        let left = finding.trace.len() - depth;
        if left >= WORTH_FOLDING
            && let Some(first) = shown.get(&key(step))
        {
            let place = first.place;
            return writeln!(
                out,
                "{indent}and on as from {}:{}:{}",
                plain(&first.path),
                place.line,
                place.column
            );
        }
        writeln!(
            out,
            "{indent}{}:{}:{}: {}",
            plain(&step.path),
            step.place.line,
            step.place.column,
            plain(&step.call)
        )?;
        shown.entry(key(step)).or_insert(finding);
    }
    Ok(())
}
