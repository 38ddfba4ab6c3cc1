//! Findings: a stop that is longer than the platform waits, or that has no limit.

use std::sync::Arc;

use super::tree::{BudgetNode, Origin};
use super::{Budget, Verdict};
use crate::finding::{Finding, Place, Step};
use crate::rule;

/// What is wrong with these stops.
pub(crate) fn findings(budgets: &[Budget]) -> Vec<Finding> {
    budgets.iter().filter_map(finding).collect()
}

fn finding(budget: &Budget) -> Option<Finding> {
    let patience = budget.patience.as_ref()?;
    let code = match budget.verdict() {
        Verdict::TooLong { .. } => rule::BUDGET_EXCEEDED,
        Verdict::NoLimit => rule::BUDGET_WITHOUT_LIMIT,
        Verdict::Fits { .. } | Verdict::NotClear | Verdict::NotDeployed => return None,
    };
    let (path, place) = match &patience.origin {
        Origin::Said { path, place } => (path, *place),
        _ => (&budget.path, Place::line(budget.line)),
    };
    let mut message = format!("the stop of `{}` {}", budget.name, budget.said());
    if let Some(advice) = budget.advice() {
        message.push_str(": ");
        message.push_str(&advice);
    }
    let mut finding = Finding::new(path, place, code, message);
    let mut steps = Vec::new();
    way(&budget.stop, &mut steps);
    if !steps.is_empty() {
        steps.insert(
            0,
            Step {
                path: Arc::clone(path),
                place,
                call: "stop".to_owned(),
            },
        );
        finding.trace = steps;
    }
    Some(finding)
}

/// The lengths that files say, in the order in which they pass.
fn way(node: &BudgetNode, steps: &mut Vec<Step>) {
    let is_leaf = node.parts().is_empty();
    if let Origin::Said { path, place } = &node.origin
        && (is_leaf || node.setting.is_some())
    {
        steps.push(Step {
            path: Arc::clone(path),
            place: *place,
            call: format!("{}: {}", node.what, node.bound()),
        });
    }
    for part in node.parts() {
        way(part, steps);
    }
}
