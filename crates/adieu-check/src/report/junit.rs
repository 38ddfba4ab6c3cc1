//! JUnit, for CI servers that show tests: every finding is a test that failed.

use std::io::{self, Write};

use crate::check::Outcome;
use crate::finding::Finding;

pub(crate) fn write(outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    let findings = &outcome.findings;
    // A run that found nothing is one test that passed: some servers take an empty report for a failed run.
    let (tests, failures) = (findings.len().max(1), findings.len());
    writeln!(out, r#"<?xml version="1.0" encoding="UTF-8"?>"#)?;
    writeln!(
        out,
        r#"<testsuites name="adieu check" tests="{tests}" failures="{failures}">"#
    )?;
    writeln!(
        out,
        r#"  <testsuite name="adieu check" tests="{tests}" failures="{failures}" errors="0">"#
    )?;
    if findings.is_empty() {
        writeln!(
            out,
            r#"    <testcase name="no findings" classname="adieu check"/>"#
        )?;
    }
    for finding in findings {
        testcase(finding, out)?;
    }
    writeln!(out, "  </testsuite>\n</testsuites>")
}

fn testcase(finding: &Finding, out: &mut dyn Write) -> io::Result<()> {
    let (line, column) = (finding.place.line, finding.place.column);
    writeln!(
        out,
        r#"    <testcase name="{}" classname="{}" file="{1}" line="{line}">"#,
        finding.code,
        escape(&finding.path)
    )?;
    write!(
        out,
        r#"      <failure type="{}" message="{}">line {line}, column {column}"#,
        finding.severity,
        escape(&finding.message)
    )?;
    for step in finding.trace.iter().skip(1) {
        let (path, call) = (escape(&step.path), escape(&step.call));
        write!(out, "\n{path}:{}: {call}", step.place.line)?;
    }
    writeln!(out, "</failure>\n    </testcase>")
}

/// As XML quotes it; a character that XML cannot hold at all is spelled out.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => out.extend(char.escape_unicode()),
            control if control.is_control() => out.extend(control.escape_unicode()),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn what_xml_cannot_hold_is_spelled_out() {
        assert_eq!(escape("a<b> & \"c\""), "a&lt;b&gt; &amp; &quot;c&quot;");
        assert_eq!(escape("\u{1b}[31m\n\u{ffff}"), "\\u{1b}[31m\\u{a}\\u{ffff}");
    }
}
