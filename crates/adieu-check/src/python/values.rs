//! What names, attributes and imports hold.

use ruff_python_ast::{Expr, Stmt};

use super::bindings::Owner;
use super::extract::Reader;
use super::models::libraries;
use crate::callgraph::Symbol;

impl<'a> Reader<'a, '_> {
    fn symbol(&mut self, value: Option<String>) -> Symbol {
        match value.filter(|value| self.clients().leads_somewhere(value)) {
            Some(value) => Symbol::Path(self.summary.names.add(&value)),
            None => Symbol::Unknown,
        }
    }

    /// Remembers what a name or attribute holds.
    pub(super) fn assign(&mut self, target: &'a Expr, value: Option<String>, is_none: bool) {
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

    pub(super) fn hold(&mut self, class: u32, name: &str, value: Option<String>) {
        let symbol = self.symbol(value);
        let members = &mut self.summary.classes[class as usize].members;
        match members.get_mut(name) {
            Some(Symbol::Function(_) | Symbol::Class(_)) => {}
            Some(held) if *held != symbol => *held = Symbol::Unknown,
            Some(_) => {}
            None => {
                members.insert(name.into(), symbol);
            }
        }
    }

    pub(super) fn hold_global(&mut self, name: &str, value: Option<String>) {
        // An import bound under that name decides; the linker asks for `@module.name` only else.
        let symbol = self.symbol(value);
        match self.summary.symbols.get_mut(name) {
            Some(held) if *held != symbol => *held = Symbol::Unknown,
            Some(_) => {}
            None => {
                self.summary.symbols.insert(name.into(), symbol);
            }
        }
    }

    pub(super) fn bind_import(&mut self, stmt: &'a Stmt) {
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
        for (_, path) in &bound {
            self.note_library(path.as_deref().unwrap_or_default());
        }
        if !self.scopes.stack.is_empty() {
            return;
        }
        for (name, path) in bound {
            let Some(path) = path.filter(|path| self.clients().leads_somewhere(path)) else {
                // On another platform or version it is something else.
                if self.branch_depth > 0 {
                    self.summary.symbols.insert(name.into(), Symbol::Unknown);
                }
                continue;
            };
            let id = self.summary.names.add(&path);
            if name == "*" {
                self.summary.stars.push(id);
            } else {
                // What others import from here: re-exports go through the same table.
                let symbol = Symbol::Path(id);
                let held = self.summary.symbols.entry(name.into()).or_insert(symbol);
                if *held != symbol {
                    *held = Symbol::Unknown;
                }
            }
        }
    }

    /// What an import says about the program: a service, or a command-line tool.
    fn note_library(&mut self, path: &str) {
        let root = path.split('.').next().unwrap_or(path);
        self.summary.facts.is_service |=
            libraries::serves(root) || path == "aiohttp.web" || path.starts_with("aiohttp.web.");
        self.summary.facts.is_aside |= matches!(root, "click" | "typer" | "cyclopts" | "fire");
    }
}
