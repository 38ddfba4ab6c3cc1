//! How often each rule was broken.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Value, json};

use crate::check::Outcome;
use crate::rule::{Code, Rule};

/// A line for each rule that was broken, the most frequent first.
pub fn statistics(outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    let counted = counted(outcome);
    let width = |(_, count): &(&Rule, usize)| count.to_string().len();
    let width = counted.iter().map(width).max().unwrap_or(0);
    for (rule, count) in counted {
        writeln!(
            out,
            "{count:>width$}  {}  {}: {}",
            rule.code, rule.name, rule.summary
        )?;
    }
    Ok(())
}

/// The statistics as a list of objects.
pub fn statistics_json(outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    let counted: Vec<Value> = counted(outcome)
        .into_iter()
        .map(|(rule, count)| json!({ "code": rule.code, "name": rule.name, "count": count }))
        .collect();
    serde_json::to_writer_pretty(&mut *out, &counted)?;
    writeln!(out)
}

fn counted(outcome: &Outcome) -> Vec<(&'static Rule, usize)> {
    let mut counts: BTreeMap<Code, usize> = BTreeMap::new();
    for finding in &outcome.findings {
        *counts.entry(finding.code).or_default() += 1;
    }
    let rules = counts
        .into_iter()
        .filter_map(|(code, count)| Some((code.rule()?, count)));
    let mut counted: Vec<_> = rules.collect();
    counted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counted
}
