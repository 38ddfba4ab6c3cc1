//! The grace that code gives its own server, for the deployment rules.

use ruff_python_ast::{Expr, ExprCall, Number, Stmt};

use super::extract::Reader;
use crate::program::CodeGrace;

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
    /// `uvicorn.run(app, timeout_graceful_shutdown=25)` and its kin.
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
            self.unit.facts.graces.push(grace);
        }
    }

    /// `graceful_timeout = 60`: alone in gunicorn's settings, or on the settings of hypercorn.
    pub(super) fn note_grace_setting(&mut self, target: &'a Expr, value: &'a Expr) {
        let server = match target {
            Expr::Name(name) if name.id.as_str() == "graceful_timeout" => {
                (self.scopes.stack.is_empty() && self.frames.is_empty()).then_some("gunicorn")
            }
            Expr::Attribute(attribute) if attribute.attr.as_str() == "graceful_timeout" => {
                let owner = self.scopes.path(&attribute.value);
                (owner.as_deref() == Some("hypercorn.config.Config()")).then_some("hypercorn")
            }
            _ => None,
        };
        if let Some(server) = server {
            let grace = CodeGrace {
                // Under a condition it is one of several.
                seconds: self
                    .seconds(value)
                    .filter(|_| server != "gunicorn" || self.branch_depth == 0),
                place: self.place(target),
                server,
                setting: "graceful_timeout",
            };
            self.unit.facts.graces.push(grace);
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

fn is_name(expr: &Expr, name: &str) -> bool {
    matches!(expr, Expr::Name(found) if found.id.as_str() == name)
}
