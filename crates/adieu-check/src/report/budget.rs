//! The worst-case shutdown times: as trees for people, and for programs.

use std::fmt::Write as _;
use std::io::{self, Write};

use serde_json::{Value, json};

use super::plain;
use crate::budget::{Budget, BudgetNode, Origin, Patience, Shape, Verdict};
use crate::check::Outcome;

/// The version of the JSON: it changes when a field goes or changes its meaning.
const VERSION: u32 = 1;

/// Each stop as a tree, with the place of every number.
pub fn budgets(outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    for (at, budget) in outcome.budgets.iter().enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        write!(out, "{}", text(budget))?;
    }
    Ok(())
}

/// The budget as one object, with the findings.
pub fn budgets_json(outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    let budgets: Vec<Value> = outcome.budgets.iter().map(object).collect();
    let report = json!({
        "version": VERSION,
        "files": outcome.files,
        "budgets": budgets,
        "findings": outcome.findings,
        "notices": outcome.notices,
    });
    serde_json::to_writer_pretty(&mut *out, &report)?;
    writeln!(out)
}

fn text(budget: &Budget) -> String {
    let mut text = String::new();
    let mark = match budget.verdict() {
        Verdict::Fits { .. } => "fits",
        Verdict::TooLong { .. } => "TOO LONG",
        Verdict::NoLimit => "NO LIMIT",
        Verdict::NotClear => "not clear",
        Verdict::NotDeployed => "not deployed",
    };
    let place = format!("{}:{}", budget.path, budget.line);
    let name = plain(&budget.name);
    let _ = writeln!(
        text,
        "{}: {name}: {mark}: the stop {}",
        plain(&place),
        plain(&budget.said())
    );
    if !budget.command.is_empty() {
        let _ = writeln!(text, "  starts `{}`", plain(&budget.command));
    }
    let mut rows = Vec::new();
    tree(&budget.stop, "", "", &mut rows);
    if let Some(patience) = &budget.patience {
        rows.push((
            waits(patience),
            format!("{} waits", patience.platform),
            origin(&patience.origin),
        ));
    }
    let width = rows
        .iter()
        .map(|(length, ..)| length.len())
        .max()
        .unwrap_or(0);
    for (length, what, origin) in rows {
        let line = format!("  {length:>width$}  {what}{origin}");
        let _ = writeln!(text, "{}", plain(line.trim_end()));
    }
    if let Some(advice) = budget.advice() {
        let _ = writeln!(text, "  change: {}", plain(&advice));
    }
    text
}

fn waits(patience: &Patience) -> String {
    match patience.bound.is_limited() {
        true => patience.bound.to_string(),
        false => "forever".to_owned(),
    }
}

/// One line a node: its length, what it is, and where that is said.
fn tree(node: &BudgetNode, lead: &str, branch: &str, rows: &mut Vec<(String, String, String)>) {
    let how = match &node.shape {
        Shape::Longest(_) => ", the longest counts",
        Shape::Within(..) => ", which cuts off what is inside",
        _ => "",
    };
    let detail = node
        .detail
        .map(|it| format!(", for {it}"))
        .unwrap_or_default();
    rows.push((
        node.bound().to_string(),
        format!("{lead}{branch}{}{detail}{how}", node.what),
        origin(&node.origin),
    ));
    let deeper = match branch {
        "" => String::new(),
        "└ " => format!("{lead}  "),
        _ => format!("{lead}│ "),
    };
    let parts = node.parts();
    for (at, part) in parts.iter().enumerate() {
        let branch = if at + 1 == parts.len() {
            "└ "
        } else {
            "├ "
        };
        tree(part, &deeper, branch, rows);
    }
}

fn origin(origin: &Origin) -> String {
    match origin {
        Origin::Said { path, place } => format!("  [{path}:{}]", place.line),
        Origin::Default { of, .. } => format!("  [default of {of}]"),
        Origin::Assumed { that, path, place } => {
            format!("  [{path}:{}; assumed: {that}]", place.line)
        }
        Origin::Parts => String::new(),
    }
}

fn object(budget: &Budget) -> Value {
    let verdict = match budget.verdict() {
        Verdict::Fits { spare: u64::MAX } => json!({"kind": "fits"}),
        Verdict::Fits { spare } => json!({"kind": "fits", "spare-ms": spare}),
        Verdict::TooLong { by } => json!({"kind": "too-long", "by-ms": by}),
        Verdict::NoLimit => json!({"kind": "no-limit"}),
        Verdict::NotClear => json!({"kind": "not-clear"}),
        Verdict::NotDeployed => json!({"kind": "not-deployed"}),
    };
    let patience = budget.patience.as_ref().map(|patience| {
        json!({
            "platform": patience.platform,
            "setting": patience.setting,
            "bound": bound(patience.bound),
            "origin": patience.origin,
        })
    });
    let assumptions: Vec<Value> = budget
        .stop
        .assumptions()
        .iter()
        .map(|node| json!({"what": node.what, "origin": node.origin}))
        .collect();
    json!({
        "name": budget.name,
        "path": budget.path,
        "line": budget.line,
        "command": budget.command,
        "verdict": verdict,
        "advice": budget.advice(),
        "stop": node(&budget.stop),
        "platform": patience,
        "assumptions": assumptions,
    })
}

fn node(of: &BudgetNode) -> Value {
    let how = match &of.shape {
        Shape::Takes(_) => "takes",
        Shape::Series(_) => "series",
        Shape::Longest(_) => "longest",
        Shape::Within(..) => "within",
        Shape::Times(..) => "times",
    };
    let mut value = json!({
        "what": of.what,
        "how": how,
        "bound": bound(of.bound()),
        "origin": of.origin,
    });
    if let Some(detail) = of.detail {
        value["waits-for"] = json!(detail);
    }
    if let Some(setting) = &of.setting {
        value["setting"] = json!(setting);
    }
    match &of.shape {
        Shape::Within(limit, _) => value["limit"] = bound(*limit),
        Shape::Times(Some(count), _) => value["count"] = json!(count),
        _ => {}
    }
    if !of.parts().is_empty() {
        value["parts"] = of.parts().iter().map(node).collect();
    }
    value
}

fn bound(of: crate::budget::Bound) -> Value {
    json!({
        "at-least-ms": of.at_least(),
        "limited": of.is_limited(),
        "clear": of.is_clear(),
    })
}
