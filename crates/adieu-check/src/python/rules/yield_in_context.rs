//! Async generators that yield inside a context manager: what closes them is not the one who reads them.

use ruff_python_ast::{Expr, Stmt, StmtFunctionDef};

use super::super::extract::Reader;
use super::walk::{self, Node};
use crate::rule;

pub(crate) fn check<'a>(reader: &mut Reader<'a, '_>, def: &'a StmtFunctionDef) {
    // A decorator mostly makes a context manager or a fixture of it.
    if !def.decorator_list.is_empty() {
        return;
    }
    let mut found = Vec::new();
    walk::own(&def.body, |node| {
        if let Node::Stmt(Stmt::With(stmt)) = node {
            walk::own(&stmt.body, |inner| {
                if let Node::Expr(Expr::Yield(inner)) = inner {
                    found.push(inner);
                }
            });
        }
    });
    // One of several is enough to say it.
    if let Some(first) = found.first() {
        reader.report(
            *first,
            rule::YIELD_IN_CONTEXT,
            "a reader that leaves early has the end of this block run by the garbage collector, in another task: give the \
             context manager to the caller, or have it read with `aclosing`",
        );
    }
}
