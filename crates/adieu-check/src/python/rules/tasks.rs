//! A task whose only reference is dropped where it is made.

use ruff_python_ast::{Expr, ExprCall, StmtAssign};

use super::super::extract::Reader;
use super::super::models::libraries;
use super::walk;
use crate::rule;
use crate::severity::Severity;

/// `_ = create_task(...)`: a name that says the result is not used.
pub(crate) fn check_thrown_away<'a>(reader: &mut Reader<'a, '_>, assign: &'a StmtAssign) {
    if let [Expr::Name(name)] = &assign.targets[..]
        && name.id.as_str() == "_"
    {
        check_dropped(reader, &assign.value);
    }
}

/// Looks at a value that is not kept: a task, or a list of some.
pub(crate) fn check_dropped<'a>(reader: &mut Reader<'a, '_>, value: &'a Expr) {
    match value {
        Expr::Call(call) => check_call(reader, call),
        Expr::List(list) => list
            .elts
            .iter()
            .for_each(|task| check_dropped(reader, task)),
        Expr::ListComp(comp) => check_dropped(reader, &comp.elt),
        Expr::SetComp(comp) => check_dropped(reader, &comp.elt),
        _ => {}
    }
}

/// Looks at a call whose result is not kept.
fn check_call<'a>(reader: &mut Reader<'a, '_>, call: &'a ExprCall) {
    let method = walk::method(call);
    if !matches!(method, "create_task" | "ensure_future") || is_forgiven(reader) {
        return;
    }
    let path = reader.scopes.value(&call.func);
    let spawns = match path.as_deref() {
        Some("asyncio.create_task" | "asyncio.ensure_future") => true,
        Some(path) if path.starts_with("asyncio.") => path
            .strip_prefix("asyncio.")
            .and_then(|rest| rest.strip_suffix(".create_task"))
            .is_some_and(libraries::is_loop),
        // `self.loop.create_task(...)`: a loop by its name. A task group keeps its tasks.
        _ => {
            method == "create_task"
                && matches!(walk::receiver(call), "loop" | "_loop" | "event_loop")
        }
    };
    // Code that adds a callback on the spot is notified of the end; the loop still only holds
    // the task weakly, but such code is rarely wrong.
    if spawns && !matches!(&*call.func, Expr::Call(_)) {
        let severity = match is_in_handler(reader) {
            true => Severity::Note,
            false => Severity::Error,
        };
        reader.report_as(
            severity,
            call,
            rule::DROPPED_TASK,
            "nothing keeps this task: it can be collected while it runs, and no stop waits for it; \
             keep it in a set, or use `asyncio.TaskGroup`",
        );
    }
}

/// In a function that, by its name, is called for a signal or by the garbage collector: nothing there could hold the task.
fn is_in_handler(reader: &Reader<'_, '_>) -> bool {
    let function = reader
        .frames
        .last()
        .and_then(|frame| frame.function.filter(|_| !frame.is_async));
    function.is_some_and(|function| {
        let name = &reader.summary.functions[function as usize].name;
        let name = name.rsplit('.').next().unwrap_or(name);
        name == "__del__" || walk::has_word(name, &["signal", "sigint", "sigterm", "sighup"])
    })
}

/// A script that fills its loop before it runs it, and the handler of a signal, which has no caller
/// to give the task to: what its shutdown waits for holds it.
fn is_forgiven(reader: &Reader<'_, '_>) -> bool {
    let Some(frame) = reader.frames.last() else {
        return true;
    };
    let Some(function) = frame.function.filter(|_| !frame.is_async) else {
        return false;
    };
    let name = &reader.summary.functions[function as usize].name;
    let name = name.rsplit('.').next().unwrap_or(name);
    let source = reader.source;
    memchr::memmem::find_iter(source.as_bytes(), b"add_signal_handler(").any(|at| {
        let end = source[at..]
            .char_indices()
            .nth(160)
            .map_or(source.len(), |(length, _)| at + length);
        source[at..end].contains(name)
    })
}
