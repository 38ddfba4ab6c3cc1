//! One pass over one file: names, classes, functions, and the calls they make.

use std::sync::Arc;

use ruff_python_ast::token::{TokenKind, Tokens};
use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{
    Comprehension, ExceptHandler, Expr, ExprLambda, Stmt, StmtIf, StmtTry, StmtWith,
};
use ruff_text_size::Ranged;
use rustc_hash::FxHashMap;

use super::bindings::{self, Owner, Scope};
use super::imports::Position;
use super::models::clients::Clients;
use super::paths::Scopes;
use super::{canonical, guards, rules};
use crate::callgraph::path::is_internal;
use crate::callgraph::{CallFlags, FileSummary, ModuleId, NameId};
use crate::depth::{self, Syntax};
use crate::finding::{Finding, Place};
use crate::role::TestCode;
use crate::rule::{self, Code};
use crate::severity::Severity;
use crate::source::Lines;
use crate::suppress;

/// Reads one Python file. What cannot be parsed is a finding; what can be is still looked at.
pub(crate) fn extract(
    source: &str,
    path: &Arc<str>,
    position: Position<'_>,
    module: ModuleId,
    tests: TestCode,
    for_budget: bool,
) -> FileSummary {
    let mut summary = FileSummary::new(Arc::clone(path), module);
    let too_deep = |mut summary: FileSummary| {
        summary.findings.push(Finding::new(
            path,
            Place::TOP,
            rule::SYNTAX,
            "is nested too deeply to be checked",
        ));
        summary
    };
    if source.len() > PARSED_AT_ONCE && depth::too_deep(source, Syntax::Python) {
        return too_deep(summary);
    }
    let parsed =
        ruff_python_parser::parse_unchecked_source(source, ruff_python_ast::PySourceType::Python);
    if has_long_line(parsed.tokens()) && depth::too_deep(source, Syntax::Python) {
        // The parser grows its stack; to walk or even to drop such a tree would not.
        std::mem::forget(parsed);
        return too_deep(summary);
    }
    let lines = Lines::new(source);
    if let Some(error) = parsed.errors().first()
        && tests != TestCode::WholeFile
    {
        let place = lines.place(source, error.location.start().to_usize());
        summary.findings.push(Finding::new(
            path,
            place,
            rule::SYNTAX,
            format!("syntax error: {}", error.error),
        ));
    }
    if suppress::may_have(source) {
        let comments = parsed
            .tokens()
            .iter()
            .filter(|token| token.kind().is_comment());
        let comments =
            comments.map(|token| token.range().start().to_usize()..token.range().end().to_usize());
        summary.ignores = suppress::read_all(source, &lines, comments);
    }
    let body = parsed.suite();
    let mut top = FxHashMap::default();
    bindings::collect(body, position, &mut top, &mut Vec::new());
    let has_star = top.remove("*").is_some();
    let scopes = Scopes {
        position,
        module,
        has_star,
        top,
        stack: Vec::new(),
    };
    let mut reader = Reader {
        source,
        body,
        lines: &lines,
        summary,
        scopes,
        frames: Vec::new(),
        is_test: tests == TestCode::WholeFile,
        tests,
        for_budget,
        imports_asyncio: false,
        mentions_stop: memchr::memmem::find(source.as_bytes(), b".stop()").is_some(),
        mentions_wait_closed: memchr::memmem::find(source.as_bytes(), b"wait_closed").is_some(),
        signal_calls: Vec::new(),
        patched: Vec::new(),
        branch_depth: 0,
        finally_depth: 0,
        guard_depth: 0,
        with_depth: 0,
        buffer: String::new(),
        qualified: String::new(),
    };
    reader.visit_body(body);
    reader.forget_patched();
    rules::on_module(&mut reader, body);
    reader.summary.names.seal();
    reader.summary
}

/// Larger files are measured before they are parsed: a tree of millions of levels is memory too.
const PARSED_AT_ONCE: usize = 256 * 1024;

/// Whether any logical line has more tokens than a tree may have levels. Hardly one has.
fn has_long_line(tokens: &Tokens) -> bool {
    let mut length = 0;
    tokens.len() > depth::DEEPEST
        && tokens.iter().any(|token| {
            length = match token.kind() {
                TokenKind::Newline => 0,
                _ => length + 1,
            };
            length > depth::DEEPEST
        })
}

/// The function being read.
#[derive(Debug)]
pub(crate) struct Frame {
    /// Its index in the summary; none in a lambda, whose calls happen who knows where.
    pub(crate) function: Option<u32>,
    pub(crate) is_async: bool,
    /// Looks whether a loop runs before it acts, so it knows what it does.
    pub(super) knows_loop: bool,
    pub(super) generates: bool,
    pub(super) self_name: Option<Box<str>>,
    /// What was asked whether it is done, and does not wait when it then gives its result.
    pub(super) asked: Vec<Box<str>>,
    /// Branches outside the function do not make its own bindings doubtful.
    pub(super) outer_branch: u32,
    pub(super) outer_finally: u32,
    pub(super) outer_guard: u32,
}

impl Frame {
    /// Code whose calls happen who knows where.
    fn elsewhere(outer_branch: u32, outer_finally: u32) -> Frame {
        Frame {
            function: None,
            is_async: false,
            knows_loop: false,
            generates: false,
            self_name: None,
            asked: Vec::new(),
            outer_branch,
            outer_finally,
            outer_guard: 0,
        }
    }
}

/// The state of one pass.
pub(crate) struct Reader<'a, 'm> {
    pub(crate) source: &'a str,
    /// The statements of the module.
    pub(crate) body: &'a [Stmt],
    pub(crate) lines: &'a Lines,
    pub(crate) summary: FileSummary,
    pub(crate) scopes: Scopes<'a, 'm>,
    pub(crate) frames: Vec<Frame>,
    pub(crate) is_test: bool,
    pub(crate) tests: TestCode,
    /// Whether what functions do that takes time is written down.
    pub(super) for_budget: bool,
    pub(crate) imports_asyncio: bool,
    /// Words that some rules need: looked for once a file, not once a function.
    pub(crate) mentions_stop: bool,
    pub(crate) mentions_wait_closed: bool,
    pub(crate) signal_calls: Vec<rules::SignalCall>,
    /// Functions of libraries in whose place the file puts others.
    patched: Vec<NameId>,
    pub(super) branch_depth: u32,
    pub(super) finally_depth: u32,
    /// Inside a branch that is taken once, or hardly ever.
    pub(super) guard_depth: u32,
    /// Inside `with`: perhaps a lock, and an await there would be new.
    pub(super) with_depth: u32,
    pub(super) buffer: String,
    pub(super) qualified: String,
}

impl<'a, 'm> Reader<'a, 'm> {
    /// What is known of the clients of others.
    pub(super) fn clients(&self) -> &'m Clients {
        self.scopes.position.clients
    }

    pub(crate) fn place(&self, node: &impl Ranged) -> Place {
        self.lines.place(self.source, node.start().to_usize())
    }

    pub(crate) fn report(&mut self, node: &impl Ranged, code: Code, message: impl Into<String>) {
        if !self.is_test {
            let finding = Finding::new(&self.summary.path, self.place(node), code, message);
            self.summary.findings.push(finding);
        }
    }

    /// A finding that matters as much as said, whatever its rule says.
    pub(crate) fn report_as(
        &mut self,
        severity: Severity,
        node: &impl Ranged,
        code: Code,
        message: impl Into<String>,
    ) {
        if !self.is_test {
            let place = self.place(node);
            let finding = Finding::new(&self.summary.path, place, code, message).rated(severity);
            self.summary.findings.push(finding);
        }
    }

    fn visit_with_stmt(&mut self, stmt: &'a StmtWith) {
        for item in &stmt.items {
            // Entering runs a generator made by `contextmanager`.
            let flags = if stmt.is_async {
                CallFlags::AWAITED
            } else {
                CallFlags::ITERATED
            };
            self.visit_with(&item.context_expr, flags);
            if !stmt.is_async {
                self.note_held(item, stmt);
                self.note_entered(&item.context_expr);
                self.note_pool(item, stmt);
            }
            if let Some(target) = &item.optional_vars {
                let enter = if stmt.is_async {
                    ".__aenter__()"
                } else {
                    ".__enter__()"
                };
                let value = self
                    .scopes
                    .path(&item.context_expr)
                    .map(|path| path + enter);
                let value = value.and_then(|value| {
                    if is_internal(&value) {
                        Some(value)
                    } else {
                        canonical::canonicalize(&value)
                    }
                });
                self.assign(target, value, false);
            }
        }
        self.with_depth += u32::from(!stmt.is_async);
        self.visit_body(&stmt.body);
        self.with_depth -= u32::from(!stmt.is_async);
    }

    fn visit_if(&mut self, stmt: &'a StmtIf) {
        self.visit_expr(&stmt.test);
        let guarded = u32::from(guards::is_rare(&stmt.test));
        self.guard_depth += guarded;
        self.visit_body(&stmt.body);
        self.guard_depth -= guarded;
        for clause in &stmt.elif_else_clauses {
            if let Some(test) = &clause.test {
                self.visit_expr(test);
            }
            self.visit_body(&clause.body);
        }
        // What follows `if self.client: return self.client` happens once.
        if self.branch_depth == 1 && guards::returns_what_is_there(stmt) {
            self.guard_depth += 1;
        }
    }

    fn visit_try(&mut self, stmt: &'a StmtTry) {
        self.branch_depth += 1;
        self.visit_body(&stmt.body);
        for ExceptHandler::ExceptHandler(handler) in &stmt.handlers {
            self.visit_body(&handler.body);
        }
        self.visit_body(&stmt.orelse);
        self.branch_depth -= 1;
        self.finally_depth += 1;
        self.visit_body(&stmt.finalbody);
        self.finally_depth -= 1;
    }

    pub(super) fn visit_lambda_body(&mut self, lambda: &'a ExprLambda) {
        let mut names = FxHashMap::default();
        if let Some(parameters) = &lambda.parameters {
            bindings::collect_parameters(parameters, &mut names);
        }
        self.scopes.stack.push(Scope {
            owner: Owner::Function(None),
            names,
        });
        self.visit_expr(&lambda.body);
        self.scopes.stack.pop();
    }

    /// What a file puts in the place of a library's function is not that function any more.
    fn note_patched(&mut self, target: &'a Expr) {
        if let Expr::Attribute(attribute) = target
            && !self.scopes.is_own(&attribute.value)
            && let Some(path) = self.scopes.path(target)
            && !is_internal(&path)
        {
            self.patched.push(self.summary.names.add(&path));
        }
    }

    /// Wherever the file does so: functions that are called later call the new one.
    fn forget_patched(&mut self) {
        let patched = std::mem::take(&mut self.patched);
        if !patched.is_empty() {
            for function in &mut self.summary.functions {
                function
                    .calls
                    .retain(|call| !patched.contains(&call.target));
            }
        }
    }

    pub(super) fn visit_comprehensions(
        &mut self,
        generators: &'a [Comprehension],
        elements: &[&'a Expr],
    ) {
        let mut names = FxHashMap::default();
        for generator in generators {
            bindings::collect_target(&generator.target, &mut names);
        }
        self.scopes.stack.push(Scope {
            owner: Owner::Function(None),
            names,
        });
        for generator in generators {
            self.visit_with(&generator.iter, CallFlags::ITERATED);
            generator
                .ifs
                .iter()
                .for_each(|condition| self.visit_expr(condition));
        }
        elements.iter().for_each(|element| self.visit_expr(element));
        self.scopes.stack.pop();
    }
}

impl<'a> Visitor<'a> for Reader<'a, '_> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::FunctionDef(def) => self.visit_function(def),
            Stmt::ClassDef(def) => self.visit_class(def),
            Stmt::Import(_) | Stmt::ImportFrom(_) => self.bind_import(stmt),
            Stmt::Assign(assign) => {
                rules::check_thrown_away(self, assign);
                self.visit_expr(&assign.value);
                let value = self.scopes.value(&assign.value);
                let value = value.or_else(|| self.scopes.alias(&assign.value));
                let is_none = assign.value.is_none_literal_expr();
                for target in &assign.targets {
                    self.visit_expr(target);
                    self.note_patched(target);
                    self.assign(target, value.clone(), is_none);
                    self.note_grace_setting(target, &assign.value);
                }
            }
            Stmt::AnnAssign(assign) => {
                if let Some(value) = &assign.value {
                    self.visit_expr(value);
                }
                let class = self.scopes.annotation(&assign.annotation);
                let value = match class {
                    Some(class) => canonical::canonicalize(&format!("{class}()")),
                    None => assign
                        .value
                        .as_deref()
                        .and_then(|value| self.scopes.value(value)),
                };
                self.assign(&assign.target, value, false);
            }
            Stmt::With(with) => self.visit_with_stmt(with),
            Stmt::Try(stmt) => self.visit_try(stmt),
            Stmt::For(stmt) => {
                self.visit_with(&stmt.iter, CallFlags::ITERATED);
                self.assign(&stmt.target, None, false);
                self.branch_depth += 1;
                self.visit_body(&stmt.body);
                self.visit_body(&stmt.orelse);
                self.branch_depth -= 1;
            }
            Stmt::If(stmt) => {
                self.branch_depth += 1;
                self.visit_if(stmt);
                self.branch_depth -= 1;
            }
            Stmt::While(_) | Stmt::Match(_) => {
                self.branch_depth += 1;
                visitor::walk_stmt(self, stmt);
                self.branch_depth -= 1;
            }
            Stmt::Expr(expr) => {
                rules::check_dropped(self, &expr.value);
                if let Expr::Call(call) = &*expr.value {
                    self.offer_sleep(call);
                }
                self.visit_expr(&expr.value);
            }
            _ => visitor::walk_stmt(self, stmt),
        }
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        match expr {
            Expr::Call(call) => self.add_call(call, CallFlags::default()),
            Expr::Await(inner) => self.visit_with(&inner.value, CallFlags::AWAITED),
            Expr::Yield(_) => {
                if let Some(frame) = self.frames.last_mut() {
                    frame.generates = true;
                }
                visitor::walk_expr(self, expr);
            }
            Expr::YieldFrom(inner) => {
                if let Some(frame) = self.frames.last_mut() {
                    frame.generates = true;
                }
                self.visit_with(&inner.value, CallFlags::ITERATED);
            }
            Expr::Lambda(lambda) => {
                self.frames
                    .push(Frame::elsewhere(self.branch_depth, self.finally_depth));
                self.visit_lambda_body(lambda);
                self.frames.pop();
            }
            Expr::ListComp(comp) => self.visit_comprehensions(&comp.generators, &[&comp.elt]),
            Expr::SetComp(comp) => self.visit_comprehensions(&comp.generators, &[&comp.elt]),
            // Its body runs where it is iterated, and that is not here.
            Expr::Generator(comp) => {
                if let Some(first) = comp.generators.first() {
                    self.visit_expr(&first.iter);
                }
                self.frames
                    .push(Frame::elsewhere(self.branch_depth, self.finally_depth));
                self.visit_comprehensions(&comp.generators, &[&comp.elt]);
                self.frames.pop();
            }
            Expr::Named(named) => {
                self.visit_expr(&named.value);
                let value = self.scopes.value(&named.value);
                if let Expr::Name(name) = &*named.target {
                    self.scopes.make_local(name.id.as_str());
                }
                self.assign(&named.target, value, false);
            }
            Expr::Attribute(attribute) => {
                self.note_read(attribute);
                self.visit_expr(&attribute.value);
            }
            // Nothing inside can call.
            Expr::Name(_) | Expr::StringLiteral(_) | Expr::NumberLiteral(_) => {}
            _ => visitor::walk_expr(self, expr),
        }
    }

    fn visit_annotation(&mut self, _: &'a Expr) {}
}
