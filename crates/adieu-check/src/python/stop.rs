//! What a function does that takes time, for the budget of a stop.

use ruff_python_ast::{
    Arguments, CmpOp, ExceptHandler, Expr, ExprCall, Number, Stmt, StmtFor, StmtFunctionDef,
    StmtTry, StmtWhile, StmtWith, UnaryOp, WithItem,
};
use ruff_text_size::Ranged;

use super::extract::Reader;
use crate::callgraph::{Length, StopStep};

/// Deeper code is not followed: it has no timeouts anyone could find.
const DEEPEST: u32 = 60;

impl<'a> Reader<'a, '_> {
    /// The steps of a function, while its names are known.
    pub(super) fn steps_of(&self, def: &'a StmtFunctionDef) -> Vec<StopStep> {
        let mut out = Vec::new();
        Steps {
            reader: self,
            depth: 0,
            in_group: false,
        }
        .body(&def.body, &mut out);
        match def
            .decorator_list
            .iter()
            .find_map(|it| self.retries(&it.expression))
        {
            Some(retries) if !out.is_empty() => vec![retries.around(out, self.place(def))],
            _ => out,
        }
    }

    /// `@retry(stop=stop_after_attempt(5), wait=wait_fixed(2))` of tenacity.
    fn retries(&self, decorator: &'a Expr) -> Option<Retries> {
        let Expr::Call(call) = decorator else {
            return None;
        };
        if self.scopes.path(&call.func)?.as_str() != "tenacity.retry" {
            return None;
        }
        let called = |keyword: &str| -> Option<(String, &'a Arguments)> {
            let Expr::Call(call) = &call.arguments.find_keyword(keyword)?.value else {
                return None;
            };
            let path = self.scopes.path(&call.func)?;
            let name = path.rsplit('.').next()?.to_owned();
            Some((name, &call.arguments))
        };
        let first = |arguments: &'a Arguments| arguments.find_positional(0);
        let attempts = match called("stop") {
            Some((name, arguments)) if name == "stop_after_attempt" => {
                first(arguments).and_then(|count| self.whole(count))
            }
            _ => None,
        };
        let pause = match called("wait") {
            None => Length::Millis(0),
            Some((name, arguments)) => match name.as_str() {
                "wait_none" => Length::Millis(0),
                "wait_fixed" => self.length(first(arguments)),
                "wait_exponential" | "wait_random_exponential" => {
                    self.length(arguments.find_argument_value("max", 1))
                }
                "wait_random" => self.length(arguments.find_argument_value("max", 1)),
                _ => Length::Unclear,
            },
        };
        Some(Retries {
            attempts,
            has_stop: call.arguments.find_keyword("stop").is_some(),
            pause,
        })
    }

    /// Seconds, as a number or a constant of the module.
    fn length(&self, value: Option<&Expr>) -> Length {
        match value {
            None | Some(Expr::NoneLiteral(_)) => Length::Unlimited,
            Some(value) => match self.millis(value) {
                Some(millis) => Length::Millis(millis),
                None => Length::Unclear,
            },
        }
    }

    fn millis(&self, value: &Expr) -> Option<u64> {
        let seconds = self.number(value)?;
        // Longer than any stop: a whole number of milliseconds all the same.
        (0.0..1e12)
            .contains(&seconds)
            .then(|| (seconds * 1_000.0).ceil() as u64)
    }

    fn whole(&self, value: &Expr) -> Option<u64> {
        let number = self.number(value)?;
        (0.0..1e9).contains(&number).then_some(number as u64)
    }

    fn number(&self, value: &Expr) -> Option<f64> {
        match value {
            Expr::NumberLiteral(literal) => match &literal.value {
                Number::Int(int) => int.as_u64().map(|int| int as f64),
                Number::Float(float) => Some(*float),
                Number::Complex { .. } => None,
            },
            Expr::UnaryOp(unary) if unary.op == UnaryOp::UAdd => self.number(&unary.operand),
            Expr::BinOp(binary) => {
                use ruff_python_ast::Operator::{Add, Div, Mult, Sub};
                let (left, right) = (self.number(&binary.left)?, self.number(&binary.right)?);
                match binary.op {
                    Mult => Some(left * right),
                    Add => Some(left + right),
                    Sub => Some(left - right),
                    Div if right != 0.0 => Some(left / right),
                    _ => None,
                }
            }
            Expr::Name(name) => self.constant(name.id.as_str()),
            _ => None,
        }
    }

    /// A name of the module that is given one plain number, once.
    fn constant(&self, name: &str) -> Option<f64> {
        let shadowed = self
            .scopes
            .stack
            .iter()
            .any(|scope| scope.names.contains_key(name));
        let mut values = self.body.iter().filter_map(|stmt| match stmt {
            Stmt::Assign(assign) => assign
                .targets
                .iter()
                .any(|target| is_name(target, name))
                .then_some(&*assign.value),
            Stmt::AnnAssign(assign) if is_name(&assign.target, name) => assign.value.as_deref(),
            _ => None,
        });
        match (values.next(), values.next()) {
            (Some(value @ (Expr::NumberLiteral(_) | Expr::BinOp(_))), None)
                if !shadowed && is_plain(value) =>
            {
                self.number(value)
            }
            _ => None,
        }
    }

    /// As it is written, if that is one short line.
    fn written(&self, node: &impl Ranged) -> Box<str> {
        let text = self
            .source
            .get(node.range().to_std_range())
            .unwrap_or_default();
        let line = text.lines().next().unwrap_or_default();
        let mut short: String = line.chars().take(60).collect();
        if short.len() < text.len() {
            short.push('…');
        }
        short.into_boxed_str()
    }
}

/// Numbers alone, so that no name leads back to itself.
fn is_plain(value: &Expr) -> bool {
    match value {
        Expr::NumberLiteral(_) => true,
        Expr::BinOp(binary) => is_plain(&binary.left) && is_plain(&binary.right),
        _ => false,
    }
}

fn is_name(expr: &Expr, name: &str) -> bool {
    matches!(expr, Expr::Name(found) if found.id.as_str() == name)
}

/// What a decorator makes of one try.
struct Retries {
    attempts: Option<u64>,
    has_stop: bool,
    pause: Length,
}

impl Retries {
    fn around(self, mut inner: Vec<StopStep>, place: crate::finding::Place) -> StopStep {
        inner.push(StopStep::Takes {
            length: self.pause,
            what: "pause before the next try".into(),
            place,
        });
        StopStep::Times {
            count: self.attempts,
            is_limited: self.has_stop,
            what: "tries".into(),
            place,
            inner,
        }
    }
}

struct Steps<'r, 'a, 'm> {
    reader: &'r Reader<'a, 'm>,
    depth: u32,
    /// Inside a group that waits for its tasks.
    in_group: bool,
}

impl<'a> Steps<'_, 'a, '_> {
    fn body(&mut self, body: &'a [Stmt], out: &mut Vec<StopStep>) {
        if self.depth == DEEPEST {
            return;
        }
        self.depth += 1;
        for stmt in body {
            self.stmt(stmt, out);
        }
        self.depth -= 1;
    }

    fn of_body(&mut self, body: &'a [Stmt]) -> Vec<StopStep> {
        let mut out = Vec::new();
        self.body(body, &mut out);
        out
    }

    fn of_expr(&mut self, expr: &'a Expr) -> Vec<StopStep> {
        let mut out = Vec::new();
        self.expr(expr, &mut out);
        out
    }

    fn stmt(&mut self, stmt: &'a Stmt, out: &mut Vec<StopStep>) {
        match stmt {
            Stmt::Expr(stmt) => self.expr(&stmt.value, out),
            Stmt::Assign(stmt) => self.expr(&stmt.value, out),
            Stmt::AnnAssign(stmt) => stmt.value.iter().for_each(|value| self.expr(value, out)),
            Stmt::AugAssign(stmt) => self.expr(&stmt.value, out),
            Stmt::Return(stmt) => stmt.value.iter().for_each(|value| self.expr(value, out)),
            Stmt::If(stmt) => {
                self.expr(&stmt.test, out);
                let mut ways = vec![self.of_body(&stmt.body)];
                let mut has_else = false;
                for clause in &stmt.elif_else_clauses {
                    has_else |= clause.test.is_none();
                    clause.test.iter().for_each(|test| self.expr(test, out));
                    ways.push(self.of_body(&clause.body));
                }
                if !has_else {
                    ways.push(Vec::new());
                }
                push_ways(ways, out);
            }
            Stmt::Match(stmt) => {
                self.expr(&stmt.subject, out);
                let ways = stmt
                    .cases
                    .iter()
                    .map(|case| self.of_body(&case.body))
                    .collect();
                push_ways(ways, out);
            }
            Stmt::Try(stmt) => self.tried(stmt, out),
            Stmt::With(stmt) => self.with(stmt, &stmt.items, out),
            Stmt::For(stmt) => self.for_loop(stmt, out),
            Stmt::While(stmt) => self.while_loop(stmt, out),
            _ => {}
        }
    }

    fn tried(&mut self, stmt: &'a StmtTry, out: &mut Vec<StopStep>) {
        self.body(&stmt.body, out);
        let mut ways = vec![self.of_body(&stmt.orelse)];
        for ExceptHandler::ExceptHandler(handler) in &stmt.handlers {
            ways.push(self.of_body(&handler.body));
        }
        push_ways(ways, out);
        self.body(&stmt.finalbody, out);
    }

    fn with(&mut self, stmt: &'a StmtWith, items: &'a [WithItem], out: &mut Vec<StopStep>) {
        let Some((item, others)) = items.split_first() else {
            return self.body(&stmt.body, out);
        };
        let path = match &item.context_expr {
            Expr::Call(call) => self.reader.scopes.path(&call.func),
            _ => None,
        };
        let place = self.reader.place(item);
        let what = self.reader.written(&item.context_expr);
        let limit = match (path.as_deref(), &item.context_expr) {
            (Some(path), Expr::Call(call)) if is_timeout(path) => {
                Some(self.reader.length(call.arguments.args.first().or_else(|| {
                    call.arguments
                        .keywords
                        .first()
                        .map(|keyword| &keyword.value)
                })))
            }
            _ => None,
        };
        if let Some(limit) = limit {
            let mut inner = Vec::new();
            self.with(stmt, others, &mut inner);
            out.push(StopStep::Within {
                limit,
                what,
                place,
                inner,
            });
            return;
        }
        self.expr(&item.context_expr, out);
        let is_group = matches!(
            path.as_deref(),
            Some("asyncio.TaskGroup" | "anyio.create_task_group" | "trio.open_nursery")
        );
        let outer = self.in_group;
        self.in_group |= is_group;
        self.with(stmt, others, out);
        self.in_group = outer;
        if matches!(
            path.as_deref(),
            Some(
                "concurrent.futures.ThreadPoolExecutor" | "concurrent.futures.ProcessPoolExecutor"
            )
        ) {
            out.push(StopStep::Takes {
                length: Length::Unlimited,
                what: format!("`{what}` waits for what it runs").into(),
                place,
            });
        }
    }

    fn for_loop(&mut self, stmt: &'a StmtFor, out: &mut Vec<StopStep>) {
        self.expr(&stmt.iter, out);
        let mut inner = self.of_body(&stmt.body);
        let count = match &*stmt.iter {
            Expr::List(list) => Some(list.elts.len() as u64),
            Expr::Tuple(tuple) => Some(tuple.elts.len() as u64),
            Expr::Call(call) if is_name(&call.func, "range") => match &*call.arguments.args {
                [count] => self.reader.whole(count),
                [from, to] => match (self.reader.whole(from), self.reader.whole(to)) {
                    (Some(from), Some(to)) => Some(to.saturating_sub(from)),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        };
        if stmt.is_async {
            inner.insert(
                0,
                StopStep::Takes {
                    length: Length::Unclear,
                    what: format!("`async for … in {}`", self.reader.written(&*stmt.iter)).into(),
                    place: self.reader.place(stmt),
                },
            );
        }
        if !inner.is_empty() {
            out.push(StopStep::Times {
                count,
                is_limited: true,
                what: format!("for … in {}", self.reader.written(&*stmt.iter)).into(),
                place: self.reader.place(stmt),
                inner,
            });
        }
        self.body(&stmt.orelse, out);
    }

    fn while_loop(&mut self, stmt: &'a StmtWhile, out: &mut Vec<StopStep>) {
        let mut inner = self.of_expr(&stmt.test);
        self.body(&stmt.body, &mut inner);
        if !inner.is_empty() {
            out.push(StopStep::Times {
                count: None,
                is_limited: counts(&stmt.test),
                what: format!("while {}", self.reader.written(&*stmt.test)).into(),
                place: self.reader.place(stmt),
                inner,
            });
        }
        self.body(&stmt.orelse, out);
    }

    fn expr(&mut self, expr: &'a Expr, out: &mut Vec<StopStep>) {
        if self.depth == DEEPEST {
            return;
        }
        self.depth += 1;
        match expr {
            Expr::Await(inner) => match &*inner.value {
                Expr::Call(call) => self.call(call, true, out),
                // A task, or what a name holds: how long it takes is up to what it runs.
                other => out.push(StopStep::Takes {
                    length: Length::Unclear,
                    what: format!("`await {}`", self.reader.written(other)).into(),
                    place: self.reader.place(expr),
                }),
            },
            Expr::Call(call) => self.call(call, false, out),
            Expr::Yield(_) => out.push(StopStep::Runs),
            Expr::BoolOp(bool) => bool.values.iter().for_each(|value| self.expr(value, out)),
            Expr::Compare(compare) => {
                self.expr(&compare.left, out);
                compare
                    .comparators
                    .iter()
                    .for_each(|value| self.expr(value, out));
            }
            Expr::UnaryOp(unary) => self.expr(&unary.operand, out),
            Expr::If(expr) => {
                self.expr(&expr.test, out);
                let ways = vec![self.of_expr(&expr.body), self.of_expr(&expr.orelse)];
                push_ways(ways, out);
            }
            Expr::Named(named) => self.expr(&named.value, out),
            Expr::Starred(starred) => self.expr(&starred.value, out),
            Expr::List(list) => list.elts.iter().for_each(|item| self.expr(item, out)),
            Expr::Tuple(tuple) => tuple.elts.iter().for_each(|item| self.expr(item, out)),
            _ => {}
        }
        self.depth -= 1;
    }

    fn call(&mut self, call: &'a ExprCall, awaited: bool, out: &mut Vec<StopStep>) {
        let reader = self.reader;
        let place = reader.place(call);
        let what = reader.written(call);
        let arguments = &call.arguments;
        let path = reader.scopes.path(&call.func);
        match path.as_deref().unwrap_or_default() {
            "asyncio.sleep" | "time.sleep" | "anyio.sleep" | "trio.sleep" => {
                let length = reader.length(arguments.args.first());
                out.push(StopStep::Takes {
                    length,
                    what: format!("`{what}`").into(),
                    place,
                });
            }
            "asyncio.wait_for" => {
                let limit = reader.length(arguments.find_argument_value("timeout", 1));
                let inner = arguments
                    .find_positional(0)
                    .map(|inner| self.awaited(inner));
                out.push(StopStep::Within {
                    limit,
                    what,
                    place,
                    inner: inner.unwrap_or_default(),
                });
            }
            "asyncio.wait" => {
                let limit = reader.length(
                    arguments
                        .find_keyword("timeout")
                        .map(|keyword| &keyword.value),
                );
                out.push(StopStep::Takes {
                    length: limit,
                    what: format!("`{what}`").into(),
                    place,
                });
            }
            "asyncio.shield" => out.extend(
                arguments
                    .find_positional(0)
                    .map(|it| self.awaited(it))
                    .into_iter()
                    .flatten(),
            ),
            "asyncio.gather" => {
                let parts = arguments
                    .args
                    .iter()
                    .map(|part| self.awaited(part))
                    .collect();
                out.push(StopStep::Together { place, parts });
            }
            // Nothing waits for these here, unless a group does.
            "asyncio.create_task" | "asyncio.ensure_future" => {}
            _ => {
                let is_spawn = matches!(&*call.func, Expr::Attribute(method)
                    if matches!(method.attr.as_str(), "create_task" | "start_soon"));
                for argument in &*arguments.args {
                    match argument {
                        Expr::Call(inner) if is_spawn => {
                            if self.in_group {
                                self.call(inner, true, out);
                            }
                        }
                        other => self.expr(other, out),
                    }
                }
                if is_spawn {
                    return;
                }
                if let Expr::Attribute(method) = &*call.func {
                    self.expr(&method.value, out);
                }
                self.other(call, path, awaited, out);
            }
        }
    }

    /// A call of the project or of a library.
    fn other(
        &self,
        call: &'a ExprCall,
        path: Option<String>,
        awaited: bool,
        out: &mut Vec<StopStep>,
    ) {
        let reader = self.reader;
        let what = reader.written(call);
        let place = reader.place(call);
        match path {
            Some(path) => {
                let positional = call.arguments.args.iter().map(|value| (None, value));
                let keywords = call.arguments.keywords.iter().filter_map(|keyword| {
                    let name: Box<str> = keyword.arg.as_ref()?.as_str().into();
                    Some((Some(name), &keyword.value))
                });
                let limits = positional
                    .chain(keywords)
                    .map(|(name, value)| (name, reader.length(Some(value))))
                    .collect();
                out.push(StopStep::Calls {
                    path: path.into(),
                    what,
                    limits,
                    awaited,
                    place,
                });
            }
            // What cannot be followed and is waited for.
            None if awaited => out.push(StopStep::Takes {
                length: Length::Unclear,
                what: format!("`await {what}`").into(),
                place,
            }),
            None => {}
        }
    }

    /// A coroutine among the arguments of what awaits it.
    fn awaited(&mut self, expr: &'a Expr) -> Vec<StopStep> {
        let mut out = Vec::new();
        match expr {
            Expr::Call(call) => self.call(call, true, &mut out),
            Expr::Starred(_) | Expr::Name(_) | Expr::Attribute(_) => out.push(StopStep::Takes {
                length: Length::Unclear,
                what: format!("`{}`", self.reader.written(expr)).into(),
                place: self.reader.place(expr),
            }),
            other => self.expr(other, &mut out),
        }
        out
    }
}

/// Ways that differ in what takes time.
fn push_ways(mut ways: Vec<Vec<StopStep>>, out: &mut Vec<StopStep>) {
    if ways.iter().all(Vec::is_empty) {
        return;
    }
    if let [only] = &mut *ways {
        out.append(only);
    } else {
        out.push(StopStep::OneOf(ways));
    }
}

/// Whether the condition of a loop compares a number or asks the clock: then it ends by itself.
fn counts(test: &Expr) -> bool {
    match test {
        Expr::Compare(compare) => compare
            .ops
            .iter()
            .any(|op| matches!(op, CmpOp::Lt | CmpOp::LtE | CmpOp::Gt | CmpOp::GtE)),
        Expr::BoolOp(bool) => bool.values.iter().any(counts),
        Expr::UnaryOp(unary) => counts(&unary.operand),
        _ => false,
    }
}

fn is_timeout(path: &str) -> bool {
    matches!(
        path,
        "asyncio.timeout"
            | "async_timeout.timeout"
            | "anyio.move_on_after"
            | "anyio.fail_after"
            | "trio.move_on_after"
            | "trio.fail_after"
    )
}
