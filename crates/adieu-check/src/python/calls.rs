//! The calls of a function, how they are made, and what they give away about the program.

use ruff_python_ast::visitor::Visitor;
use ruff_python_ast::{Expr, ExprAttribute, ExprCall, StmtWith};
use ruff_text_size::Ranged;

use super::extract::{Frame, Reader};
use super::models::libraries;
use super::{canonical, rules};
use crate::callgraph::{Call, CallFlags, path};
use crate::fix::{Applicability, Fix};
use crate::rule;

impl<'a> Reader<'a, '_> {
    pub(super) fn add_call(&mut self, call: &'a ExprCall, mut flags: CallFlags) {
        let mut path = std::mem::take(&mut self.buffer);
        path.clear();
        let has_path = self.scopes.path_into(&call.func, &mut path);
        self.note_celery_update(call);
        self.note_hook(call);
        self.note_asked(call);
        if has_path {
            self.note(call, &path);
        } else if let Expr::Attribute(attribute) = &*call.func {
            self.note_method(attribute.attr.as_str());
        }
        let worth = has_path
            && match path.strip_prefix('@') {
                Some(_) => true,
                None => {
                    self.clients()
                        .is_known_root(path.split(['.', '(']).next().unwrap_or(""))
                        || path.starts_with("builtins.")
                }
            };
        if worth && let Some(function) = self.frames.last().and_then(|frame| frame.function) {
            if self.finally_depth > 0 {
                flags.set(CallFlags::IN_FINALLY);
            }
            if only_reads(call, &path) {
                flags.set(CallFlags::READS);
            }
            if self.guard_depth > 0 {
                flags.set(CallFlags::GUARDED);
            }
            if polls(call) || self.is_done(call) {
                flags.set(CallFlags::POLLS);
            }
            if !path.starts_with("builtins.")
                || matches!(path.as_str(), "builtins.open" | "builtins.input")
            {
                let entry = Call {
                    target: self.summary.names.add(&path),
                    place: self.place(call),
                    flags,
                };
                self.summary.functions[function as usize].calls.push(entry);
            }
        }
        let inner = if has_path && libraries::takes_coroutines(&path) {
            let mut inner = CallFlags::AWAITED;
            if libraries::spawns(&path) {
                inner.set(CallFlags::SPAWNED);
            }
            inner
        } else if has_path && consumes(&path) || is_join(&call.func) {
            CallFlags::ITERATED
        } else if is_spawn_method(&call.func) {
            CallFlags::SPAWNED
        } else {
            CallFlags::default()
        };
        if hands_over(if has_path { &path } else { "" }, &call.func) {
            let keywords = call.arguments.keywords.iter().map(|keyword| &keyword.value);
            for argument in call.arguments.args.iter().chain(keywords) {
                self.refer(argument, CallFlags::HANDED);
            }
        }
        let back = called_back(call);
        let here = called_here(call, if has_path { &path } else { "" }, flags);
        self.buffer = path;
        match &*call.func {
            // A method call does not read a property.
            Expr::Attribute(method) => self.visit_expr(&method.value),
            func => self.visit_expr(func),
        }
        let keywords = call.arguments.keywords.iter().map(|keyword| &keyword.value);
        for argument in call.arguments.args.iter().chain(keywords) {
            if here.is_some_and(|here| std::ptr::eq(here, argument)) {
                self.run_here(argument, flags);
            } else if back.is_some_and(|back| std::ptr::eq(back, argument)) {
                self.run_here(argument, CallFlags::default());
            } else {
                self.visit_with(argument, inner);
            }
        }
    }

    /// `future.done()`, `queue.empty()`
    fn note_asked(&mut self, call: &'a ExprCall) {
        if let Expr::Attribute(method) = &*call.func
            && matches!(
                method.attr.as_str(),
                "done" | "empty" | "set_exception" | "set_result"
            )
            && let Some(asked) = self.source.get(method.value.range().to_std_range())
            && let Some(frame) = self.frames.last_mut()
        {
            frame.asked.push(asked.into());
        }
    }

    /// The result of a future that was asked before whether it is there.
    fn is_done(&self, call: &ExprCall) -> bool {
        let Expr::Attribute(method) = &*call.func else {
            return false;
        };
        let Some(frame) = self.frames.last().filter(|frame| !frame.asked.is_empty()) else {
            return false;
        };
        matches!(method.attr.as_str(), "result" | "exception" | "get")
            && self
                .source
                .get(method.value.range().to_std_range())
                .is_some_and(|value| frame.asked.iter().any(|asked| **asked == *value))
    }

    /// A function among the arguments that runs now.
    fn run_here(&mut self, argument: &'a Expr, flags: CallFlags) {
        if let Expr::Lambda(lambda) = argument {
            return self.visit_lambda_body(lambda);
        }
        self.visit_expr(argument);
        let Some(function) = self.frames.last().and_then(|frame| frame.function) else {
            return;
        };
        let path = match argument {
            Expr::Name(_) | Expr::Attribute(_) => self.scopes.path(argument),
            Expr::Call(call) if is_partial(&call.func) => self.scopes.path(argument),
            _ => None,
        };
        if let Some(path) = path.filter(|path| self.clients().leads_somewhere(path)) {
            let call = Call {
                target: self.summary.names.add(&path),
                place: self.place(argument),
                flags,
            };
            self.summary.functions[function as usize].calls.push(call);
        }
    }

    /// Reading an attribute of a class of the project runs a property. Whether it is one, only the linker knows.
    pub(super) fn note_read(&mut self, attribute: &'a ExprAttribute) {
        let Some(function) = self.frames.last().and_then(|frame| frame.function) else {
            return;
        };
        if !attribute.ctx.is_load() || !self.scopes.is_own(&attribute.value) {
            return;
        }
        let mut path = std::mem::take(&mut self.buffer);
        path.clear();
        if self.scopes.path_into(&attribute.value, &mut path) && path::is_internal(&path) {
            path.push_str(".?");
            path.push_str(attribute.attr.as_str());
            let call = Call {
                target: self.summary.names.add(&path),
                place: self.place(&attribute.attr),
                flags: CallFlags::default(),
            };
            self.summary.functions[function as usize].calls.push(call);
        }
        self.buffer = path;
    }

    /// A function among the arguments that is given to a thread.
    fn refer(&mut self, argument: &'a Expr, flags: CallFlags) {
        let Some(function) = self.frames.last().and_then(|frame| frame.function) else {
            return;
        };
        let path = match argument {
            Expr::Name(_) | Expr::Attribute(_) => self.scopes.path(argument),
            // `lambda: work(x)` is work, and so is a partial of it.
            Expr::Lambda(lambda) if flags.has(CallFlags::HANDED) => match &*lambda.body {
                Expr::Call(call) => self.scopes.path(&call.func),
                _ => None,
            },
            Expr::Call(call) if is_partial(&call.func) => self.scopes.path(argument),
            _ => None,
        };
        let counts = |path: &String| path::is_internal(path) || path.as_str() == "asyncio.run";
        if let Some(path) = path.filter(counts) {
            let target = self.summary.names.add(&path);
            let place = self.place(argument);
            let call = Call {
                target,
                place,
                flags,
            };
            self.summary.functions[function as usize].calls.push(call);
        }
    }

    /// `with thing:` of a class of the project calls two of its methods.
    pub(super) fn note_entered(&mut self, context: &'a Expr) {
        let Some(function) = self.frames.last().and_then(|frame| frame.function) else {
            return;
        };
        let path = self.scopes.path(context);
        if let Some(path) = path.filter(|path| path::is_internal(path)) {
            let place = self.place(context);
            // Not `__enter__`, whose value is taken for the object itself.
            for method in ["__entered__", "__exit__"] {
                let call = Call {
                    target: self.summary.names.add(&format!("{path}.{method}")),
                    place,
                    flags: CallFlags::default(),
                };
                self.summary.functions[function as usize].calls.push(call);
            }
        }
    }

    pub(super) fn visit_with(&mut self, expr: &'a Expr, flags: CallFlags) {
        match expr {
            Expr::Call(call) => self.add_call(call, flags),
            Expr::Starred(starred) => {
                let mut flags = flags;
                flags.set(CallFlags::ITERATED);
                self.visit_with(&starred.value, flags);
            }
            Expr::Generator(comp) if flags.has(CallFlags::ITERATED) => {
                self.visit_comprehensions(&comp.generators, &[&comp.elt]);
            }
            _ => self.visit_expr(expr),
        }
    }

    /// Facts about the program that a call gives away.
    pub(super) fn note(&mut self, call: &'a ExprCall, path: &str) {
        if let Expr::Attribute(attribute) = &*call.func {
            self.note_method(attribute.attr.as_str());
        }
        self.note_grace(call, path);
        self.note_server(call, path);
        self.check_uvicorn(call, path);
        self.check_temporal(call, path);
        match path {
            "asyncio.get_running_loop" | "asyncio.current_task" | "asyncio._get_running_loop"
            | "sniffio.current_async_library" => {
                if let Some(frame) = self.frames.last_mut() {
                    frame.knows_loop = true;
                }
            }
            "signal.signal" => {
                self.summary.facts.handles_signals = true;
                let call = rules::SignalCall::new(self, call);
                self.signal_calls.extend(call);
            }
            "nest_asyncio.apply" => self.report(
                call,
                rule::NEST_ASYNCIO,
                "`nest_asyncio` lets a loop run inside itself: cancellation and shutdown lose their order; await instead",
            ),
            "signal.sigwait" | "anyio.open_signal_receiver" | "uvicorn.run" | "uvicorn.Server"
            | "hypercorn.asyncio.serve" | "aiorun.run" | "granian.Granian" => self.summary.facts.handles_signals = true,
            "fastapi.FastAPI" | "starlette.applications.Starlette" | "aiohttp.web.Application" | "aiohttp.web.run_app"
            | "litestar.Litestar" | "quart.Quart" | "sanic.Sanic" => {
                self.summary.facts.handles_signals = true;
                self.summary.facts.serves = true;
            }
            "asyncio.run" if self.frames.is_empty() => {
                self.summary.facts.serves = true;
                if let Some(Expr::Call(main)) = call.arguments.args.first()
                    && let Some(main) = self.scopes.path(&main.func)
                {
                    let main = (self.summary.names.add(&main), self.place(call));
                    self.summary.facts.mains.push(main);
                }
            }
            _ => {}
        }
    }

    /// Without a grace a worker of Temporal cancels its activities at once.
    fn check_temporal(&mut self, call: &'a ExprCall, path: &str) {
        if path != "temporalio.worker.Worker" {
            return;
        }
        let has = |name: &str| call.arguments.find_keyword(name).is_some();
        let is_hidden = call
            .arguments
            .keywords
            .iter()
            .any(|keyword| keyword.arg.is_none());
        if has("activities") && !has("graceful_shutdown_timeout") && !is_hidden {
            self.report(
                call,
                rule::TEMPORAL_GRACE,
                "a stop cancels the activities of this worker at once: set `graceful_shutdown_timeout` to less than the \
                 platform waits",
            );
        }
    }

    /// Without a limit uvicorn waits for its slowest response, a stream among them.
    fn check_uvicorn(&mut self, call: &'a ExprCall, path: &str) {
        if !matches!(path, "uvicorn.run" | "uvicorn.Config") {
            return;
        }
        let mut keywords = call.arguments.keywords.iter();
        let is_limited = keywords.any(|keyword| match &keyword.arg {
            // What else is given cannot be seen.
            None => true,
            // Who reloads is a developer.
            Some(name) => matches!(name.as_str(), "timeout_graceful_shutdown" | "reload"),
        });
        if !is_limited {
            self.report(
                call,
                rule::UVICORN_GRACE,
                "a stop waits for the slowest response without a limit, a stream among them: set `timeout_graceful_shutdown` \
                 to less than the platform waits",
            );
        }
    }

    pub(super) fn note_method(&mut self, method: &str) {
        if matches!(
            method,
            "add_signal_handler"
                | "start_polling"
                | "run_polling"
                | "run_app"
                | "install_signal_handlers"
        ) {
            self.summary.facts.handles_signals = true;
        }
    }

    /// A thread's lock held while this coroutine waits: every other task that wants it stops the loop.
    pub(super) fn note_held(&mut self, item: &'a ruff_python_ast::WithItem, stmt: &'a StmtWith) {
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
            let target = self.summary.names.add(&path::hold(&path));
            let held = Call {
                target,
                place: self.place(&item.context_expr),
                flags: CallFlags::default(),
            };
            self.summary.functions[function].calls.push(held);
        }
    }

    /// `with ThreadPoolExecutor() as pool:` waits at its end for all that was submitted. Where the block awaits, that is
    /// mostly what it awaits, and nothing is left to wait for.
    pub(super) fn note_pool(&mut self, item: &'a ruff_python_ast::WithItem, stmt: &'a StmtWith) {
        let Some(function) = self.frames.last().and_then(|frame| frame.function) else {
            return;
        };
        let path = self.scopes.path(&item.context_expr);
        let path = path.and_then(|path| canonical::canonicalize(&path));
        let is_pool = matches!(
            path.as_deref(),
            Some(
                "concurrent.futures.ThreadPoolExecutor()"
                    | "concurrent.futures.ProcessPoolExecutor()"
            )
        );
        if let Some(path) = path.filter(|_| is_pool && !rules::has_await(&stmt.body)) {
            let call = Call {
                target: self.summary.names.add(&format!("{path}.shutdown")),
                place: self.place(&item.context_expr),
                flags: CallFlags::default(),
            };
            self.summary.functions[function as usize].calls.push(call);
        }
    }

    /// `time.sleep(x)` as a statement of a coroutine may become an await, where the name `asyncio` is that module or free.
    pub(super) fn offer_sleep(&mut self, call: &'a ExprCall) {
        let in_async = matches!(self.frames.last(), Some(Frame { is_async: true, .. }));
        if !in_async
            || self.with_depth > 0
            || self.scopes.path(&call.func).as_deref() != Some("time.sleep")
        {
            return;
        }
        let bound = self.scopes.top.get("asyncio");
        let has_asyncio = bound.and_then(Option::as_deref) == Some("asyncio");
        let is_free = bound.is_none();
        let shadowed = self
            .scopes
            .stack
            .iter()
            .any(|scope| scope.names.contains_key("asyncio"));
        // trio and curio do not run the event loop of asyncio, and anyio may run that of trio.
        let speaks_of =
            |name: &str| memchr::memmem::find(self.source.as_bytes(), name.as_bytes()).is_some();
        let only_asyncio =
            !speaks_of("trio") && (has_asyncio || !speaks_of("anyio") && !speaks_of("curio"));
        if (has_asyncio || is_free) && !shadowed && only_asyncio {
            let (start, end) = (call.func.start().to_usize(), call.func.end().to_usize());
            let fix = Fix {
                start,
                end,
                text: "await asyncio.sleep".to_owned(),
                // Other tasks run meanwhile, and the coroutine may be cancelled here.
                applicability: Applicability::Unsafe,
                import: Some("asyncio"),
            };
            self.summary.fixes.insert(self.place(call), fix);
        }
    }
}

/// Opens a file to read it.
fn only_reads(call: &ExprCall, path: &str) -> bool {
    let position = match path {
        "builtins.open" | "io.open" | "codecs.open" => 1,
        _ if path.ends_with(".open") => 0,
        _ => return false,
    };
    match call.arguments.find_argument_value("mode", position) {
        None => true,
        Some(Expr::StringLiteral(mode)) => !mode.value.to_str().contains(['w', 'a', 'x', '+']),
        Some(_) => false,
    }
}

/// A zero or a false among the arguments: `timeout=0`, `block=False`, `WNOHANG`, `NOBLOCK`, `AI_NUMERICHOST`.
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
            Expr::Attribute(attribute) => {
                let name = attribute.attr.as_str();
                matches!(name, "WNOHANG" | "NOBLOCK" | "DONTWAIT") || name.contains("NUMERIC")
            }
            Expr::Name(name) => name.id.as_str().contains("NUMERIC"),
            _ => false,
        })
}

/// `", ".join(...)`
fn is_join(func: &Expr) -> bool {
    matches!(func, Expr::Attribute(attribute)
        if attribute.attr.as_str() == "join" && attribute.value.is_string_literal_expr())
}

fn consumes(path: &str) -> bool {
    path.strip_prefix("builtins.")
        .is_some_and(libraries::consumes)
}

/// The function among the arguments that is called on the spot: for each element of what is iterated here, or to compare.
fn called_here<'a>(call: &'a ExprCall, path: &str, flags: CallFlags) -> Option<&'a Expr> {
    let key = || call.arguments.find_keyword("key").map(|key| &key.value);
    match path {
        "builtins.map" | "builtins.filter" if flags.has(CallFlags::ITERATED) => {
            call.arguments.find_positional(0)
        }
        "functools.reduce" => call.arguments.find_positional(0),
        "builtins.sorted" | "builtins.max" | "builtins.min" => key(),
        _ => match &*call.func {
            Expr::Attribute(attribute) if attribute.attr.as_str() == "sort" => key(),
            _ => None,
        },
    }
}

/// The ordinary function that is passed to the event loop as a callback.
fn called_back(call: &ExprCall) -> Option<&Expr> {
    let Expr::Attribute(attribute) = &*call.func else {
        return None;
    };
    let position = match attribute.attr.as_str() {
        "call_soon" | "call_soon_threadsafe" => 0,
        "call_later" | "call_at" | "add_signal_handler" | "add_reader" | "add_writer" => 1,
        _ => return None,
    };
    call.arguments.find_positional(position)
}

fn is_partial(func: &Expr) -> bool {
    match func {
        Expr::Name(name) => name.id.as_str() == "partial",
        Expr::Attribute(attribute) => attribute.attr.as_str() == "partial",
        _ => false,
    }
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
