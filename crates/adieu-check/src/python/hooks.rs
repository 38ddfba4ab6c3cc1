//! Which servers a file starts, and what it has frameworks call while they stop.

use ruff_python_ast::{Expr, ExprCall, StmtFunctionDef};

use super::extract::Reader;
use crate::callgraph::{CodeServer, Hook, Moment};

/// Calls that start a server, and its name in the table of servers.
fn server_of(path: &str) -> Option<&'static str> {
    match path {
        "uvicorn.run" | "uvicorn.Config" => Some("uvicorn"),
        "hypercorn.asyncio.serve" => Some("hypercorn"),
        "aiohttp.web.run_app" => Some("aiohttp"),
        "granian.Granian" | "granian.server.Granian" => Some("granian"),
        _ => None,
    }
}

impl<'a> Reader<'a, '_> {
    /// `uvicorn.run(app)`, `FastAPI(lifespan=lifespan)`, `atexit.register(save)`.
    pub(super) fn note_server(&mut self, call: &'a ExprCall, path: &str) {
        if let Some(server) = server_of(path) {
            let place = self.place(call);
            self.summary
                .facts
                .servers
                .push(CodeServer { server, place });
        }
        match path {
            "fastapi.FastAPI"
            | "starlette.applications.Starlette"
            | "litestar.Litestar"
            | "quart.Quart" => {
                for keyword in &call.arguments.keywords {
                    match keyword.arg.as_ref().map(|name| name.as_str()) {
                        Some("lifespan") => self.hook(Moment::Lifespan, &keyword.value, true),
                        Some("on_shutdown") => self.hooks(Moment::Lifespan, &keyword.value),
                        _ => {}
                    }
                }
            }
            "atexit.register" => {
                if let Some(hook) = call.arguments.args.first() {
                    self.hook(Moment::AtExit, hook, false);
                }
            }
            _ => {}
        }
    }

    /// `app.on_cleanup.append(close)`, `app.add_event_handler("shutdown", close)`.
    pub(super) fn note_hook(&mut self, call: &'a ExprCall) {
        let Expr::Attribute(method) = &*call.func else {
            return;
        };
        match (method.attr.as_str(), &*method.value, &*call.arguments.args) {
            ("append", Expr::Attribute(list), [hook]) => match list.attr.as_str() {
                "on_shutdown" => self.hook(Moment::OnShutdown, hook, false),
                "on_cleanup" => self.hook(Moment::OnCleanup, hook, false),
                "cleanup_ctx" => self.hook(Moment::OnCleanup, hook, true),
                _ => {}
            },
            ("add_event_handler", _, [Expr::StringLiteral(event), hook])
                if event.value.to_str() == "shutdown" =>
            {
                self.hook(Moment::Lifespan, hook, false);
            }
            _ => {}
        }
    }

    /// `@app.on_event("shutdown")`
    pub(super) fn note_event(&mut self, def: &'a StmtFunctionDef, function: u32) {
        let is_shutdown = def.decorator_list.iter().any(|decorator| match &decorator.expression {
            Expr::Call(call) => {
                let is_event = matches!(&*call.func, Expr::Attribute(method) if method.attr.as_str() == "on_event");
                let first = call.arguments.args.first();
                is_event && matches!(first, Some(Expr::StringLiteral(name)) if name.value.to_str() == "shutdown")
            }
            Expr::Attribute(method) => method.attr.as_str() == "after_serving",
            _ => false,
        });
        if is_shutdown {
            let hook = Hook {
                moment: Moment::Lifespan,
                path: format!("@{}#{function}", self.summary.module).into(),
                yields: false,
                place: self.place(&def.name),
            };
            self.summary.facts.hooks.push(hook);
        }
    }

    fn hooks(&mut self, moment: Moment, list: &'a Expr) {
        match list {
            Expr::List(list) => list
                .elts
                .iter()
                .for_each(|hook| self.hook(moment, hook, false)),
            Expr::Tuple(list) => list
                .elts
                .iter()
                .for_each(|hook| self.hook(moment, hook, false)),
            _ => {}
        }
    }

    fn hook(&mut self, moment: Moment, function: &'a Expr, yields: bool) {
        if let Some(path) = self.scopes.path(function) {
            let hook = Hook {
                moment,
                path: path.into(),
                yields,
                place: self.place(function),
            };
            self.summary.facts.hooks.push(hook);
        }
    }
}
