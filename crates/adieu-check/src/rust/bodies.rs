//! What a function does: its calls, and what its own shape says.

use proc_macro2::Span;
use rustc_hash::FxHashMap;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Block, Expr, ExprLoop, Local, Macro, Stmt, Token};

use super::items::{self, Reader};
use super::{grace, guards, models, select};
use crate::callgraph::{Call, CallFlags, CodeServer, FnFlags, path};
use crate::finding::Finding;
use crate::rule::{self, Code};
use crate::severity::Severity;

/// One body being read.
pub(crate) struct Body<'r, 'c> {
    reader: &'r mut Reader<'c>,
    /// Where calls are written down; none in a closure, which runs who knows where.
    function: Option<u32>,
    is_async: bool,
    loops: u32,
    awaited: bool,
    /// In a main before its first await: nothing else runs yet.
    starting: bool,
    /// In a closure that is called where it stands: what it makes may go to a thread of its own.
    in_closure: bool,
    /// In an async block or closure: perhaps one server beside another.
    is_apart: bool,
}

impl<'r, 'c> Body<'r, 'c> {
    pub(crate) fn read(reader: &'r mut Reader<'c>, function: u32, is_async: bool, block: &Block) {
        let flags = reader.summary.functions[function as usize].flags;
        let mut body = Body {
            reader,
            function: Some(function),
            is_async,
            loops: 0,
            awaited: false,
            starting: is_async && flags.has(FnFlags::ENTRY),
            in_closure: false,
            is_apart: false,
        };
        body.visit_block(block);
    }

    fn is_test(&self) -> bool {
        self.function.is_none_or(|index| {
            self.reader.summary.functions[index as usize]
                .flags
                .has(FnFlags::TEST)
        })
    }

    fn report(&mut self, span: Span, code: Code, message: &str) {
        if !self.is_test() {
            let finding =
                Finding::new(&self.reader.summary.path, items::place(span), code, message);
            self.reader.summary.findings.push(finding);
        }
    }

    fn add(&mut self, path: &str, span: Span, flags: CallFlags) {
        let Some(function) = self.function else {
            return;
        };
        let root = path.split(['.', '(']).next().unwrap_or(path);
        if !path::is_internal(path) && !models::is_known_root(root) {
            return;
        }
        if matches!(path, "tokio.runtime.Handle.try_current") {
            self.reader.summary.functions[function as usize]
                .flags
                .set(FnFlags::OPAQUE);
        }
        let target = self.reader.summary.names.add(path);
        let call = Call {
            target,
            place: items::place(span),
            flags,
        };
        self.reader.summary.functions[function as usize]
            .calls
            .push(call);
    }

    fn flags(&mut self, args: &Punctuated<Expr, Token![,]>) -> CallFlags {
        let mut flags = CallFlags::default();
        if std::mem::take(&mut self.awaited) {
            flags.set(CallFlags::AWAITED);
        }
        let zero = args.iter().any(|arg| matches!(arg, Expr::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "ZERO")));
        if zero || asks_kernel(args) {
            flags.set(CallFlags::POLLS);
        }
        if self.starting {
            flags.set(CallFlags::AT_START);
        }
        flags
    }

    /// The body of an async block is a task of its own as far as blocking goes.
    fn apart(&mut self, is_async: bool, read: impl FnOnce(&mut Body<'_, 'c>)) {
        let function = is_async.then(|| {
            let mut flags = FnFlags::ASYNC;
            // A closure has no function of its own to say so.
            let in_test = match self.function {
                Some(_) => self.is_test(),
                None => self
                    .reader
                    .scopes
                    .modules
                    .last()
                    .is_some_and(|it| it.is_test),
            };
            if in_test {
                flags.set(FnFlags::TEST);
            }
            self.reader.add_function(flags, None)
        });
        let mut inner = Body {
            reader: &mut *self.reader,
            function,
            is_async,
            loops: 0,
            awaited: false,
            starting: false,
            in_closure: false,
            is_apart: true,
        };
        read(&mut inner);
    }

    /// A server that the program starts, for the budget of its stop.
    fn served(&mut self, server: &'static str, span: Span) {
        if !self.is_test() {
            let place = items::place(span);
            self.reader
                .summary
                .facts
                .servers
                .push(CodeServer { server, place });
        }
    }

    /// `axum::serve(listener, app).await`: it ends with the process, in the middle of its requests.
    fn awaited_server(&mut self, served: &Expr) {
        let path = self.reader.scopes.path(served);
        let Some((server, instead)) = path.as_deref().and_then(models::never_shut_down) else {
            return;
        };
        if self.is_test() {
            return;
        }
        let message = format!(
            "no signal shuts this `{server}` down gracefully, so a stop cuts its requests off: use `{instead}`"
        );
        let place = items::place(served.span());
        let finding = Finding::new(
            &self.reader.summary.path,
            place,
            rule::NOT_GRACEFUL,
            message,
        );
        // Metrics and health checks are served beside the server that matters.
        let finding = match self.is_apart {
            true => finding.rated(Severity::Note),
            false => finding,
        };
        self.reader.summary.findings.push(finding);
    }

    fn made_runtime(&mut self, path: &str, span: Span) {
        let makes = matches!(
            path,
            "tokio.runtime.Runtime.new" | "tokio.runtime.Builder().build"
        );
        if !makes {
            return;
        }
        let Some(function) = self.function else {
            return;
        };
        let is_main = self.reader.summary.functions[function as usize]
            .flags
            .has(FnFlags::ENTRY);
        if self.is_async {
            if !self.in_closure && !self.reader.source.contains("shutdown_background") {
                self.report(
                    span,
                    rule::RUNTIME_DROPPED,
                    "this runtime is dropped inside async code, where tokio panics; use the running one, or \
                     `shutdown_background`",
                );
            }
        } else if !is_main && !self.is_test() {
            self.reader.summary.runtimes.push(items::place(span));
        }
    }

    /// Std guards that live across an await of this block.
    fn guards(&mut self, block: &Block) {
        for (mutex, span) in guards::across_await(block) {
            if let Some(path) = self.reader.scopes.path(mutex) {
                self.add(&path::hold(&path), span, CallFlags::default());
            }
        }
    }

    /// A guard in what an `if let`, `match` or loop looks at lives as long as its body.
    fn held_over(&mut self, looked_at: &Expr, body: &dyn Fn(&mut Ways)) {
        let mut ways = Ways::default();
        body(&mut ways);
        if !self.is_async || !ways.awaits {
            return;
        }
        for (mutex, span) in guards::in_expression(looked_at) {
            if let Some(path) = self.reader.scopes.path(mutex) {
                self.add(&path::hold(&path), span, CallFlags::default());
            }
        }
    }

    fn endless(&mut self, body: &Block, span: Span) {
        let mut ways = Ways::default();
        ways.visit_block(body);
        if self.is_async && !ways.awaits && !ways.may_await && !ways.leaves {
            self.report(
                span,
                rule::RUST_LOOP,
                "this loop never ends and never awaits: its task cannot be cancelled; await inside, or yield",
            );
        }
    }

    fn dropped_spawn(&mut self, expr: &Expr) {
        let position = self.reader.scopes.position;
        if !self.reader.scopes.crates.package(position).uses_adieu {
            return;
        }
        let Expr::Call(call) = expr else { return };
        let path = self.reader.scopes.path(&call.func);
        if matches!(
            path.as_deref(),
            Some("tokio.spawn" | "tokio.task.spawn" | "tokio.task.spawn_blocking")
        ) {
            self.report(
                call.func.span(),
                rule::UNTRACKED_SPAWN,
                "no stop waits for this task: give it to the service, or keep its handle and await it",
            );
        }
    }

    /// The body of a closure that is called where it stands is part of this function.
    fn on_the_spot(&mut self, closure: &syn::ExprClosure) {
        let mut names = FxHashMap::default();
        for input in &closure.inputs {
            if let syn::Pat::Ident(ident) = input {
                names.insert(ident.ident.to_string(), None);
            }
        }
        self.reader.scopes.locals.push(names);
        let outer = std::mem::replace(&mut self.in_closure, true);
        self.visit_expr(&closure.body);
        self.in_closure = outer;
        self.reader.scopes.locals.pop();
    }

    fn arguments(&mut self, mac: &Macro) {
        if let Some(branches) = select::branches(mac) {
            for branch in branches {
                if self.loops > 0
                    && let Some((span, name)) = branch.unsafe_call
                {
                    let message = format!(
                        "`{name}` loses what it has read or written when another branch wins; keep the future outside \
                         the loop, or use a cancel-safe call"
                    );
                    self.report(span, rule::SELECT_NOT_SAFE, &message);
                }
                // The future is awaited by the macro; its handler runs here.
                if let Some(future) = &branch.future {
                    self.awaited = true;
                    self.visit_expr(future);
                    self.awaited = false;
                }
                if let Some(handler) = &branch.handler {
                    self.visit_expr(handler);
                }
            }
            return;
        }
        let parsed = mac.parse_body_with(Punctuated::<Expr, Token![,]>::parse_terminated);
        for expr in parsed.iter().flatten() {
            self.visit_expr(expr);
        }
    }
}

/// Methods of options, results and iterators that call what they are given right there.
fn runs_on_the_spot(method: &str, receiver: &Expr) -> bool {
    let is_one = matches!(
        method,
        "map"
            | "map_err"
            | "map_or"
            | "map_or_else"
            | "and_then"
            | "or_else"
            | "unwrap_or_else"
            | "ok_or_else"
            | "inspect"
            | "inspect_err"
            | "for_each"
            | "try_for_each"
            | "filter"
            | "filter_map"
            | "find_map"
            | "flat_map"
            | "fold"
            | "any"
            | "all"
            | "retain"
            | "then"
            | "is_some_and"
            | "is_ok_and"
            | "get_or_insert_with"
            | "or_insert_with"
            | "sort_by_key"
    );
    is_one && !is_parallel(receiver)
}

/// `items.par_iter()…` hands its closures to other threads.
fn is_parallel(receiver: &Expr) -> bool {
    match receiver {
        Expr::MethodCall(call) => {
            let name = call.method.to_string();
            name.starts_with("par_") || name.starts_with("into_par_") || is_parallel(&call.receiver)
        }
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Body<'_, '_> {
    fn visit_block(&mut self, block: &'ast Block) {
        self.reader.scopes.locals.push(FxHashMap::default());
        for stmt in &block.stmts {
            match stmt {
                Stmt::Item(syn::Item::Fn(item)) => self.reader.nested(item),
                Stmt::Item(syn::Item::Use(item)) => self.reader.nested_use(item),
                Stmt::Item(_) => {}
                Stmt::Expr(expr, Some(_)) => {
                    self.dropped_spawn(expr);
                    self.visit_expr(expr);
                }
                _ => self.visit_stmt(stmt),
            }
        }
        if self.is_async {
            self.guards(block);
        }
        self.reader.scopes.locals.pop();
    }

    fn visit_local(&mut self, local: &'ast Local) {
        let mut value = None;
        if let Some(init) = &local.init {
            if matches!(local.pat, syn::Pat::Wild(_)) {
                self.dropped_spawn(&init.expr);
            }
            self.visit_expr(&init.expr);
            if let Some((_, diverge)) = &init.diverge {
                self.visit_expr(diverge);
            }
            value = self.reader.scopes.path(&init.expr);
        }
        self.reader.scopes.bind(&local.pat, value);
    }

    fn visit_expr(&mut self, expr: &'ast Expr) {
        match expr {
            Expr::Call(call) => {
                let flags = self.flags(&call.args);
                if let Some(path) = self.reader.scopes.path(&call.func) {
                    self.made_runtime(&path, call.func.span());
                    if path == "adieu.service" || path == "actix_web.HttpServer.new" {
                        let server = if path.starts_with("adieu") {
                            "adieu"
                        } else {
                            "actix-web"
                        };
                        self.served(server, call.func.span());
                    }
                    if path == "tokio.signal.ctrl_c" && !self.is_test() {
                        let place = items::place(call.func.span());
                        self.reader.summary.facts.ctrl_c.get_or_insert(place);
                    }
                    // From here on there is another task.
                    self.starting &= !matches!(path.as_str(), "tokio.spawn" | "tokio.task.spawn");
                    if path == "std.process.exit" && self.is_async && !self.in_main() {
                        self.report(
                            call.func.span(),
                            rule::RUST_EXIT,
                            "`process::exit` runs no destructor and tells no task; return an error and let main decide",
                        );
                    }
                    self.add(&path, call.func.span(), flags);
                }
                visit::visit_expr_call(self, call);
            }
            Expr::MethodCall(call) => {
                let flags = self.flags(&call.args);
                let method = call.method.to_string();
                match self.reader.scopes.path(&call.receiver) {
                    Some(receiver) => {
                        if !self.is_test() {
                            let reader = &mut *self.reader;
                            let grace =
                                grace::of_call(call, &receiver, &reader.scopes, &reader.durations);
                            reader.summary.facts.graces.extend(grace);
                        }
                        let path = format!("{receiver}.{method}");
                        if path == "axum.serve().with_graceful_shutdown" {
                            self.served("axum::serve", call.method.span());
                        }
                        self.made_runtime(&path, call.method.span());
                        self.add(&path, call.method.span(), flags);
                    }
                    // These names exist for this one purpose, whatever they are called on.
                    None if method == "block_on" || method.starts_with("blocking_") => {
                        self.add(&format!("tokio.{method}"), call.method.span(), flags);
                    }
                    None => {}
                }
                self.visit_expr(&call.receiver);
                for argument in &call.args {
                    match argument {
                        Expr::Closure(closure)
                            if closure.asyncness.is_none()
                                && runs_on_the_spot(&method, &call.receiver) =>
                        {
                            self.on_the_spot(closure);
                        }
                        other => self.visit_expr(other),
                    }
                }
            }
            Expr::Await(inner) => {
                self.awaited_server(&inner.base);
                self.awaited = true;
                self.visit_expr(&inner.base);
                self.awaited = false;
                self.starting = false;
            }
            Expr::Async(block) => self.apart(true, |body| body.visit_block(&block.block)),
            Expr::Closure(closure) => {
                let is_async = closure.asyncness.is_some();
                let mut names = FxHashMap::default();
                for input in &closure.inputs {
                    if let syn::Pat::Ident(ident) = input {
                        names.insert(ident.ident.to_string(), None);
                    }
                }
                self.reader.scopes.locals.push(names);
                self.apart(is_async, |body| body.visit_expr(&closure.body));
                self.reader.scopes.locals.pop();
            }
            Expr::Loop(ExprLoop {
                body, loop_token, ..
            }) => {
                self.endless(body, loop_token.span());
                self.loops += 1;
                self.visit_block(body);
                self.loops -= 1;
            }
            Expr::If(stmt) => {
                if let Expr::Let(condition) = &*stmt.cond {
                    self.held_over(&condition.expr, &|ways| ways.visit_block(&stmt.then_branch));
                }
                visit::visit_expr_if(self, stmt);
            }
            Expr::While(stmt) => {
                if let Expr::Let(condition) = &*stmt.cond {
                    self.held_over(&condition.expr, &|ways| ways.visit_block(&stmt.body));
                }
                if matches!(&*stmt.cond, Expr::Lit(syn::ExprLit { lit: syn::Lit::Bool(bool), .. }) if bool.value)
                {
                    self.endless(&stmt.body, stmt.while_token.span());
                }
                self.visit_expr(&stmt.cond);
                self.loops += 1;
                self.visit_block(&stmt.body);
                self.loops -= 1;
            }
            Expr::ForLoop(stmt) => {
                self.held_over(&stmt.expr, &|ways| ways.visit_block(&stmt.body));
                // A loop over a channel waits for each message.
                let over = self.reader.scopes.path(&stmt.expr);
                if let Some(channel) = over.filter(|path| path == "std.sync.mpsc.Receiver()") {
                    let path = format!("{channel}.iter");
                    self.add(&path, stmt.expr.span(), CallFlags::default());
                }
                self.visit_expr(&stmt.expr);
                self.reader.scopes.locals.push(FxHashMap::default());
                self.reader.scopes.bind(&stmt.pat, None);
                self.loops += 1;
                self.visit_block(&stmt.body);
                self.loops -= 1;
                self.reader.scopes.locals.pop();
            }
            Expr::Let(condition) => {
                self.visit_expr(&condition.expr);
                let value = self.reader.scopes.path(&condition.expr);
                self.reader.scopes.bind(&condition.pat, value);
            }
            Expr::Match(stmt) => {
                self.held_over(&stmt.expr, &|ways| {
                    for arm in &stmt.arms {
                        ways.visit_expr(&arm.body);
                    }
                });
                self.visit_expr(&stmt.expr);
                for arm in &stmt.arms {
                    self.reader.scopes.locals.push(FxHashMap::default());
                    self.reader.scopes.bind(&arm.pat, None);
                    if let Some((_, guard)) = &arm.guard {
                        self.visit_expr(guard);
                    }
                    self.visit_expr(&arm.body);
                    self.reader.scopes.locals.pop();
                }
            }
            _ => {
                let keeps = matches!(expr, Expr::Paren(_) | Expr::Group(_));
                if !keeps {
                    self.awaited = false;
                }
                visit::visit_expr(self, expr);
            }
        }
    }

    fn visit_macro(&mut self, mac: &'ast Macro) {
        self.arguments(mac);
    }

    fn visit_item(&mut self, _: &'ast syn::Item) {}
}

impl Body<'_, '_> {
    fn in_main(&self) -> bool {
        self.function.is_some_and(|index| {
            self.reader.summary.functions[index as usize]
                .flags
                .has(FnFlags::ENTRY)
        })
    }
}

/// Whether the first argument names a file that stands on no disk: `/proc/self/status`.
fn asks_kernel(args: &Punctuated<Expr, Token![,]>) -> bool {
    let Some(Expr::Lit(syn::ExprLit {
        lit: syn::Lit::Str(text),
        ..
    })) = args.first()
    else {
        return false;
    };
    let text = text.value();
    ["/proc/", "/sys/", "/dev/"]
        .iter()
        .any(|root| text.starts_with(root))
}

/// Whether `await` stands anywhere among these tokens.
fn has_await(tokens: proc_macro2::TokenStream) -> bool {
    tokens.into_iter().any(|token| match token {
        proc_macro2::TokenTree::Ident(ident) => ident == "await",
        proc_macro2::TokenTree::Group(group) => has_await(group.stream()),
        _ => false,
    })
}

/// How control leaves a piece of code.
#[derive(Debug, Default)]
pub(super) struct Ways {
    /// Awaits for certain.
    pub(super) awaits: bool,
    /// Calls a macro that could await, for all that is seen of it.
    may_await: bool,
    leaves: bool,
}

impl<'ast> Visit<'ast> for Ways {
    fn visit_expr(&mut self, expr: &'ast Expr) {
        match expr {
            Expr::Await(_) => self.awaits = true,
            Expr::Break(_) | Expr::Return(_) | Expr::Try(_) => self.leaves = true,
            Expr::Closure(_) | Expr::Async(_) => return,
            _ => {}
        }
        visit::visit_expr(self, expr);
    }

    fn visit_macro(&mut self, mac: &'ast Macro) {
        let name = mac
            .path
            .segments
            .last()
            .map(|last| last.ident.to_string())
            .unwrap_or_default();
        if matches!(
            name.as_str(),
            "panic" | "unreachable" | "bail" | "todo" | "unimplemented"
        ) {
            self.leaves = true;
        } else if models::is_awaiting_macro(&name) || has_await(mac.tokens.clone()) {
            self.awaits = true;
        } else if !models::is_plain_macro(&name) {
            self.may_await = true;
        }
    }

    fn visit_item(&mut self, _: &'ast syn::Item) {}
}
