//! Settings of Celery that lose a task, or run it twice, when a worker is killed.

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Expr, Keyword, Number, Operator, Stmt};
use ruff_text_size::{Ranged, TextRange};

use super::super::extract::Reader;
use crate::callgraph::FileSummary;
use crate::finding::Finding;
use crate::rule;

/// A setting by its name: in lower case as it is now, in upper case as it was and as Django has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Setting {
    AcksLate,
    RejectsLost,
    Visibility,
}

fn setting(name: &str) -> Option<Setting> {
    match name {
        "acks_late" | "task_acks_late" | "CELERY_ACKS_LATE" | "CELERY_TASK_ACKS_LATE" => {
            Some(Setting::AcksLate)
        }
        "reject_on_worker_lost"
        | "task_reject_on_worker_lost"
        | "CELERY_REJECT_ON_WORKER_LOST"
        | "CELERY_TASK_REJECT_ON_WORKER_LOST" => Some(Setting::RejectsLost),
        "visibility_timeout" => Some(Setting::Visibility),
        _ => None,
    }
}

/// Writes down what a file sets.
pub(crate) fn note<'a>(reader: &mut Reader<'a, '_>, body: &'a [Stmt]) {
    let has = |word: &[u8]| memchr::memmem::find(reader.source.as_bytes(), word).is_some();
    if !(has(b"acks_late")
        || has(b"ACKS_LATE")
        || has(b"worker_lost")
        || has(b"WORKER_LOST")
        || has(b"visibility_timeout"))
    {
        return;
    }
    let mut settings = Settings(Vec::new());
    settings.visit_body(body);
    for (setting, range, value) in settings.0 {
        let is_on = matches!(value, Expr::BooleanLiteral(literal) if literal.value);
        let place = reader.place(&range);
        let jobs = &mut reader.summary.facts.jobs;
        match setting {
            Setting::AcksLate if is_on => {
                jobs.acks_late.get_or_insert(place);
            }
            // Whatever it is set to, it was thought of.
            Setting::RejectsLost => jobs.rejects_lost = true,
            Setting::Visibility => {
                jobs.visibility = number(value)
                    .map(|seconds| (seconds, place))
                    .or(jobs.visibility)
            }
            Setting::AcksLate => {}
        }
    }
}

/// `3600`, `60 * 60`
fn number(value: &Expr) -> Option<u64> {
    match value {
        Expr::NumberLiteral(literal) => match &literal.value {
            Number::Int(int) => int.as_u64(),
            Number::Float(float) if *float >= 0.0 => Some(*float as u64),
            _ => None,
        },
        Expr::BinOp(product) if product.op == Operator::Mult => {
            number(&product.left)?.checked_mul(number(&product.right)?)
        }
        _ => None,
    }
}

/// The settings of a file, wherever they stand: keywords, keys, names and attributes.
struct Settings<'a>(Vec<(Setting, TextRange, &'a Expr)>);

impl<'a> Visitor<'a> for Settings<'a> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        if let Stmt::Assign(assign) = stmt {
            for target in &assign.targets {
                let name = match target {
                    Expr::Name(name) => name.id.as_str(),
                    Expr::Attribute(attribute) => attribute.attr.as_str(),
                    _ => continue,
                };
                self.0
                    .extend(setting(name).map(|it| (it, target.range(), &*assign.value)));
            }
        }
        visitor::walk_stmt(self, stmt);
    }

    fn visit_keyword(&mut self, keyword: &'a Keyword) {
        let named = keyword.arg.as_ref().and_then(|name| setting(name.as_str()));
        self.0
            .extend(named.map(|it| (it, keyword.range(), &keyword.value)));
        visitor::walk_keyword(self, keyword);
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        if let Expr::Dict(dict) = expr {
            for item in &dict.items {
                if let Some(Expr::StringLiteral(key)) = &item.key {
                    let named = setting(key.value.to_str());
                    self.0
                        .extend(named.map(|it| (it, key.range(), &item.value)));
                }
            }
        }
        visitor::walk_expr(self, expr);
    }
}

/// What the settings of all files come to.
pub(crate) fn findings(summaries: &[FileSummary]) -> Vec<Finding> {
    let mut found = Vec::new();
    let product = || summaries.iter().filter(|summary| !summary.facts.is_aside);
    let rejects = summaries
        .iter()
        .any(|summary| summary.facts.jobs.rejects_lost);
    if let (false, Some((summary, place))) = (
        rejects,
        product().find_map(|summary| Some((summary, summary.facts.jobs.acks_late?))),
    ) {
        let message = "Celery acknowledges a task whose worker is killed in the middle of it, so the task is lost: set \
                       `task_reject_on_worker_lost` as well";
        found.push(Finding::new(
            &summary.path,
            place,
            rule::CELERY_ACKS_LATE,
            message,
        ));
    }
    let limits = product().flat_map(|summary| &summary.facts.graces);
    let longest = limits
        .filter(|limit| limit.setting == "task_time_limit")
        .filter_map(|limit| limit.seconds)
        .max();
    let late = product().any(|summary| summary.facts.jobs.acks_late.is_some());
    for summary in product() {
        if let (Some((waits, place)), Some(limit), true) =
            (summary.facts.jobs.visibility, longest, late)
            && waits < limit
        {
            let message = format!(
                "a task may run for {limit} s, and after {waits} s the broker delivers it to another worker: raise \
                 `visibility_timeout`"
            );
            found.push(Finding::new(
                &summary.path,
                place,
                rule::CELERY_VISIBILITY,
                message,
            ));
        }
    }
    found
}
