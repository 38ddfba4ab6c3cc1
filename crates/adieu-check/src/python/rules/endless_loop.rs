//! Loops that never give the loop back, and loops that only a cancellation ends.

use ruff_python_ast::{Stmt, StmtFunctionDef};
use ruff_text_size::{Ranged, TextRange};

use super::super::extract::Reader;
use super::walk::{self, Node};
use crate::callgraph::FnFlags;
use crate::rule;

pub(crate) fn check<'a>(reader: &mut Reader<'a, '_>, def: &'a StmtFunctionDef, index: u32) {
    let mut endless = Vec::new();
    let mut tried: Vec<TextRange> = Vec::new();
    walk::own(&def.body, |node| match node {
        Node::Stmt(Stmt::While(stmt)) if walk::is_always_true(&stmt.test) => endless.push(stmt),
        Node::Stmt(Stmt::Try(stmt)) if !stmt.handlers.is_empty() => {
            tried.extend(
                stmt.body
                    .first()
                    .zip(stmt.body.last())
                    .map(|(first, last)| first.range().cover(last.range())),
            );
        }
        _ => {}
    });
    for stmt in endless {
        // What is caught outside may be its end: a parser that finds nothing more.
        if tried.iter().any(|range| range.contains_range(stmt.range()))
            && !walk::has_await(&stmt.body)
        {
            continue;
        }
        let leaves = leaves(&stmt.body);
        if walk::has_await(&stmt.body) {
            if !leaves {
                reader.summary.functions[index as usize]
                    .flags
                    .set(FnFlags::FOREVER);
            }
        } else if !leaves {
            reader.report(
                stmt,
                rule::LOOP_WITHOUT_AWAIT,
                "this loop never ends and never awaits: no other task runs and no cancellation arrives; \
                 await inside, or test a stop event",
            );
        }
    }
}

/// Notes a loop outside of coroutines that nothing ends.
pub(crate) fn note<'a>(reader: &mut Reader<'a, '_>, body: &'a [Stmt]) {
    walk::own(body, |node| {
        if let Node::Stmt(Stmt::While(stmt)) = node {
            reader.summary.facts.is_endless |=
                walk::is_always_true(&stmt.test) && !leaves(&stmt.body);
        }
    });
}

/// Whether anything in a loop's body can end it.
pub(super) fn leaves(body: &[Stmt]) -> bool {
    let mut found = false;
    walk::own(body, |node| {
        found |= matches!(
            node,
            Node::Stmt(Stmt::Break(_) | Stmt::Return(_) | Stmt::Raise(_))
        );
    });
    found
}
