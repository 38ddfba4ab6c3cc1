//! Loops that never give the loop back, and loops that only a cancellation ends.

use ruff_python_ast::{Stmt, StmtFunctionDef};

use super::super::extract::Reader;
use super::walk::{self, Node};
use crate::callgraph::FnFlags;
use crate::rule;

pub(crate) fn check<'a>(reader: &mut Reader<'a, '_>, def: &'a StmtFunctionDef, index: u32) {
    let mut endless = Vec::new();
    walk::own(&def.body, |node| {
        if let Node::Stmt(Stmt::While(stmt)) = node
            && walk::is_always_true(&stmt.test)
        {
            endless.push(stmt);
        }
    });
    for stmt in endless {
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
