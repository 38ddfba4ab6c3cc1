//! The grace that code gives its own server, for the deployment rules.

use ruff_python_ast::{Expr, ExprCall, Number, Operator, Stmt};

use super::extract::Reader;
use crate::callgraph::CodeGrace;

/// Calls that take the grace of a server, and the keyword they take it by.
fn keyword_of(path: &str) -> Option<(&'static str, &'static str)> {
    match path {
        "uvicorn.run" | "uvicorn.Config" => Some(("uvicorn", "timeout_graceful_shutdown")),
        "aiohttp.web.run_app" | "aiohttp.web.AppRunner" => Some(("aiohttp", "shutdown_timeout")),
        "granian.Granian" | "granian.server.Granian" => Some(("granian", "workers_kill_timeout")),
        _ => None,
    }
}

impl<'a> Reader<'a, '_> {
    /// `uvicorn.run(app, timeout_graceful_shutdown=25)` and similar ones.
    pub(super) fn note_grace(&mut self, call: &'a ExprCall, path: &str) {
        let Some((server, keyword)) = keyword_of(path) else {
            return;
        };
        let said = call.arguments.find_keyword(keyword);
        // `**settings` may hold anything.
        let hidden = call.arguments.keywords.iter().any(|k| k.arg.is_none());
        if said.is_some() || hidden {
            let grace = CodeGrace {
                seconds: said.and_then(|said| self.seconds(&said.value)),
                place: self.place(call),
                server,
                setting: keyword,
            };
            self.summary.facts.graces.push(grace);
        }
    }

    /// `graceful_timeout = 60`: alone in gunicorn's settings, or on the settings of hypercorn; and the limits of
    /// celery, alone in its settings or on those of an application.
    pub(super) fn note_grace_setting(&mut self, target: &'a Expr, value: &'a Expr) {
        let at_top = self.scopes.stack.is_empty() && self.frames.is_empty();
        let said = match target {
            Expr::Name(name) if at_top => match name.id.as_str() {
                "graceful_timeout" => Some(("gunicorn", "graceful_timeout")),
                name => self.celery_setting(name).map(|setting| ("celery", setting)),
            },
            Expr::Attribute(attribute) if attribute.attr.as_str() == "graceful_timeout" => {
                let owner = self.scopes.path(&attribute.value);
                (owner.as_deref() == Some("hypercorn.config.Config()"))
                    .then_some(("hypercorn", "graceful_timeout"))
            }
            Expr::Attribute(attribute) if is_conf(&attribute.value) => {
                celery_limit(attribute.attr.as_str()).map(|setting| ("celery", setting))
            }
            _ => None,
        };
        if let Some((server, setting)) = said {
            let grace = CodeGrace {
                // Under a condition it is one of several.
                seconds: self
                    .seconds(value)
                    .filter(|_| server == "hypercorn" || self.branch_depth == 0),
                place: self.place(target),
                server,
                setting,
            };
            self.summary.facts.graces.push(grace);
        }
    }

    /// `app.conf.update(task_time_limit=600)`
    pub(super) fn note_celery_update(&mut self, call: &'a ExprCall) {
        let Expr::Attribute(method) = &*call.func else {
            return;
        };
        if method.attr.as_str() != "update" || !is_conf(&method.value) {
            return;
        }
        for keyword in &call.arguments.keywords {
            let name = keyword.arg.as_ref().map(|name| name.as_str());
            if let Some(setting) = name.and_then(celery_limit) {
                let grace = CodeGrace {
                    seconds: self
                        .seconds(&keyword.value)
                        .filter(|_| self.branch_depth == 0),
                    place: self.place(keyword),
                    server: "celery",
                    setting,
                };
                self.summary.facts.graces.push(grace);
            }
        }
    }

    /// A limit of celery among the names of a module: in any by Django's naming, in a module of its own by its name.
    fn celery_setting(&self, name: &str) -> Option<&'static str> {
        match name {
            "CELERY_TASK_TIME_LIMIT" | "CELERYD_TASK_TIME_LIMIT" => Some("task_time_limit"),
            "CELERY_WORKER_SOFT_SHUTDOWN_TIMEOUT" => Some("worker_soft_shutdown_timeout"),
            name => {
                let setting = celery_limit(name)?;
                let file = self.summary.path.rsplit('/').next().unwrap_or_default();
                file.contains("celery").then_some(setting)
            }
        }
    }

    /// A number, or a constant of the module that is one.
    fn seconds(&self, value: &Expr) -> Option<u64> {
        match value {
            Expr::NumberLiteral(literal) => match &literal.value {
                Number::Int(int) => int.as_u64(),
                Number::Float(float) if *float >= 0.0 => Some(float.ceil() as u64),
                Number::Float(_) | Number::Complex { .. } => None,
            },
            // `30 * 60`
            Expr::BinOp(product) if product.op == Operator::Mult => self
                .seconds(&product.left)?
                .checked_mul(self.seconds(&product.right)?),
            Expr::Name(name) => {
                let mut values = self.body.iter().filter_map(|stmt| match stmt {
                    Stmt::Assign(assign) => assign
                        .targets
                        .iter()
                        .any(|target| is_name(target, name.id.as_str()))
                        .then_some(&*assign.value),
                    Stmt::AnnAssign(assign) if is_name(&assign.target, name.id.as_str()) => {
                        assign.value.as_deref()
                    }
                    _ => None,
                });
                let shadowed = self
                    .scopes
                    .stack
                    .iter()
                    .any(|scope| scope.names.contains_key(name.id.as_str()));
                match (values.next(), values.next()) {
                    (Some(value @ Expr::NumberLiteral(_)), None) if !shadowed => {
                        self.seconds(value)
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

/// The settings of celery that bound its stop: it waits for its tasks, or no longer than this where SIGTERM is
/// mapped to the quick stop.
fn celery_limit(name: &str) -> Option<&'static str> {
    match name {
        "task_time_limit" => Some("task_time_limit"),
        "worker_soft_shutdown_timeout" => Some("worker_soft_shutdown_timeout"),
        _ => None,
    }
}

/// `app.conf`
fn is_conf(expr: &Expr) -> bool {
    matches!(expr, Expr::Attribute(attribute) if attribute.attr.as_str() == "conf")
}

fn is_name(expr: &Expr, name: &str) -> bool {
    matches!(expr, Expr::Name(found) if found.id.as_str() == name)
}
