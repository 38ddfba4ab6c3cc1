//! Scopes, and the names a function makes its own.
//!
//! Python decides at compile time which names are local: any binding anywhere in the function
//! makes the name local in all of it. So the names are collected before the body is read.

use ruff_python_ast::{ExceptHandler, Expr, Parameters, Pattern, Stmt};
use rustc_hash::FxHashMap;

use super::imports::Position;

/// What a scope belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    Class(u32),
    Function(Option<u32>),
}

/// The names of one function or class body. `None` is bound to an unknown value.
#[derive(Debug)]
pub(crate) struct Scope<'a> {
    pub(crate) owner: Owner,
    pub(crate) names: FxHashMap<&'a str, Option<Box<str>>>,
}

/// All names that these statements bind in their own scope, with the paths of imports.
pub(crate) fn collect<'a>(
    body: &'a [Stmt],
    position: Position<'_>,
    names: &mut FxHashMap<&'a str, Option<Box<str>>>,
    globals: &mut Vec<&'a str>,
) {
    for stmt in body {
        match stmt {
            Stmt::FunctionDef(def) => unknown(names, def.name.as_str()),
            Stmt::ClassDef(def) => unknown(names, def.name.as_str()),
            Stmt::Assign(assign) => assign
                .targets
                .iter()
                .for_each(|target| collect_target(target, names)),
            Stmt::AugAssign(assign) => collect_target(&assign.target, names),
            Stmt::AnnAssign(assign) => collect_target(&assign.target, names),
            Stmt::Import(import) => position.import(import, |name, path| {
                if let Some(name) = import_name(stmt, name) {
                    known(names, name, path);
                }
            }),
            Stmt::ImportFrom(import) => position.import_from(import, |name, path| {
                if let Some(name) = import_name(stmt, name) {
                    known(names, name, path);
                }
            }),
            Stmt::Global(stmt) => globals.extend(stmt.names.iter().map(|name| name.as_str())),
            Stmt::Nonlocal(stmt) => globals.extend(stmt.names.iter().map(|name| name.as_str())),
            Stmt::For(stmt) => {
                collect_target(&stmt.target, names);
                collect(&stmt.body, position, names, globals);
                collect(&stmt.orelse, position, names, globals);
            }
            Stmt::While(stmt) => {
                collect(&stmt.body, position, names, globals);
                collect(&stmt.orelse, position, names, globals);
            }
            Stmt::If(stmt) => {
                collect(&stmt.body, position, names, globals);
                for clause in &stmt.elif_else_clauses {
                    collect(&clause.body, position, names, globals);
                }
            }
            Stmt::With(stmt) => {
                for item in &stmt.items {
                    if let Some(target) = &item.optional_vars {
                        collect_target(target, names);
                    }
                }
                collect(&stmt.body, position, names, globals);
            }
            Stmt::Try(stmt) => {
                collect(&stmt.body, position, names, globals);
                for ExceptHandler::ExceptHandler(handler) in &stmt.handlers {
                    if let Some(name) = &handler.name {
                        unknown(names, name.as_str());
                    }
                    collect(&handler.body, position, names, globals);
                }
                collect(&stmt.orelse, position, names, globals);
                collect(&stmt.finalbody, position, names, globals);
            }
            Stmt::Match(stmt) => {
                for case in &stmt.cases {
                    collect_pattern(&case.pattern, names);
                    collect(&case.body, position, names, globals);
                }
            }
            _ => {}
        }
    }
}

/// The bound name as it stands in the tree, so that it lives as long.
fn import_name<'a>(stmt: &'a Stmt, bound: &str) -> Option<&'a str> {
    let names = match stmt {
        Stmt::Import(import) => &import.names,
        Stmt::ImportFrom(import) => &import.names,
        _ => return None,
    };
    names.iter().find_map(|alias| {
        let name = alias.asname.as_ref().unwrap_or(&alias.name).as_str();
        let first = name.split('.').next().unwrap_or(name);
        (first == bound || name == bound).then_some(first)
    })
}

fn unknown<'a>(names: &mut FxHashMap<&'a str, Option<Box<str>>>, name: &'a str) {
    names.insert(name, None);
}

/// Two imports of one name that disagree leave it unknown.
fn known<'a>(
    names: &mut FxHashMap<&'a str, Option<Box<str>>>,
    name: &'a str,
    path: Option<String>,
) {
    let path = path.map(String::into_boxed_str);
    match names.get_mut(name) {
        Some(bound) if *bound != path => *bound = None,
        Some(_) => {}
        None => {
            names.insert(name, path);
        }
    }
}

pub(crate) fn collect_target<'a>(
    target: &'a Expr,
    names: &mut FxHashMap<&'a str, Option<Box<str>>>,
) {
    match target {
        Expr::Name(name) => unknown(names, name.id.as_str()),
        Expr::Tuple(tuple) => tuple
            .elts
            .iter()
            .for_each(|target| collect_target(target, names)),
        Expr::List(list) => list
            .elts
            .iter()
            .for_each(|target| collect_target(target, names)),
        Expr::Starred(starred) => collect_target(&starred.value, names),
        _ => {}
    }
}

fn collect_pattern<'a>(pattern: &'a Pattern, names: &mut FxHashMap<&'a str, Option<Box<str>>>) {
    match pattern {
        Pattern::MatchAs(pattern) => {
            if let Some(name) = &pattern.name {
                unknown(names, name.as_str());
            }
            if let Some(inner) = &pattern.pattern {
                collect_pattern(inner, names);
            }
        }
        Pattern::MatchStar(pattern) => {
            if let Some(name) = &pattern.name {
                unknown(names, name.as_str());
            }
        }
        Pattern::MatchSequence(pattern) => pattern
            .patterns
            .iter()
            .for_each(|p| collect_pattern(p, names)),
        Pattern::MatchOr(pattern) => pattern
            .patterns
            .iter()
            .for_each(|p| collect_pattern(p, names)),
        Pattern::MatchMapping(pattern) => {
            pattern
                .patterns
                .iter()
                .for_each(|p| collect_pattern(p, names));
            if let Some(rest) = &pattern.rest {
                unknown(names, rest.as_str());
            }
        }
        Pattern::MatchClass(pattern) => {
            pattern
                .arguments
                .patterns
                .iter()
                .for_each(|p| collect_pattern(p, names));
            pattern
                .arguments
                .keywords
                .iter()
                .for_each(|k| collect_pattern(&k.pattern, names));
        }
        Pattern::MatchValue(_) | Pattern::MatchSingleton(_) => {}
    }
}

/// Binds parameters to nothing known; annotations are added by the caller.
pub(crate) fn collect_parameters<'a>(
    parameters: &'a Parameters,
    names: &mut FxHashMap<&'a str, Option<Box<str>>>,
) {
    for parameter in parameters {
        unknown(names, parameter.name().as_str());
    }
}
