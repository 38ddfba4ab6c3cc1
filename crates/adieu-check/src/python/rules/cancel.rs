//! What happens to a cancellation on its way out.

use ruff_python_ast::{
    ExceptHandler, ExceptHandlerExceptHandler, Expr, Stmt, StmtFunctionDef, StmtTry, StmtWith,
};
use ruff_text_size::{Ranged, TextRange};

use super::super::extract::Reader;
use super::endless_loop::leaves;
use super::walk::{self, Node};
use crate::rule;
use crate::severity::Severity;

pub(crate) fn check<'a>(reader: &mut Reader<'a, '_>, def: &'a StmtFunctionDef, index: u32) {
    let mut tries = Vec::new();
    let mut withs = Vec::new();
    let mut loops: Vec<TextRange> = Vec::new();
    let mut cancels = false;
    walk::own(&def.body, |node| match node {
        Node::Stmt(Stmt::While(stmt)) => loops.push(stmt.range()),
        Node::Stmt(Stmt::For(stmt)) => loops.push(stmt.range()),
        Node::Stmt(Stmt::Try(stmt)) => tries.push(stmt),
        Node::Stmt(Stmt::With(stmt)) if !stmt.is_async => withs.push(stmt),
        Node::Expr(Expr::Call(call)) => {
            cancels |= matches!(walk::method(call), "cancel" | "uncancel")
        }
        _ => {}
    });
    let in_loop = |range: TextRange| loops.iter().any(|outer| outer.contains_range(range));
    let is_main = def.name.as_str().contains("main");
    for stmt in tries {
        if walk::has_await(&stmt.body) && !is_main {
            handlers(reader, stmt, cancels, in_loop(stmt.range()));
        }
        cleanups(reader, stmt, index);
    }
    for stmt in withs {
        if !is_main && !cancels && walk::has_await(&stmt.body) && !awaits_tasks_only(&stmt.body) {
            suppressed(reader, stmt, in_loop(stmt.range()));
        }
    }
}

fn handlers<'a>(reader: &mut Reader<'a, '_>, stmt: &'a StmtTry, cancels: bool, in_loop: bool) {
    for ExceptHandler::ExceptHandler(handler) in &stmt.handlers {
        let caught = caught(reader, handler);
        if raises(&handler.body) || uses_error(handler) {
            // Handed on: raised again, or kept for someone to look at.
            if caught != Caught::Other {
                return;
            }
            continue;
        }
        match caught {
            Caught::Other => {}
            // Waiting for a task this function cancelled itself: the error is the task's.
            Caught::Cancelled if cancels || awaits_tasks_only(&stmt.body) => return,
            Caught::Cancelled => {
                // A handler that ends the task there does what the cancellation is for.
                let (severity, message) = if in_loop
                    && !leaves(&handler.body)
                    && !keeps(&handler.body)
                {
                    (
                        Severity::Warning,
                        "`CancelledError` ends here and the loop round it goes on: the task cannot be cancelled; \
                         clean up and `raise`",
                    )
                } else {
                    (
                        Severity::Note,
                        "`CancelledError` ends here: `timeout` and `TaskGroup` lose count of it; clean up and `raise`",
                    )
                };
                reader.report_as(severity, handler, rule::SWALLOWED_CANCEL, message);
                return;
            }
            Caught::Everything if cancels && awaits_tasks_only(&stmt.body) => return,
            Caught::Everything => {
                let said = if handler.type_.is_none() {
                    "a bare `except`"
                } else {
                    "`except BaseException`"
                };
                let message = format!(
                    "{said} round an await also catches the cancellation and does not raise it again; \
                     catch `Exception`"
                );
                // Who writes `BaseException` means it; a bare `except` is mostly a slip.
                let severity = if handler.type_.is_some() || awaits_cleanup_only(&stmt.body) {
                    Severity::Note
                } else {
                    Severity::Warning
                };
                reader.report_as(severity, handler, rule::BARE_EXCEPT, message);
                return;
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Caught {
    Cancelled,
    Everything,
    Other,
}

fn caught(reader: &Reader<'_, '_>, handler: &ExceptHandlerExceptHandler) -> Caught {
    let Some(kind) = &handler.type_ else {
        return Caught::Everything;
    };
    let one = |expr: &Expr| match expr {
        Expr::Name(name) if name.id.as_str() == "BaseException" => Caught::Everything,
        _ => match reader.scopes.path(expr).as_deref() {
            Some("asyncio.CancelledError" | "asyncio.exceptions.CancelledError") => {
                Caught::Cancelled
            }
            _ => Caught::Other,
        },
    };
    match &**kind {
        Expr::Tuple(tuple) => tuple
            .elts
            .iter()
            .map(one)
            .find(|caught| *caught != Caught::Other)
            .unwrap_or(Caught::Other),
        other => one(other),
    }
}

/// Whether a handler remembers what happened: to act on it when its loop is done.
fn keeps(body: &[Stmt]) -> bool {
    body.iter()
        .any(|stmt| matches!(stmt, Stmt::Assign(_) | Stmt::AugAssign(_)))
}

fn raises(body: &[Stmt]) -> bool {
    let mut found = false;
    walk::own(body, |node| {
        found |= match node {
            Node::Stmt(Stmt::Raise(_)) => true,
            Node::Expr(Expr::Call(call)) => {
                matches!(
                    walk::method(call),
                    "_exit" | "exit" | "abort" | "set_exception" | "cancelled" | "cancelling"
                )
            }
            _ => false,
        };
    });
    found
}

/// `except BaseException as error` whose error is stored or passed on loses nothing.
fn uses_error(handler: &ExceptHandlerExceptHandler) -> bool {
    let Some(name) = &handler.name else {
        return false;
    };
    let mut found = false;
    walk::own(&handler.body, |node| {
        found |= match node {
            Node::Stmt(Stmt::Assign(assign)) => {
                matches!(&*assign.value, Expr::Name(n) if n.id.as_str() == name.as_str())
            }
            Node::Stmt(Stmt::Return(value)) => {
                matches!(value.value.as_deref(), Some(Expr::Name(n)) if n.id.as_str() == name.as_str())
            }
            Node::Expr(Expr::Call(call)) => {
                let log = matches!(
                    walk::method(call),
                    "debug"
                        | "info"
                        | "warning"
                        | "error"
                        | "exception"
                        | "critical"
                        | "print"
                        | "str"
                        | "repr"
                        | "log"
                );
                let keywords = call.arguments.keywords.iter().map(|keyword| &keyword.value);
                let mut given = call.arguments.args.iter().chain(keywords);
                !log && given.any(|a| matches!(a, Expr::Name(n) if n.id.as_str() == name.as_str()))
            }
            _ => false,
        };
    });
    found
}

/// `await task`, `await asyncio.gather(*tasks)`: things that exist already, not calls of our own.
fn awaits_tasks_only(body: &[Stmt]) -> bool {
    let mut only = true;
    walk::own(body, |node| match node {
        Node::Expr(Expr::Await(inner)) => only &= is_task(&inner.value),
        Node::Stmt(Stmt::For(stmt)) => only &= !stmt.is_async,
        Node::Stmt(Stmt::With(stmt)) => only &= !stmt.is_async,
        _ => {}
    });
    only
}

/// `await client.aclose()`: what is given up anyway may swallow what it likes.
fn awaits_cleanup_only(body: &[Stmt]) -> bool {
    let mut only = true;
    walk::own(body, |node| {
        if let Node::Expr(Expr::Await(inner)) = node {
            let name = walk::last_name(&inner.value).to_ascii_lowercase();
            only &= CLEANUPS.iter().any(|word| name.contains(word));
        }
    });
    only
}

const CLEANUPS: &[&str] = &[
    "close",
    "aexit",
    "cleanup",
    "clean_up",
    "disconnect",
    "shutdown",
    "terminate",
    "stop",
    "teardown",
    "dispose",
];

fn is_task(expr: &Expr) -> bool {
    match expr {
        Expr::Name(_) | Expr::Attribute(_) | Expr::Subscript(_) => true,
        Expr::List(list) => list.elts.iter().all(is_task),
        Expr::Set(set) => set.elts.iter().all(is_task),
        Expr::Call(call) => {
            matches!(
                walk::method(call),
                "gather" | "wait" | "wait_for" | "shield"
            ) && call
                .arguments
                .args
                .iter()
                .take(1)
                .all(|argument| match argument {
                    Expr::Starred(starred) => is_task(&starred.value),
                    other => is_task(other),
                })
        }
        _ => false,
    }
}

fn suppressed<'a>(reader: &mut Reader<'a, '_>, stmt: &'a StmtWith, in_loop: bool) {
    for item in &stmt.items {
        let Expr::Call(call) = &item.context_expr else {
            continue;
        };
        if walk::method(call) != "suppress" {
            continue;
        }
        let swallows = call.arguments.args.iter().any(|error| {
            matches!(error, Expr::Name(name) if name.id.as_str() == "BaseException")
                || reader.scopes.path(error).as_deref() == Some("asyncio.CancelledError")
        });
        if swallows {
            reader.report_as(
                if in_loop { Severity::Warning } else { Severity::Note },
                &item.context_expr,
                rule::SWALLOWED_CANCEL,
                "`suppress` swallows the cancellation of this task; suppress it only round `await task` of a task \
                 that was cancelled here",
            );
        }
    }
}

/// Awaits in `finally` that a second cancellation would cut in two. Closing a stream, a wait with
/// a limit and a shield are left alone. Whether the function runs as a task is known later.
fn cleanups<'a>(reader: &mut Reader<'a, '_>, stmt: &'a StmtTry, index: u32) {
    let mut bare = Vec::new();
    let mut limited = false;
    walk::own(&stmt.finalbody, |node| match node {
        Node::Expr(Expr::Await(inner)) => {
            if let Expr::Call(call) = &*inner.value
                && !is_bounded(walk::method(call))
            {
                bare.push(call);
            }
        }
        Node::Stmt(Stmt::With(with)) => {
            limited |= with.items.iter().any(|item| {
                matches!(&item.context_expr, Expr::Call(call)
                    if matches!(walk::method(call), "timeout" | "timeout_at" | "CancelScope" | "move_on_after" | "fail_after"))
            });
        }
        _ => {}
    });
    if limited {
        return;
    }
    for call in bare {
        let place = reader.place(call);
        reader.summary.functions[index as usize]
            .bare_cleanups
            .push(place);
    }
}

fn is_bounded(method: &str) -> bool {
    matches!(
        method,
        "shield"
            | "wait_for"
            | "wait"
            | "gather"
            | "sleep"
            | "wait_closed"
            | "close"
            | "aclose"
            | "drain"
            | "release"
            | "disconnect"
            | "stop"
            | "cancel"
            | "__aexit__"
            | "put"
            | "send"
            | "acquire"
            | "unlock"
            | "rollback"
    )
}
