//! Servers that a program starts: whether a signal closes them.

use crate::flat_tree::FlatNode;
use crate::node::names::{NodeCode, Server, callee, function_of, method};
use crate::node::summary::{Need, Sink};
use crate::rule;

/// How many functions of a file are followed from the top of the file to a server.
const DEEPEST: usize = 5;

/// Whether a call is `serve()` of hono.
pub(in crate::node) fn is_serve(code: &NodeCode<'_>, call: FlatNode<'_>) -> bool {
    callee(call).is_some_and(|function| {
        function.text() == "serve" && code.module("serve") == Some("@hono/node-server")
    })
}

pub(super) fn check<'t>(code: &NodeCode<'t>, call: FlatNode<'t>, sink: &mut Sink<'_>) {
    let object = method(call)
        .filter(|(_, name)| *name == "listen")
        .map(|(object, _)| object);
    let server = match object {
        Some(object) => code.server(object),
        None => is_serve(code, call).then_some(Server::Http),
    };
    if server == Some(Server::Nest) {
        let message = "Nest calls `onModuleDestroy` and closes its server on SIGTERM only after \
                       `app.enableShutdownHooks()`: call it before `listen`";
        sink.report(
            call,
            rule::NEST_WITHOUT_HOOKS,
            message,
            vec![Need::NoShutdownHooks, Need::NoSigterm],
        );
        return;
    }
    let mut needs = vec![Need::NoSigterm];
    if server.is_none() {
        if !object.is_some_and(|object| is_imported_application(code, object)) {
            return;
        }
        needs.push(Need::Framework);
    }
    if is_closed(code, call) || !runs_at_start(code, call, DEEPEST) {
        return;
    }
    let said = callee(call).map_or("listen", FlatNode::text);
    let said = if said.contains(['\n', '(']) {
        "listen"
    } else {
        said
    };
    let message = format!(
        "nothing closes the server of `{said}` on SIGTERM: Node ends at once and requests in flight are lost, and as \
         PID 1 it does not end at all; call `close` in `process.on('SIGTERM', …)`"
    );
    sink.report(call, rule::NODE_NO_HANDLER, message, needs);
}

/// Whether this is the application of another file: `import app from './app'`.
pub(in crate::node) fn is_imported_application(code: &NodeCode<'_>, object: FlatNode<'_>) -> bool {
    let name = object.text();
    let is_own = |name: &str| {
        code.module(name)
            .is_some_and(|module| module.starts_with(['.', '@', '~', '#', '/']))
    };
    // `const app = await createApp()`.
    let is_made = |value: &FlatNode<'_>| {
        let value = match value.kind() {
            "await_expression" => value.first(),
            _ => Some(*value),
        };
        let call = value.filter(|it| it.is("call_expression"));
        call.and_then(callee)
            .is_some_and(|it| it.is("identifier") && is_own(it.text()))
    };
    matches!(name, "app" | "server" | "api" | "application")
        && (is_own(name) || code.values(name).iter().any(is_made))
}

/// Whether a server of this file is closed by its name anywhere: it has another end than a signal.
fn is_closed(code: &NodeCode<'_>, listen: FlatNode<'_>) -> bool {
    let mut names: Vec<&str> = Vec::new();
    names.extend(method(listen).map(|(object, _)| object.text()));
    let declarator = listen.ancestors().find(|above| {
        matches!(
            above.kind(),
            "variable_declarator" | "assignment_expression" | "statement_block"
        )
    });
    names.extend(
        declarator
            .and_then(|it| it.child("name").or(it.child("left")))
            .map(FlatNode::text),
    );
    code.root.below().any(|node| {
        node.is("call_expression")
            && method(node).is_some_and(|(object, name)| {
                matches!(name, "close" | "shutdown" | "stop") && names.contains(&object.text())
            })
    })
}

/// Whether the file runs this as soon as it is loaded: at its top, or in functions that its top calls.
fn runs_at_start<'t>(code: &NodeCode<'t>, node: FlatNode<'t>, steps: usize) -> bool {
    let Some(steps) = steps.checked_sub(1) else {
        return false;
    };
    let Some(function) = function_of(node) else {
        return true;
    };
    let Some(parent) = function.parent() else {
        return false;
    };
    match parent.kind() {
        // `(async () => { … })()`.
        "parenthesized_expression" => {
            let around = parent.parent();
            around.is_some_and(|it| it.is("call_expression") && runs_at_start(code, it, steps))
        }
        // `connect().then(() => { … })`, and not a route.
        "arguments" => parent.parent().is_some_and(|call| {
            let is_later = method(call).is_none_or(|(_, name)| {
                matches!(
                    name,
                    "then"
                        | "finally"
                        | "connect"
                        | "once"
                        | "sync"
                        | "listen"
                        | "ready"
                        | "after"
                        | "prepare"
                        | "init"
                        | "load"
                )
            });
            is_later && runs_at_start(code, call, steps)
        }),
        _ => {
            let name = function.child("name").or_else(|| parent.child("name"));
            let Some(name) = name.filter(|_| !function.is("method_definition")) else {
                return false;
            };
            code.root.below().any(|call| {
                call.is("call_expression")
                    && !function.holds(call)
                    && callee(call).is_some_and(|it| it.text() == name.text())
                    && runs_at_start(code, call, steps)
            })
        }
    }
}

/// Whether the server of a call such as `server.close()` is one whose connections may stay open.
pub(super) fn is_http<'t>(code: &NodeCode<'t>, close: FlatNode<'t>) -> bool {
    method(close).is_some_and(|(object, name)| {
        name == "close"
            && matches!(
                code.server(object),
                Some(Server::Http | Server::Application)
            )
    })
}

/// Whether a call closes a server, as far as names and types tell.
pub(super) fn closes_server<'t>(code: &NodeCode<'t>, call: FlatNode<'t>) -> bool {
    let Some((object, name)) = method(call) else {
        return false;
    };
    if !matches!(name, "close" | "stop" | "shutdown") {
        return false;
    }
    let last = object
        .text()
        .rsplit(['.', '?', '!'])
        .next()
        .unwrap_or_default();
    let by_name = last.to_ascii_lowercase().ends_with("server");
    (name == "close" && code.server(object).is_some()) || by_name
}
