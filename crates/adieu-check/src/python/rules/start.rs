//! What a main does before it first gives way.

use ruff_python_ast::{Expr, Stmt, StmtFunctionDef};
use ruff_text_size::Ranged;

use super::super::extract::Reader;
use super::walk::{self, Node};
use crate::callgraph::CallFlags;

/// Marks the calls of a `main` that come before its first await or task.
pub(crate) fn mark<'a>(reader: &mut Reader<'a, '_>, def: &'a StmtFunctionDef, index: u32) {
    if !matches!(def.name.as_str(), "main" | "_main" | "amain" | "async_main") {
        return;
    }
    let mut first = def.end();
    walk::own(&def.body, |node| {
        let at = match node {
            Node::Expr(Expr::Await(inner)) => inner.start(),
            Node::Stmt(Stmt::With(stmt)) if stmt.is_async => stmt.start(),
            Node::Stmt(Stmt::For(stmt)) if stmt.is_async => stmt.start(),
            Node::Expr(Expr::Call(call)) if walk::method(call).contains("create_task") => {
                call.start()
            }
            _ => return,
        };
        first = first.min(at);
    });
    let limit = reader.lines.place(reader.source, first.to_usize());
    for call in &mut reader.summary.functions[index as usize].calls {
        if call.place < limit {
            call.flags.set(CallFlags::AT_START);
        }
    }
}
