//! Functions and classes.

use ruff_python_ast::visitor::Visitor;
use ruff_python_ast::{Expr, Parameters, StmtClassDef, StmtFunctionDef};
use rustc_hash::FxHashMap;

use super::bindings::{self, Owner, Scope};
use super::extract::{Frame, Reader};
use super::models::libraries;
use super::{canonical, rules};
use crate::callgraph::{Class, FnFlags, Function, Symbol, Timed, path};
use crate::role::TestCode;

impl<'a> Reader<'a, '_> {
    pub(super) fn visit_function(&mut self, def: &'a StmtFunctionDef) {
        for decorator in &def.decorator_list {
            self.visit_expr(&decorator.expression);
        }
        for parameter in &*def.parameters {
            if let Some(default) = parameter.default() {
                self.visit_expr(default);
            }
        }
        let mut flags = self.flags(def);
        let in_thread = def.name.as_str() == "run" && self.in_thread_class();
        if in_thread || self.is_pooled(def) {
            flags.set(FnFlags::IN_THREAD);
        }
        let index = self.summary.functions.len() as u32;
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
            .and_then(|returns| self.scopes.annotation(returns))
            .filter(|returns| self.clients().leads_somewhere(returns));
        self.summary.functions.push(Function {
            name: self.qualified.as_str().into(),
            flags,
            returns: returns.map(|returns| self.summary.names.add(&returns)),
            calls: Vec::new(),
            bare_cleanups: Vec::new(),
            in_place_save: None,
        });
        if !self.is_companion(def) {
            self.define(def.name.as_str(), Symbol::Function(index), in_class);
        }

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
            asked: Vec::new(),
            outer_branch: std::mem::take(&mut self.branch_depth),
            outer_finally: std::mem::take(&mut self.finally_depth),
            outer_guard: std::mem::take(&mut self.guard_depth),
        });
        let outer_with = std::mem::take(&mut self.with_depth);
        self.visit_body(&def.body);
        rules::on_function(self, def, index);
        self.note_event(def, index);
        if self.for_budget {
            let timed = Timed {
                place: self.place(&def.name),
                steps: self.steps_of(def),
            };
            self.summary.timed.insert(index, timed);
        }
        self.scopes.stack.pop();
        self.with_depth = outer_with;
        if let Some(frame) = self.frames.pop() {
            self.branch_depth = frame.outer_branch;
            self.finally_depth = frame.outer_finally;
            self.guard_depth = frame.outer_guard;
            if frame.generates && !def.is_async {
                flags.set(FnFlags::GENERATOR);
            }
            if frame.knows_loop && !def.is_async {
                flags.set(FnFlags::OPAQUE);
            }
        }
        let function = &mut self.summary.functions[index as usize];
        let noticed = function.flags;
        function.flags = flags;
        function.flags.set(noticed);
        self.qualified.truncate(outer);
    }

    pub(super) fn flags(&mut self, def: &'a StmtFunctionDef) -> FnFlags {
        let mut flags = FnFlags::default();
        if def.is_async {
            flags.set(FnFlags::ASYNC);
        }
        let name = def.name.as_str();
        let is_pytest = name.starts_with("test_") && self.scopes.top.contains_key("pytest");
        if self.is_test || is_pytest && self.tests == TestCode::Skipped {
            flags.set(FnFlags::TEST);
        }
        for decorator in &def.decorator_list {
            if libraries::marks_handler(&decorator.expression) {
                flags.set(FnFlags::HANDLER);
            }
            let path = self.scopes.value(&decorator.expression);
            match path.as_deref() {
                Some("builtins.property") => flags.set(FnFlags::PROPERTY),
                Some("functools.cached_property") => {
                    flags.set(FnFlags::PROPERTY);
                    flags.set(FnFlags::CACHED);
                }
                Some("functools.cache" | "functools.lru_cache" | "functools.lru_cache()") => {
                    flags.set(FnFlags::CACHED);
                }
                // Home Assistant's mark for what runs on the loop, from inside or outside of it.
                Some(path) if libraries::marks_callback(path) => flags.set(FnFlags::CALLBACK),
                Some(path) if libraries::keeps_body(path) => {}
                _ => flags.set(FnFlags::OPAQUE),
            }
        }
        flags
    }

    /// Goes by the name of another function without taking its place: an overload, the setter of a
    /// property.
    fn is_companion(&self, def: &StmtFunctionDef) -> bool {
        def.decorator_list
            .iter()
            .any(|decorator| match &decorator.expression {
                Expr::Name(name) => name.id.as_str() == "overload",
                Expr::Attribute(attribute) => {
                    matches!(attribute.attr.as_str(), "setter" | "deleter" | "overload")
                }
                _ => false,
            })
    }

    pub(super) fn bind_self(
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
        let path = format!("@{}${class}{instance}", self.summary.module);
        names.insert(first, Some(path.into()));
        kind.is_none().then(|| first.into())
    }

    /// Inside a class that is a thread.
    fn in_thread_class(&self) -> bool {
        let Some(Scope {
            owner: Owner::Class(class),
            ..
        }) = self.scopes.stack.last()
        else {
            return false;
        };
        let bases = &self.summary.classes[*class as usize].bases;
        bases
            .iter()
            .any(|base| self.summary.names.get(*base) == "threading.Thread")
    }

    /// An ordinary function that answers requests: its framework calls it in a thread.
    fn is_pooled(&self, def: &StmtFunctionDef) -> bool {
        let is_route = |decorator: &Expr| match decorator {
            Expr::Call(call) => matches!(&*call.func, Expr::Attribute(attribute)
                if matches!(attribute.attr.as_str(), "get" | "post" | "put" | "delete" | "patch" | "api_route")),
            _ => false,
        };
        !def.is_async
            && def.decorator_list.iter().any(|d| is_route(&d.expression))
            && self
                .scopes
                .top
                .values()
                .flatten()
                .any(|path| path.starts_with("fastapi."))
    }

    pub(super) fn annotate(
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
                let value = if path::is_internal(&value) {
                    Some(value)
                } else {
                    canonical::canonicalize(&value)
                };
                names.insert(
                    parameter.parameter.name.as_str(),
                    value.map(String::into_boxed_str),
                );
            }
        }
    }

    /// Makes a definition known to its surroundings.
    pub(super) fn define(&mut self, name: &'a str, symbol: Symbol, in_class: Option<u32>) {
        match in_class {
            Some(class) => {
                self.summary.classes[class as usize]
                    .members
                    .insert(name.into(), symbol);
            }
            None if self.scopes.stack.is_empty() => {
                // The first of two definitions by platform or version is as good as the second.
                self.summary.symbols.entry(name.into()).or_insert(symbol);
            }
            None => {
                let path = match symbol {
                    Symbol::Function(index) => format!("@{}#{index}", self.summary.module),
                    Symbol::Class(index) => format!("@{}${index}", self.summary.module),
                    Symbol::Path(_) | Symbol::Unknown => return,
                };
                self.scopes.bind(name, Some(path), false);
            }
        }
    }

    pub(super) fn visit_class(&mut self, def: &'a StmtClassDef) {
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
            let path = self.scopes.path(base);
            let harmless = match base {
                Expr::Name(name) => matches!(name.id.as_str(), "object" | "Exception"),
                _ => false,
            };
            match path.as_deref() {
                Some("typing.Generic" | "typing.Protocol" | "abc.ABC") => {}
                Some(path) if self.clients().leads_somewhere(path) => {
                    class.bases.push(self.summary.names.add(path));
                }
                _ if harmless => {}
                // An unknown base hides what lies behind it.
                _ => class.bases.push(self.summary.names.add(path::UNKNOWN)),
            }
        }
        let index = self.summary.classes.len() as u32;
        self.summary.classes.push(class);
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
}
