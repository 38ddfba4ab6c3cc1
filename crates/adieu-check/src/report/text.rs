//! For people, and for editors that jump to `path:line:column`.

use std::io::{self, Write};

use crate::check::Outcome;

pub(crate) fn write(outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    for finding in &outcome.findings {
        let place = finding.place;
        writeln!(
            out,
            "{}:{}:{}: {} {}",
            finding.path, place.line, place.column, finding.code, finding.message
        )?;
        for (depth, step) in finding.trace.iter().enumerate().skip(1) {
            let indent = "  ".repeat(depth);
            writeln!(
                out,
                "{indent}{}:{}:{}: {}",
                step.path, step.place.line, step.place.column, step.call
            )?;
        }
    }
    Ok(())
}
