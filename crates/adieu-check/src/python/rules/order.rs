//! The order of a stop: what must not come after what.

use ruff_python_ast::{Expr, ExprCall, Stmt, StmtFor, StmtFunctionDef};

use super::super::extract::Reader;
use super::super::models::libraries;
use super::walk::{self, Node};
use crate::callgraph::path::is_internal;
use crate::rule;

const LOOP_NAMES: &[&str] = &["loop", "_loop", "event_loop", "evloop"];

/// `loop.stop()` and then something for the loop to do, in one block.
pub(crate) fn schedule_after_stop<'a>(reader: &mut Reader<'a, '_>, body: &'a [Stmt]) {
    if !reader.imports_asyncio || !reader.mentions_stop {
        return;
    }
    let mut late: Vec<(&ExprCall, &str)> = Vec::new();
    walk::blocks(body, &mut |block: &'a [Stmt]| {
        let stop = block.iter().position(|stmt| match stmt {
            Stmt::Expr(stmt) => {
                matches!(&*stmt.value, Expr::Call(call) if is_loop_stop(reader, call))
            }
            _ => false,
        });
        let Some(stop) = stop else { return };
        for call in walk::calls(&block[stop + 1..]) {
            let method = walk::method(call);
            let on_loop = is_loop_receiver(reader, call)
                && matches!(
                    method,
                    "run_until_complete" | "create_task" | "call_soon" | "call_later" | "call_at"
                );
            let free = matches!(
                reader.scopes.path(&call.func).as_deref(),
                Some("asyncio.create_task" | "asyncio.ensure_future")
            );
            if on_loop || free {
                late.push((call, method));
            }
        }
    });
    for (call, method) in late {
        let message = format!(
            "`{method}` comes after `loop.stop()`: the loop ends before this runs; schedule first and stop the loop \
             when that is done"
        );
        reader.report(call, rule::SCHEDULE_AFTER_STOP, message);
    }
}

fn is_loop_stop(reader: &Reader<'_, '_>, call: &ExprCall) -> bool {
    walk::method(call) == "stop" && call.arguments.is_empty() && is_loop_receiver(reader, call)
}

fn is_loop_receiver(reader: &Reader<'_, '_>, call: &ExprCall) -> bool {
    let Expr::Attribute(attribute) = &*call.func else {
        return false;
    };
    match reader.scopes.value(&attribute.value) {
        Some(path) if !is_internal(&path) => path
            .strip_prefix("asyncio.")
            .is_some_and(libraries::is_loop),
        _ => LOOP_NAMES.contains(&walk::last_name(&attribute.value)),
    }
}

const CONNECTIONS: &[&str] = &[
    "connection",
    "connections",
    "conn",
    "conns",
    "writer",
    "writers",
    "client",
    "clients",
    "transport",
    "transports",
    "websocket",
    "websockets",
    "ws",
];

/// `await server.wait_closed()` and only then the connections: since 3.12 it waits for them.
pub(crate) fn wait_closed_first<'a>(reader: &mut Reader<'a, '_>, def: &'a StmtFunctionDef) {
    if !reader.mentions_wait_closed {
        return;
    }
    let mut early: Vec<&ExprCall> = Vec::new();
    walk::blocks(&def.body, &mut |block: &'a [Stmt]| {
        for (index, stmt) in block.iter().enumerate() {
            let Some(call) = unbounded_wait_closed(reader, stmt) else {
                continue;
            };
            if !early.contains(&call) && block[index + 1..].iter().any(drains) {
                early.push(call);
            }
        }
    });
    for call in early {
        reader.report(
            call,
            rule::WAIT_CLOSED_FIRST,
            "since Python 3.12 `wait_closed` waits for every connection, and they are only ended below: close them \
             first, or bound this with `asyncio.wait_for`",
        );
    }
}

fn unbounded_wait_closed<'a>(reader: &Reader<'a, '_>, stmt: &'a Stmt) -> Option<&'a ExprCall> {
    let mut found = None;
    let mut limited = false;
    walk::own(std::slice::from_ref(stmt), |node| match node {
        Node::Expr(Expr::Await(inner)) => {
            if let Expr::Call(call) = &*inner.value
                && walk::method(call) == "wait_closed"
                && is_server(reader, call)
            {
                found = found.or(Some(call));
            }
        }
        Node::Stmt(Stmt::With(with)) => {
            limited |= with
                .items
                .iter()
                .any(|item| walk::last_name(&item.context_expr).contains("timeout"));
        }
        _ => {}
    });
    found.filter(|_| !limited)
}

fn is_server(reader: &Reader<'_, '_>, call: &ExprCall) -> bool {
    let Expr::Attribute(attribute) = &*call.func else {
        return false;
    };
    match reader.scopes.value(&attribute.value).as_deref() {
        Some("asyncio.start_server()!" | "asyncio.start_unix_server()!" | "asyncio.Server()") => {
            true
        }
        Some(path) if !is_internal(path) => path.ends_with(".create_server()!"),
        _ => walk::has_word(walk::last_name(&attribute.value), &["server", "srv"]),
    }
}

fn drains(stmt: &Stmt) -> bool {
    let mut found = false;
    walk::own(std::slice::from_ref(stmt), |node| {
        found |= match node {
            Node::Stmt(Stmt::For(stmt)) => names_connections(&stmt.iter),
            Node::Stmt(Stmt::While(stmt)) => names_connections(&stmt.test),
            Node::Expr(Expr::Call(call)) => match walk::method(call) {
                "close" | "cancel" | "write_eof" | "abort" => {
                    walk::has_word(walk::receiver(call), CONNECTIONS)
                }
                "gather" | "wait" => call.arguments.args.iter().any(names_connections),
                name => {
                    walk::has_word(name, &["drain", "disconnect"])
                        && walk::has_word(name, CONNECTIONS)
                        || name == "drain_connections"
                }
            },
            _ => false,
        };
    });
    found
}

fn names_connections(expr: &Expr) -> bool {
    match expr {
        Expr::Call(call) => {
            call.arguments.args.iter().any(names_connections)
                || walk::has_word(walk::receiver(call), CONNECTIONS)
        }
        Expr::Starred(starred) => names_connections(&starred.value),
        Expr::UnaryOp(unary) => names_connections(&unary.operand),
        other => walk::has_word(walk::last_name(other), CONNECTIONS),
    }
}

const SHUTDOWN: &[&str] = &[
    "shutdown", "stop", "close", "aclose", "cleanup", "teardown", "lifespan", "exit", "aexit",
];
const RESOURCES: &[&str] = &[
    "db", "database", "pool", "engine", "redis", "postgres", "pg", "mongo", "cache", "storage",
];
const USERS: &[&str] = &[
    "server",
    "worker",
    "workers",
    "scheduler",
    "consumer",
    "consumers",
    "tasks",
    "jobs",
    "requests",
    "poller",
    "listener",
    "bot",
    "dispatcher",
];

/// The pool goes first and its users find it closed: in a function that stops things, or where a coroutine ends.
pub(crate) fn closed_before_users<'a>(reader: &mut Reader<'a, '_>, def: &'a StmtFunctionDef) {
    let stops = walk::has_word(def.name.as_str(), SHUTDOWN);
    let mut early: Vec<(&ExprCall, &str, &str)> = Vec::new();
    let mut look = |block: &'a [Stmt]| {
        for (index, stmt) in block.iter().enumerate() {
            let Some(close) = closes_resource(stmt) else {
                continue;
            };
            let user = block[index + 1..].iter().find_map(stops_user);
            if let Some(user) = user
                && !early.iter().any(|(call, ..)| *call == close)
            {
                early.push((close, walk::receiver(close), user));
            }
        }
    };
    walk::blocks(&def.body, &mut |block: &'a [Stmt]| {
        if stops {
            return look(block);
        }
        for stmt in block {
            if let Stmt::Try(stmt) = stmt {
                walk::blocks(&stmt.finalbody, &mut look);
            }
        }
    });
    for (call, resource, user) in early {
        let message = format!(
            "`{resource}` is closed before `{user}` has stopped using it; stop `{user}` first"
        );
        reader.report(call, rule::CLOSED_BEFORE_USERS, message);
    }
}

fn closes_resource(stmt: &Stmt) -> Option<&ExprCall> {
    let Stmt::Expr(stmt) = stmt else { return None };
    let call = match &*stmt.value {
        Expr::Await(inner) => inner.value.as_call_expr()?,
        other => other.as_call_expr()?,
    };
    let closes = matches!(
        walk::method(call),
        "close" | "aclose" | "dispose" | "disconnect" | "terminate"
    );
    (closes
        && walk::has_word(walk::receiver(call), RESOURCES)
        && !walk::has_word(walk::receiver(call), USERS))
    .then_some(call)
}

fn stops_user(stmt: &Stmt) -> Option<&str> {
    let mut found = None;
    walk::own(std::slice::from_ref(stmt), |node| {
        if let Node::Stmt(Stmt::For(each)) = node
            && found.is_none()
        {
            found = stops_each(each);
        }
        if let Node::Expr(Expr::Call(call)) = node
            && found.is_none()
        {
            let receiver = walk::receiver(call);
            if is_stop(call) && walk::has_word(receiver, USERS) {
                found = Some(receiver);
            } else if matches!(walk::method(call), "gather" | "wait") {
                found = call
                    .arguments
                    .args
                    .iter()
                    .map(walk::last_name)
                    .find(|name| walk::has_word(name, USERS));
            } else if walk::has_word(walk::method(call), &["wait", "drain"])
                && walk::has_word(walk::method(call), USERS)
            {
                found = Some(walk::method(call));
            }
        }
    });
    found
}

/// `for task in tasks: task.cancel()`, over a copy of them too.
fn stops_each(each: &StmtFor) -> Option<&str> {
    let name = match &*each.iter {
        Expr::Call(copy) => copy.arguments.args.first().map(walk::last_name)?,
        other => walk::last_name(other),
    };
    let target = walk::last_name(&each.target);
    let stops = |call: &&ExprCall| is_stop(call) && walk::receiver(call) == target;
    (walk::has_word(name, USERS) && walk::calls(&each.body).iter().any(stops)).then_some(name)
}

fn is_stop(call: &ExprCall) -> bool {
    matches!(
        walk::method(call),
        "stop" | "close" | "shutdown" | "cancel" | "aclose" | "wait_closed"
    )
}
