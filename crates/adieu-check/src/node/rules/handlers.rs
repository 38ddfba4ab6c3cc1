//! Handlers of signals: which signals, and what they do.

use super::servers::{closes_server, is_http};
use crate::flat_tree::FlatNode;
use crate::node::names::{
    NodeCode, arguments, callee, function_of, is_exit, is_function, literal, method,
};
use crate::node::summary::{Need, Sink};
use crate::rule;

/// How many functions of a file are followed from a handler.
const DEEPEST: usize = 4;

/// What bounds the wait for a server that closes.
const LIMITS: &[&str] = &[
    "setTimeout",
    "closeAllConnections",
    "closeIdleConnections",
    "race",
    "AbortSignal",
    "destroy",
    "timeout",
    "Timeout",
    "terminate",
    "stoppable",
];

pub(super) fn check<'t>(code: &NodeCode<'t>, call: FlatNode<'t>, sink: &mut Sink<'_>) {
    let is_handler = method(call).is_some_and(|(object, name)| {
        object.text() == "process"
            && matches!(name, "on" | "once" | "addListener" | "prependListener")
    });
    let arguments = arguments(call);
    let (true, [signal, handler, ..]) = (is_handler, arguments.as_slice()) else {
        return;
    };
    let signals = signals(code, *signal);
    if let Some(name) = signals
        .iter()
        .find(|name| matches!(**name, "SIGKILL" | "SIGSTOP"))
    {
        let message =
            format!("no program can handle {name}: Node throws `EINVAL` here; leave it out");
        sink.report(call, rule::NODE_UNCATCHABLE_SIGNAL, message, Vec::new());
    }
    if signals == ["SIGINT"] {
        let message = "only SIGINT is handled, and containers and units are stopped with SIGTERM: handle it as well";
        sink.report(
            call,
            rule::NODE_SIGINT_ALONE,
            message,
            vec![Need::NoSigterm, Need::Listens],
        );
    }
    if !signals.contains(&"SIGTERM") {
        return;
    }
    if handler.text() == "process.exit" {
        exits_at_once(*handler, sink);
        return;
    }
    let Some(function) = code.function(*handler) else {
        return;
    };
    what_it_does(code, call, function, sink);
}

/// The signals that a first argument of `process.on` stands for; none where that is not known.
fn signals<'t>(code: &NodeCode<'t>, signal: FlatNode<'t>) -> Vec<&'t str> {
    match signal.kind() {
        "string" => vec![literal(signal)],
        "identifier" => {
            let name = signal.text();
            let mut arrays: Vec<FlatNode<'t>> = Vec::new();
            for above in signal.ancestors() {
                // `for (const signal of ['SIGINT', 'SIGTERM'])`.
                if above.is("for_in_statement")
                    && above.child("left").is_some_and(|it| it.text() == name)
                {
                    arrays.extend(above.child("right"));
                }
                // `['SIGINT', 'SIGTERM'].forEach((signal) => …)`.
                let is_parameter = is_function(above)
                    && above
                        .child("parameters")
                        .or_else(|| above.child("parameter"))
                        .is_some_and(|it| {
                            it.text().trim_matches(['(', ')']).split([':', ',']).next()
                                == Some(name)
                        });
                if is_parameter {
                    let call = above.parent().and_then(FlatNode::parent);
                    arrays.extend(
                        call.and_then(method)
                            .filter(|(_, name)| *name == "forEach")
                            .map(|(object, _)| object),
                    );
                }
            }
            let Some(array) = arrays.first() else {
                return Vec::new();
            };
            let array = match code.values(array.text()) {
                [value, ..] => *value,
                [] => *array,
            };
            array
                .below()
                .filter(|it| it.is("string"))
                .map(literal)
                .collect()
        }
        _ => Vec::new(),
    }
}

fn exits_at_once(at: FlatNode<'_>, sink: &mut Sink<'_>) {
    let message = "this exits with requests in flight: close the server, and exit once `close` has called back";
    sink.report(
        at,
        rule::NODE_EXIT_WITHOUT_CLOSE,
        message,
        vec![Need::Listens],
    );
}

fn what_it_does<'t>(
    code: &NodeCode<'t>,
    call: FlatNode<'t>,
    handler: FlatNode<'t>,
    sink: &mut Sink<'_>,
) {
    let functions = reached(code, handler);
    let calls = || {
        functions
            .iter()
            .flat_map(|function| function.below())
            .filter(|node| node.is("call_expression"))
    };
    let mut exits_early = false;
    for function in &functions {
        for exit in function.below().filter(|node| is_exit(*node)) {
            if let Some(close) = closed_just_before(code, exit) {
                exits_early = true;
                let said = callee(close).map_or("close", FlatNode::text);
                let message = format!(
                    "this ends the process before `{said}` has closed the server, with requests in flight: exit in its callback"
                );
                sink.report(exit, rule::NODE_EXIT_BEFORE_CLOSE, message, Vec::new());
            }
        }
    }
    if exits_early {
        return;
    }
    let does_nothing_else = functions
        .iter()
        .flat_map(|function| function.below())
        .all(|node| match node.kind() {
            "call_expression" => is_exit(node) || is_said(code, node),
            "new_expression"
            | "assignment_expression"
            | "throw_statement"
            | "await_expression"
            | "update_expression" => false,
            _ => true,
        });
    let exit = calls().find(|node| is_exit(*node));
    match exit {
        Some(exit) if does_nothing_else => exits_at_once(exit, sink),
        None if does_nothing_else => {
            let message = "Node does not end on a signal that has a handler, and this one neither closes nor exits: the \
                           program runs on until SIGKILL";
            sink.report(
                call,
                rule::NODE_HANDLER_WITHOUT_STOP,
                message,
                vec![Need::Listens],
            );
        }
        _ => {}
    }
    let is_limited = functions
        .iter()
        .any(|function| LIMITS.iter().any(|word| function.text().contains(word)));
    if is_limited {
        return;
    }
    if let Some(close) = calls().find(|node| is_http(code, *node)) {
        let message = "`close` waits for every request and every open connection, and nothing limits that: call \
                       `closeIdleConnections()`, and `closeAllConnections()` after a timeout";
        sink.report(close, rule::NODE_CLOSE_WITHOUT_LIMIT, message, Vec::new());
    }
}

/// The handler and the functions of this file that it calls.
fn reached<'t>(code: &NodeCode<'t>, handler: FlatNode<'t>) -> Vec<FlatNode<'t>> {
    let mut functions = vec![handler];
    let mut from = 0;
    for _ in 0..DEEPEST {
        let mut more = Vec::new();
        for function in &functions[from..] {
            let calls = function.below().filter(|node| node.is("call_expression"));
            let called = calls.filter_map(|call| code.function(callee(call)?));
            more.extend(called);
        }
        from = functions.len();
        for function in more {
            let is_new = functions.iter().all(|known| !known.holds(function));
            if is_new {
                functions.push(function);
            }
        }
        if functions.len() == from {
            break;
        }
    }
    functions
}

/// The call that began to close a server, where the exit does not wait for it.
fn closed_just_before<'t>(code: &NodeCode<'t>, exit: FlatNode<'t>) -> Option<FlatNode<'t>> {
    let statement = exit.parent().filter(|it| it.is("expression_statement"))?;
    let block = statement.parent().filter(|it| it.is("statement_block"))?;
    let function = function_of(exit)?;
    let is_own = |node: FlatNode<'t>| function_of(node) == Some(function);
    let mut before = block.below().take_while(|node| node.start() < exit.start());
    let close = before.find(|node| {
        let is_alone = node
            .parent()
            .is_some_and(|it| it.is("expression_statement"));
        node.is("call_expression") && is_alone && is_own(*node) && closes_server(code, *node)
    })?;
    let waits = block.below().any(|node| {
        (node.is("await_expression") || node.is("return_statement"))
            && is_own(node)
            && (close.start()..exit.start()).contains(&node.start())
    });
    (!waits).then_some(close)
}

/// Whether a call only writes a line.
fn is_said(code: &NodeCode<'_>, call: FlatNode<'_>) -> bool {
    let Some(function) = callee(call) else {
        return false;
    };
    // What it calls of this file was looked into.
    if code.function(function).is_some() {
        return true;
    }
    let text = function.text().to_ascii_lowercase();
    let first = text.split('.').next().unwrap_or_default();
    let last = text.rsplit('.').next().unwrap_or_default();
    first == "console"
        || matches!(
            last,
            "log"
                | "info"
                | "warn"
                | "error"
                | "debug"
                | "write"
                | "tostring"
                | "trace"
                | "fatal"
                | "notice"
                | "verbose"
        )
}
