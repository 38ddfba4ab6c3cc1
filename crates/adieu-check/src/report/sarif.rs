//! SARIF 2.1.0, for code scanning.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::check::Outcome;
use crate::finding::{Finding, Place};
use crate::report::fingerprint::fingerprints;
use crate::rule::Rule;

pub(crate) fn write(outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    let rules: Vec<Value> = Rule::ALL
        .iter()
        .map(|rule| {
            json!({
                "id": rule.code,
                "name": rule.name,
                "shortDescription": { "text": rule.summary },
                "defaultConfiguration": { "level": rule.severity },
                "help": { "text": rule.page, "markdown": rule.page },
            })
        })
        .collect();
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": { "name": "adieu", "version": env!("CARGO_PKG_VERSION"), "rules": rules } },
            "columnKind": "unicodeCodePoints",
            "results": outcome.findings.iter().zip(fingerprints(&outcome.findings)).map(result).collect::<Vec<_>>(),
        }],
    });
    serde_json::to_writer_pretty(&mut *out, &log)?;
    writeln!(out)
}

fn result((finding, fingerprint): (&Finding, String)) -> Value {
    let mut result = json!({
        "ruleId": finding.code,
        "ruleIndex": Rule::ALL.iter().position(|rule| rule.code == finding.code),
        "level": finding.severity,
        "message": { "text": finding.message },
        "locations": [location(&finding.path, finding.place, None)],
        "partialFingerprints": { "adieu/v1": fingerprint },
    });
    if !finding.trace.is_empty() {
        let steps: Vec<Value> = finding
            .trace
            .iter()
            .map(|step| json!({ "location": location(&step.path, step.place, Some(&step.call)) }))
            .collect();
        result["codeFlows"] = json!([{ "threadFlows": [{ "locations": steps }] }]);
    }
    result
}

fn location(path: &str, place: Place, call: Option<&str>) -> Value {
    let mut location = json!({
        "physicalLocation": {
            "artifactLocation": { "uri": uri(path) },
            "region": { "startLine": place.line, "startColumn": place.column },
        }
    });
    if let Some(call) = call {
        location["message"] = json!({ "text": call });
    }
    location
}

/// A path as a relative reference: what a URI cannot hold is percent-encoded.
fn uri(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z'
            | b'A'..=b'Z'
            | b'0'..=b'9'
            | b'/'
            | b'.'
            | b'-'
            | b'_'
            | b'~'
            | b'@'
            | b'+' => {
                out.push(char::from(byte));
            }
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::uri;

    #[test]
    fn a_path_becomes_a_reference() {
        assert_eq!(uri("src/app.py"), "src/app.py");
        assert_eq!(uri("my app/é#1%.py"), "my%20app/%C3%A9%231%25.py");
    }
}
