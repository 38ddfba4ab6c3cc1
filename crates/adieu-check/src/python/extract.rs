//! One pass over one file: names, classes, functions, and the calls they make.

use std::sync::Arc;

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{
    Comprehension, ExceptHandler, Expr, ExprCall, Parameters, Stmt, StmtClassDef, StmtFunctionDef,
    StmtTry, StmtWith,
};
use ruff_text_size::Ranged;
use rustc_hash::FxHashMap;

use super::bindings::{self, Owner, Scope};
use super::imports::Position;
use super::paths::Scopes;
use super::{known, rules};
use crate::depth::{self, Syntax};
use crate::finding::{Finding, Place};
use crate::fix::Fix;
use crate::program::{Call, CallFlags, Class, FnFlags, Function, ModuleId, Modules, Symbol, Unit};
use crate::rule::{self, Code};
use crate::source::Lines;
use crate::suppress;

/// Reads one Python file. What cannot be parsed is a finding; what can be is still looked at.
pub(crate) fn extract(
    source: &str,
    path: &Arc<str>,
    folder: &str,
    module: ModuleId,
    modules: &Modules,
    is_test: bool,
) -> Unit {
    let mut unit = Unit::new(Arc::clone(path), module);
    if depth::too_deep(source, Syntax::Python) {
        unit.findings.push(Finding::new(
            path,
            Place::TOP,
            rule::SYNTAX,
            "is nested too deeply to be checked",
        ));
        return unit;
    }
    let parsed =
        ruff_python_parser::parse_unchecked_source(source, ruff_python_ast::PySourceType::Python);
    let lines = Lines::new(source);
    if let Some(error) = parsed.errors().first() {
        let place = lines.place(source, error.location.start().to_usize());
        unit.findings.push(Finding::new(
            path,
            place,
            rule::SYNTAX,
            format!("syntax error: {}", error.error),
        ));
    }
    if memchr::memmem::find(source.as_bytes(), b"adieu:").is_some() {
        let comments = parsed
            .tokens()
            .iter()
            .filter(|token| token.kind().is_comment());
        let comments =
            comments.map(|token| token.range().start().to_usize()..token.range().end().to_usize());
        unit.ignores = suppress::read_all(source, &lines, comments);
    }
    let body = parsed.suite();
    let position = Position { modules, folder };
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
        lines: &lines,
        unit,
        scopes,
        frames: Vec::new(),
        is_test,
        imports_asyncio: false,
        signal_calls: Vec::new(),
        branch_depth: 0,
        finally_depth: 0,
        with_depth: 0,
        buffer: String::new(),
        qualified: String::new(),
    };
    reader.visit_body(body);
    rules::on_module(&mut reader, body);
    reader.unit
}

/// The function being read.
#[derive(Debug)]
pub(crate) struct Frame {
    /// Its index in the unit; none in a lambda, whose calls happen who knows where.
    pub(crate) function: Option<u32>,
    pub(crate) is_async: bool,
    /// Looks whether a loop runs before it acts, so it knows what it does.
    knows_loop: bool,
    generates: bool,
    self_name: Option<Box<str>>,
    /// Branches outside the function do not make its own bindings doubtful.
    outer_branch: u32,
    outer_finally: u32,
}

/// The state of one pass.
pub(crate) struct Reader<'a, 'm> {
    pub(crate) source: &'a str,
    pub(crate) lines: &'a Lines,
    pub(crate) unit: Unit,
    pub(crate) scopes: Scopes<'a, 'm>,
    pub(crate) frames: Vec<Frame>,
    pub(crate) is_test: bool,
    pub(crate) imports_asyncio: bool,
    pub(crate) signal_calls: Vec<rules::SignalCall>,
    branch_depth: u32,
    finally_depth: u32,
    /// Inside `with`: perhaps a lock, and an await there would be new.
    with_depth: u32,
    buffer: String,
    qualified: String,
}

impl<'a> Reader<'a, '_> {
    pub(crate) fn place(&self, node: &impl Ranged) -> Place {
        self.lines.place(self.source, node.start().to_usize())
    }

    pub(crate) fn report(&mut self, node: &impl Ranged, code: Code, message: impl Into<String>) {
        if !self.is_test {
            let finding = Finding::new(&self.unit.path, self.place(node), code, message);
            self.unit.findings.push(finding);
        }
    }

    fn add_call(&mut self, call: &'a ExprCall, mut flags: CallFlags) {
        let mut path = std::mem::take(&mut self.buffer);
        path.clear();
        let has_path = self.scopes.path_into(&call.func, &mut path);
        if has_path {
            self.note(call, &path);
        } else if let Expr::Attribute(attribute) = &*call.func {
            self.note_method(attribute.attr.as_str());
        }
        let worth = has_path
            && match path.strip_prefix('@') {
                Some(_) => true,
                None => {
                    known::is_known_root(path.split(['.', '(']).next().unwrap_or(""))
                        || path.starts_with("builtins.")
                }
            };
        if worth && let Some(function) = self.frames.last().and_then(|frame| frame.function) {
            if self.finally_depth > 0 {
                flags.set(CallFlags::IN_FINALLY);
            }
            if polls(call) {
                flags.set(CallFlags::POLLS);
            }
            if !path.starts_with("builtins.")
                || matches!(path.as_str(), "builtins.open" | "builtins.input")
            {
                let entry = Call {
                    target: self.unit.names.add(&path),
                    place: self.place(call),
                    flags,
                };
                self.unit.functions[function as usize].calls.push(entry);
            }
        }
        let inner = if has_path && known::takes_coroutines(&path) {
            let mut inner = CallFlags::AWAITED;
            if known::spawns(&path) {
                inner.set(CallFlags::SPAWNED);
            }
            inner
        } else if has_path && consumes(&path) {
            CallFlags::ITERATED
        } else if is_spawn_method(&call.func) {
            CallFlags::SPAWNED
        } else {
            CallFlags::default()
        };
        if hands_over(if has_path { &path } else { "" }, &call.func) {
            self.hand_over(call);
        }
        self.buffer = path;
        self.visit_expr(&call.func);
        for argument in &call.arguments.args {
            self.visit_with(argument, inner);
        }
        for keyword in &call.arguments.keywords {
            self.visit_with(&keyword.value, inner);
        }
    }

    /// Functions given to a thread: not called here, but worth knowing.
    fn hand_over(&mut self, call: &'a ExprCall) {
        let Some(function) = self.frames.last().and_then(|frame| frame.function) else {
            return;
        };
        let keywords = call.arguments.keywords.iter().map(|keyword| &keyword.value);
        for argument in call.arguments.args.iter().chain(keywords) {
            if !matches!(argument, Expr::Name(_) | Expr::Attribute(_)) {
                continue;
            }
            if let Some(path) = self
                .scopes
                .path(argument)
                .filter(|path| path.starts_with('@'))
            {
                let target = self.unit.names.add(&path);
                let handed = Call {
                    target,
                    place: self.place(argument),
                    flags: CallFlags::HANDED,
                };
                self.unit.functions[function as usize].calls.push(handed);
            }
        }
    }

    fn visit_with(&mut self, expr: &'a Expr, flags: CallFlags) {
        match expr {
            Expr::Call(call) => self.add_call(call, flags),
            Expr::Starred(starred) => self.visit_with(&starred.value, flags),
            _ => self.visit_expr(expr),
        }
    }

    /// Facts about the program that a call gives away.
    fn note(&mut self, call: &'a ExprCall, path: &str) {
        if let Expr::Attribute(attribute) = &*call.func {
            self.note_method(attribute.attr.as_str());
        }
        match path {
            "asyncio.get_running_loop" | "asyncio.current_task" | "asyncio._get_running_loop"
            | "sniffio.current_async_library" => {
                if let Some(frame) = self.frames.last_mut() {
                    frame.knows_loop = true;
                }
            }
            "signal.signal" => {
                self.unit.facts.handles_signals = true;
                let call = rules::SignalCall::new(self, call);
                self.signal_calls.extend(call);
            }
            "nest_asyncio.apply" => self.report(
                call,
                rule::NEST_ASYNCIO,
                "`nest_asyncio` lets a loop run inside itself: cancellation and shutdown lose their order; await instead",
            ),
            "signal.sigwait" | "anyio.open_signal_receiver" | "uvicorn.run" | "uvicorn.Server"
            | "hypercorn.asyncio.serve" | "aiorun.run" | "granian.Granian" => self.unit.facts.handles_signals = true,
            "fastapi.FastAPI" | "starlette.applications.Starlette" | "aiohttp.web.Application" | "aiohttp.web.run_app"
            | "litestar.Litestar" | "quart.Quart" | "sanic.Sanic" => {
                self.unit.facts.serves = true;
                self.unit.facts.handles_signals = true;
            }
            "asyncio.run" if self.frames.is_empty() => {
                if let Some(Expr::Call(main)) = call.arguments.args.first()
                    && let Some(main) = self.scopes.path(&main.func)
                {
                    let main = (self.unit.names.add(&main), self.place(call));
                    self.unit.facts.mains.push(main);
                }
            }
            _ => {}
        }
        if self.frames.is_empty() && path.starts_with('@') {
            let name = self.unit.names.add(path);
            self.unit.facts.started.push(name);
        }
    }

    fn note_method(&mut self, method: &str) {
        if matches!(
            method,
            "add_signal_handler"
                | "start_polling"
                | "run_polling"
                | "run_app"
                | "install_signal_handlers"
        ) {
            self.unit.facts.handles_signals = true;
        }
    }

    fn visit_function(&mut self, def: &'a StmtFunctionDef) {
        for decorator in &def.decorator_list {
            self.visit_expr(&decorator.expression);
        }
        for parameter in &*def.parameters {
            if let Some(default) = parameter.default() {
                self.visit_expr(default);
            }
        }
        let mut flags = self.flags(def);
        let index = self.unit.functions.len() as u32;
        let in_class = match self.scopes.stack.last() {
            Some(Scope {
                owner: Owner::Class(class),
                ..
            }) => Some(*class),
            _ => None,
        };
        let outer = self.qualified.len();
        if outer > 0 {
            self.qualified.push('.');
        }
        self.qualified.push_str(def.name.as_str());
        let returns = def
            .returns
            .as_deref()
            .and_then(|returns| self.scopes.annotation(returns));
        self.unit.functions.push(Function {
            name: self.qualified.as_str().into(),
            flags,
            returns: returns.map(|returns| self.unit.names.add(&returns)),
            calls: Vec::new(),
            bare_cleanups: Vec::new(),
            in_place_save: None,
        });
        self.define(def.name.as_str(), Symbol::Function(index), in_class);

        let mut names = FxHashMap::default();
        let mut globals = Vec::new();
        bindings::collect(&def.body, self.scopes.position, &mut names, &mut globals);
        for name in globals {
            names.remove(name);
        }
        bindings::collect_parameters(&def.parameters, &mut names);
        let self_name = self.bind_self(def, in_class, &mut names);
        self.annotate(&def.parameters, &mut names);
        self.scopes.stack.push(Scope {
            owner: Owner::Function(Some(index)),
            names,
        });
        self.frames.push(Frame {
            function: Some(index),
            is_async: def.is_async,
            knows_loop: false,
            generates: false,
            self_name,
            outer_branch: std::mem::take(&mut self.branch_depth),
            outer_finally: std::mem::take(&mut self.finally_depth),
        });
        self.visit_body(&def.body);
        rules::on_function(self, def, index);
        self.scopes.stack.pop();
        if let Some(frame) = self.frames.pop() {
            self.branch_depth = frame.outer_branch;
            self.finally_depth = frame.outer_finally;
            if frame.generates && !def.is_async {
                flags.set(FnFlags::GENERATOR);
            }
            if frame.knows_loop && !def.is_async {
                flags.set(FnFlags::OPAQUE);
            }
        }
        let function = &mut self.unit.functions[index as usize];
        let noticed = function.flags;
        function.flags = flags;
        function.flags.set(noticed);
        self.qualified.truncate(outer);
    }

    fn flags(&mut self, def: &'a StmtFunctionDef) -> FnFlags {
        let mut flags = FnFlags::default();
        if def.is_async {
            flags.set(FnFlags::ASYNC);
        }
        let name = def.name.as_str();
        if self.is_test || name.starts_with("test_") && self.scopes.top.contains_key("pytest") {
            flags.set(FnFlags::TEST);
        }
        if matches!(
            name,
            "main"
                | "_main"
                | "amain"
                | "async_main"
                | "cli"
                | "run"
                | "serve"
                | "start"
                | "__main__"
        ) {
            flags.set(FnFlags::ENTRY);
        }
        for decorator in &def.decorator_list {
            let path = self.scopes.value(&decorator.expression);
            match path.as_deref() {
                Some("builtins.property" | "functools.cached_property") => {
                    flags.set(FnFlags::PROPERTY)
                }
                Some("homeassistant.core.callback") => flags.set(FnFlags::CALLBACK),
                Some(path) if known::keeps_body(path) => {}
                Some(path)
                    if path.ends_with(".core.callback")
                        || path.ends_with(".callback") && path.starts_with('@') =>
                {
                    flags.set(FnFlags::CALLBACK);
                }
                _ => flags.set(FnFlags::OPAQUE),
            }
        }
        flags
    }

    fn bind_self(
        &mut self,
        def: &'a StmtFunctionDef,
        in_class: Option<u32>,
        names: &mut FxHashMap<&'a str, Option<Box<str>>>,
    ) -> Option<Box<str>> {
        let class = in_class?;
        let first = def
            .parameters
            .iter_non_variadic_params()
            .next()?
            .parameter
            .name
            .as_str();
        let mut decorators =
            def.decorator_list
                .iter()
                .filter_map(|decorator| match &decorator.expression {
                    Expr::Name(name) => Some(name.id.as_str()),
                    _ => None,
                });
        let kind = decorators.find(|name| matches!(*name, "staticmethod" | "classmethod"));
        let instance = match kind {
            Some("staticmethod") => return None,
            Some(_) => "",
            None => "()",
        };
        let path = format!("@{}${class}{instance}", self.unit.module);
        names.insert(first, Some(path.into()));
        kind.is_none().then(|| first.into())
    }

    fn annotate(
        &self,
        parameters: &'a Parameters,
        names: &mut FxHashMap<&'a str, Option<Box<str>>>,
    ) {
        for parameter in parameters.iter_non_variadic_params() {
            if let Some(class) = parameter
                .parameter
                .annotation()
                .and_then(|a| self.scopes.annotation(a))
            {
                let value = format!("{class}()");
                let value = if value.starts_with('@') {
                    Some(value)
                } else {
                    known::spell(&value)
                };
                names.insert(
                    parameter.parameter.name.as_str(),
                    value.map(String::into_boxed_str),
                );
            }
        }
    }

    /// Makes a definition known to its surroundings.
    fn define(&mut self, name: &'a str, symbol: Symbol, in_class: Option<u32>) {
        match in_class {
            Some(class) => {
                self.unit.classes[class as usize]
                    .members
                    .insert(name.into(), symbol);
            }
            None if self.scopes.stack.is_empty() => {
                // The first of two definitions by platform or version is as good as the second.
                self.unit.symbols.entry(name.into()).or_insert(symbol);
            }
            None => {
                let path = match symbol {
                    Symbol::Function(index) => format!("@{}#{index}", self.unit.module),
                    Symbol::Class(index) => format!("@{}${index}", self.unit.module),
                    Symbol::Path(_) | Symbol::Unknown => return,
                };
                self.scopes.bind(name, Some(path), false);
            }
        }
    }

    fn visit_class(&mut self, def: &'a StmtClassDef) {
        for decorator in &def.decorator_list {
            self.visit_expr(&decorator.expression);
        }
        let mut class = Class::default();
        for base in def.arguments.iter().flat_map(|arguments| &arguments.args) {
            self.visit_expr(base);
            let base = match base {
                Expr::Subscript(generic) => &generic.value,
                other => other,
            };
            let path = self.scopes.path(base).unwrap_or_else(|| "?".to_owned());
            if path != "typing.Generic"
                && path != "typing.Protocol"
                && path != "abc.ABC"
                && path != "?"
            {
                class.bases.push(self.unit.names.add(&path));
            } else if path == "?"
                && !matches!(base, Expr::Name(name) if name.id.as_str() == "object" || name.id.as_str() == "Exception")
            {
                // An unknown base hides what lies behind it.
                class.bases.push(self.unit.names.add("@?"));
            }
        }
        let index = self.unit.classes.len() as u32;
        self.unit.classes.push(class);
        let in_class = match self.scopes.stack.last() {
            Some(Scope {
                owner: Owner::Class(class),
                ..
            }) => Some(*class),
            _ => None,
        };
        self.define(def.name.as_str(), Symbol::Class(index), in_class);
        let outer = self.qualified.len();
        if outer > 0 {
            self.qualified.push('.');
        }
        self.qualified.push_str(def.name.as_str());
        let mut names = FxHashMap::default();
        bindings::collect(&def.body, self.scopes.position, &mut names, &mut Vec::new());
        self.scopes.stack.push(Scope {
            owner: Owner::Class(index),
            names,
        });
        self.visit_body(&def.body);
        self.scopes.stack.pop();
        self.qualified.truncate(outer);
    }

    /// Remembers what a name or attribute holds.
    fn assign(&mut self, target: &'a Expr, value: Option<String>, is_none: bool) {
        match target {
            Expr::Name(name) if !is_none => {
                let name = name.id.as_str();
                let in_branch = self.branch_depth > 0;
                match self.scopes.stack.last().map(|scope| scope.owner) {
                    Some(Owner::Class(class)) => {
                        self.hold(class, name, value.clone());
                        self.scopes.bind(name, value, in_branch);
                    }
                    Some(Owner::Function(_)) => {
                        if !self.scopes.bind(name, value.clone(), in_branch) {
                            self.hold_global(name, value);
                        }
                    }
                    None => self.hold_global(name, value),
                }
            }
            Expr::Attribute(attribute) if !is_none => {
                let of_self = match (&*attribute.value, self.frames.last()) {
                    (Expr::Name(name), Some(frame)) => {
                        frame.self_name.as_deref() == Some(name.id.as_str())
                    }
                    _ => false,
                };
                if of_self && let Some(class) = self.scopes.class() {
                    self.hold(class, attribute.attr.as_str(), value);
                }
            }
            Expr::Tuple(tuple) => tuple
                .elts
                .iter()
                .for_each(|target| self.assign(target, None, false)),
            _ => {}
        }
    }

    fn hold(&mut self, class: u32, name: &str, value: Option<String>) {
        let symbol = value.map_or(Symbol::Unknown, |value| {
            Symbol::Path(self.unit.names.add(&value))
        });
        let members = &mut self.unit.classes[class as usize].members;
        match members.get_mut(name) {
            Some(Symbol::Function(_) | Symbol::Class(_)) => {}
            Some(held) if *held != symbol => *held = Symbol::Unknown,
            Some(_) => {}
            None => {
                members.insert(name.into(), symbol);
            }
        }
    }

    fn hold_global(&mut self, name: &str, value: Option<String>) {
        // An import bound under that name decides; the linker asks for `@module.name` only else.
        let symbol = value.map_or(Symbol::Unknown, |value| {
            Symbol::Path(self.unit.names.add(&value))
        });
        match self.unit.symbols.get_mut(name) {
            Some(held) if *held != symbol => *held = Symbol::Unknown,
            Some(_) => {}
            None => {
                self.unit.symbols.insert(name.into(), symbol);
            }
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
                    if value.starts_with('@') {
                        Some(value)
                    } else {
                        known::spell(&value)
                    }
                });
                self.assign(target, value, false);
            }
        }
        self.with_depth += u32::from(!stmt.is_async);
        self.visit_body(&stmt.body);
        self.with_depth -= u32::from(!stmt.is_async);
    }

    /// A thread's lock held while this coroutine waits: every other task that wants it stops the loop.
    fn note_held(&mut self, item: &'a ruff_python_ast::WithItem, stmt: &'a StmtWith) {
        let Some(Frame {
            is_async: true,
            function: Some(function),
            ..
        }) = self.frames.last()
        else {
            return;
        };
        let function = *function as usize;
        if matches!(item.context_expr, Expr::Name(_) | Expr::Attribute(_))
            && let Some(path) = self.scopes.path(&item.context_expr)
            && rules::has_await(&stmt.body)
        {
            let target = self.unit.names.add(&format!("{path}.__hold__"));
            let held = Call {
                target,
                place: self.place(&item.context_expr),
                flags: CallFlags::default(),
            };
            self.unit.functions[function].calls.push(held);
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

    fn visit_comprehensions(&mut self, generators: &'a [Comprehension], elements: &[&'a Expr]) {
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

    /// `time.sleep(x)` as a statement of a coroutine that awaits elsewhere may become an await: the
    /// function gives way already, and `asyncio` is at hand.
    fn offer_sleep(&mut self, call: &'a ExprCall) {
        let in_async = matches!(self.frames.last(), Some(Frame { is_async: true, .. }));
        if !in_async
            || self.with_depth > 0
            || self.scopes.path(&call.func).as_deref() != Some("time.sleep")
        {
            return;
        }
        let has_asyncio =
            self.scopes.top.get("asyncio").and_then(Option::as_deref) == Some("asyncio");
        let shadowed = self
            .scopes
            .stack
            .iter()
            .any(|scope| scope.names.contains_key("asyncio"));
        if has_asyncio && !shadowed {
            let (start, end) = (call.func.start().to_usize(), call.func.end().to_usize());
            let fix = Fix {
                start,
                end,
                text: "await asyncio.sleep".to_owned(),
            };
            self.unit.fixes.insert(self.place(call), fix);
        }
    }

    fn bind_import(&mut self, stmt: &'a Stmt) {
        let mut bound: Vec<(String, Option<String>)> = Vec::new();
        match stmt {
            Stmt::Import(import) => {
                self.imports_asyncio |= import
                    .names
                    .iter()
                    .any(|alias| alias.name.as_str() == "asyncio");
                self.scopes
                    .position
                    .import(import, |name, path| bound.push((name.to_owned(), path)));
            }
            Stmt::ImportFrom(import) => {
                self.imports_asyncio |= import
                    .module
                    .as_ref()
                    .is_some_and(|module| module.as_str() == "asyncio");
                self.scopes
                    .position
                    .import_from(import, |name, path| bound.push((name.to_owned(), path)));
            }
            _ => {}
        }
        if !self.scopes.stack.is_empty() {
            return;
        }
        for (name, path) in bound {
            let Some(path) = path else { continue };
            let id = self.unit.names.add(&path);
            if name == "*" {
                self.unit.stars.push(id);
            } else {
                // What others import from here: re-exports go through the same table.
                let symbol = Symbol::Path(id);
                let held = self.unit.symbols.entry(name.into()).or_insert(symbol);
                if *held != symbol {
                    *held = Symbol::Unknown;
                }
            }
        }
    }
}

impl<'a> Visitor<'a> for Reader<'a, '_> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::FunctionDef(def) => self.visit_function(def),
            Stmt::ClassDef(def) => self.visit_class(def),
            Stmt::Import(_) | Stmt::ImportFrom(_) => self.bind_import(stmt),
            Stmt::Assign(assign) => {
                self.visit_expr(&assign.value);
                let value = self.scopes.value(&assign.value);
                let is_none = assign.value.is_none_literal_expr();
                for target in &assign.targets {
                    self.visit_expr(target);
                    self.assign(target, value.clone(), is_none);
                }
            }
            Stmt::AnnAssign(assign) => {
                if let Some(value) = &assign.value {
                    self.visit_expr(value);
                }
                let class = self.scopes.annotation(&assign.annotation);
                let value = match class {
                    Some(class) => known::spell(&format!("{class}()")),
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
            Stmt::If(_) | Stmt::While(_) | Stmt::Match(_) => {
                self.branch_depth += 1;
                visitor::walk_stmt(self, stmt);
                self.branch_depth -= 1;
            }
            Stmt::Expr(expr) => {
                if let Expr::Call(call) = &*expr.value {
                    rules::check_dropped(self, call);
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
                let mut names = FxHashMap::default();
                if let Some(parameters) = &lambda.parameters {
                    bindings::collect_parameters(parameters, &mut names);
                }
                self.scopes.stack.push(Scope {
                    owner: Owner::Function(None),
                    names,
                });
                self.frames.push(Frame {
                    function: None,
                    is_async: false,
                    knows_loop: false,
                    generates: false,
                    self_name: None,
                    outer_branch: self.branch_depth,
                    outer_finally: self.finally_depth,
                });
                self.visit_expr(&lambda.body);
                self.frames.pop();
                self.scopes.stack.pop();
            }
            Expr::ListComp(comp) => self.visit_comprehensions(&comp.generators, &[&comp.elt]),
            Expr::SetComp(comp) => self.visit_comprehensions(&comp.generators, &[&comp.elt]),
            Expr::Generator(comp) => self.visit_comprehensions(&comp.generators, &[&comp.elt]),
            Expr::Named(named) => {
                self.visit_expr(&named.value);
                let value = self.scopes.value(&named.value);
                self.assign(&named.target, value, false);
            }
            // Nothing inside can call.
            Expr::Name(_) | Expr::StringLiteral(_) | Expr::NumberLiteral(_) => {}
            _ => visitor::walk_expr(self, expr),
        }
    }

    fn visit_annotation(&mut self, _: &'a Expr) {}
}

/// A zero or a false among the arguments: `timeout=0`, `block=False`, `WNOHANG`.
fn polls(call: &ExprCall) -> bool {
    call.arguments
        .args
        .iter()
        .chain(call.arguments.keywords.iter().map(|keyword| &keyword.value))
        .any(|argument| match argument {
            Expr::BooleanLiteral(literal) => !literal.value,
            Expr::NumberLiteral(literal) => match &literal.value {
                ruff_python_ast::Number::Int(int) => int.as_u8() == Some(0),
                ruff_python_ast::Number::Float(float) => *float == 0.0,
                ruff_python_ast::Number::Complex { .. } => false,
            },
            Expr::Attribute(attribute) => attribute.attr.as_str() == "WNOHANG",
            _ => false,
        })
}

fn consumes(path: &str) -> bool {
    matches!(
        path.strip_prefix("builtins."),
        Some(
            "list"
                | "tuple"
                | "set"
                | "sum"
                | "any"
                | "all"
                | "next"
                | "sorted"
                | "dict"
                | "max"
                | "min"
        )
    )
}

/// Calls that run their argument in another thread.
fn hands_over(path: &str, func: &Expr) -> bool {
    matches!(
        path,
        "asyncio.to_thread" | "threading.Thread" | "anyio.to_thread.run_sync"
    ) || matches!(func, Expr::Attribute(attribute)
            if matches!(attribute.attr.as_str(), "run_in_executor" | "async_add_executor_job" | "submit"))
}

/// `group.create_task(...)` on whatever object.
fn is_spawn_method(func: &Expr) -> bool {
    matches!(func, Expr::Attribute(attribute) if matches!(attribute.attr.as_str(), "create_task" | "create_background_task"))
}
