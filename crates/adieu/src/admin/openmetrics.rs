//! Prometheus text as OpenMetrics, for scrapers that accept it.
//!
//! What differs: a counter's family has no `_total`, and its samples have it; there is a line for the unit; times have a unit
//! of their own; there are no empty lines; and the end is marked, so that a text that was cut off is known for one.

use std::collections::HashSet;
use std::fmt::Write;

pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The units that stand at the end of a name. Others are not marked.
const UNITS: &[&str] = &["seconds", "bytes", "ratio"];

pub(super) fn from_prometheus(text: &str) -> String {
    let counters: HashSet<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"))
        .collect();
    let mut out = String::with_capacity(text.len());
    for line in text.lines().filter(|line| !line.is_empty()) {
        // Writing to a string cannot fail.
        let _ = write_line(&mut out, line, &counters);
    }
    out.push_str("# EOF\n");
    out
}

fn write_line(out: &mut String, line: &str, counters: &HashSet<&str>) -> std::fmt::Result {
    let family = |name: &str| match counters.contains(name) {
        true => name.strip_suffix("_total").unwrap_or(name).to_owned(),
        false => name.to_owned(),
    };
    if let Some((name, help)) = metadata(line, "# HELP ") {
        return writeln!(out, "# HELP {} {}", family(name), help.replace('"', "\\\""));
    }
    if let Some((name, kind)) = metadata(line, "# TYPE ") {
        let name = family(name);
        let kind = if kind == "untyped" { "unknown" } else { kind };
        writeln!(out, "# TYPE {name} {kind}")?;
        let unit = UNITS
            .iter()
            .find(|unit| (name.strip_suffix(**unit)).is_some_and(|before| before.ends_with('_')));
        return unit.map_or(Ok(()), |unit| writeln!(out, "# UNIT {name} {unit}"));
    }
    if line.starts_with('#') {
        return Ok(());
    }
    // The value of a label may have any character in it, so the last brace counts.
    let labels_end = line.rfind('}').map_or(0, |end| end + 1);
    let name_end = line.find(['{', ' ']).unwrap_or(line.len());
    let name = &line[..name_end];
    let total = match counters.contains(name) && !name.ends_with("_total") {
        true => "_total",
        false => "",
    };
    let (labels, numbers) = match labels_end {
        0 => ("", &line[name_end..]),
        end => (&line[name_end..end], &line[end..]),
    };
    // A time after the value is in milliseconds here and in seconds there, and nothing of ours has one.
    let value = numbers.split_whitespace().next().unwrap_or("NaN");
    writeln!(out, "{name}{total}{labels} {value}")
}

fn metadata<'line>(line: &'line str, what: &str) -> Option<(&'line str, &'line str)> {
    line.strip_prefix(what)?.split_once(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_have_their_suffix_in_the_samples_only() {
        let text = "# HELP jobs_total Done.\n# TYPE jobs_total counter\njobs_total{queue=\"a\"} 3\n\n\
                    # TYPE orders counter\norders 7\n";
        let expected = "# HELP jobs Done.\n# TYPE jobs counter\njobs_total{queue=\"a\"} 3\n\
                        # TYPE orders counter\norders_total 7\n# EOF\n";
        assert_eq!(from_prometheus(text), expected);
    }

    #[test]
    fn units_are_named_where_the_name_has_one() {
        let text = "# TYPE up_seconds gauge\nup_seconds 1.5\n# TYPE seconds gauge\nseconds 1\n\
                    # TYPE sent_bytes_total counter\nsent_bytes_total 9\n";
        let expected = "# TYPE up_seconds gauge\n# UNIT up_seconds seconds\nup_seconds 1.5\n\
                        # TYPE seconds gauge\nseconds 1\n\
                        # TYPE sent_bytes counter\n# UNIT sent_bytes bytes\nsent_bytes_total 9\n# EOF\n";
        assert_eq!(from_prometheus(text), expected);
    }

    #[test]
    fn labels_stay_as_they_are_and_times_are_left_out() {
        let text =
            "# a comment\n# TYPE x untyped\nx{path=\"/a b}{ \\\"c\\\"\"} 4 1700000000000\n# EOF\n";
        let expected = "# TYPE x unknown\nx{path=\"/a b}{ \\\"c\\\"\"} 4\n# EOF\n";
        assert_eq!(from_prometheus(text), expected);
    }

    #[test]
    fn the_samples_of_a_histogram_keep_their_names() {
        let text = "# TYPE wait_seconds histogram\nwait_seconds_bucket{le=\"+Inf\"} 2\nwait_seconds_sum 3\nwait_seconds_count 2\n";
        let out = from_prometheus(text);
        assert!(
            out.contains("\nwait_seconds_bucket{le=\"+Inf\"} 2\nwait_seconds_sum 3\n"),
            "{out}"
        );
    }
}
