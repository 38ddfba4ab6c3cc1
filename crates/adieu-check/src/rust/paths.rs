//! Names, types and expressions as paths.

use rustc_hash::{FxHashMap, FxHashSet};
use syn::{Expr, Member, Pat, Type};

use super::crates::{Crates, Position};
use super::models;
use crate::callgraph::path::is_internal;

/// Wrappers that behave like what they wrap.
const TRANSPARENT_TYPES: &[&str] = &["Box", "Arc", "Rc", "Pin", "MutexGuard", "RefMut", "Ref"];

/// One module of a file: the file itself or an inline one.
#[derive(Debug, Default)]
pub(crate) struct ModuleScope {
    /// `@7`, or `@7$2` for an inline module.
    pub(crate) prefix: String,
    pub(crate) uses: FxHashMap<String, String>,
    pub(crate) items: FxHashSet<String>,
    pub(crate) is_test: bool,
    /// A module whose names it all takes in: `use super::*`.
    pub(crate) takes_in: Option<String>,
}

/// All names in sight.
pub(crate) struct Scopes<'c> {
    pub(crate) crates: &'c Crates,
    pub(crate) position: Position,
    pub(crate) modules: Vec<ModuleScope>,
    /// `Self`, inside an impl.
    pub(crate) self_type: Option<String>,
    /// Local names, innermost block last.
    pub(crate) locals: Vec<FxHashMap<String, Option<String>>>,
}

/// Whether a name is that of a crate or a primitive, whatever a glob brings.
fn is_outside(name: &str) -> bool {
    models::is_known_root(name)
        || matches!(
            name,
            "core"
                | "alloc"
                | "axum"
                | "tonic"
                | "warp"
                | "hyper"
                | "adieu"
                | "actix_web"
                | "Some"
                | "None"
                | "Ok"
                | "Err"
                | "String"
                | "Vec"
                | "Box"
                | "Arc"
                | "Rc"
                | "Option"
                | "Result"
                | "str"
                | "bool"
                | "u8"
                | "u16"
                | "u32"
                | "u64"
                | "usize"
                | "i32"
                | "i64"
                | "f32"
                | "f64"
        )
}

impl Scopes<'_> {
    /// The path of `a::b::c`.
    pub(crate) fn resolve<'s>(
        &self,
        segments: impl IntoIterator<Item = &'s str>,
    ) -> Option<String> {
        let mut segments = segments.into_iter().peekable();
        let first = segments.next()?;
        let scope = self.modules.last()?;
        let mut path = match first {
            "crate" => format!("@{}", self.position.root),
            "self" => scope.prefix.clone(),
            "super" if self.modules.len() > 1 => {
                self.modules[self.modules.len() - 2].prefix.clone()
            }
            "super" => format!("@{}", self.position.parent?),
            "Self" => self.self_type.clone()?,
            _ => match scope.uses.get(first) {
                Some(path) => path.clone(),
                None if scope.items.contains(first) => format!("{}.{first}", scope.prefix),
                None => match self.crates.real_name(self.position, first) {
                    first if self.crates.root(first).is_some() => {
                        format!("@{}", self.crates.root(first)?)
                    }
                    // Perhaps one of the names that a glob brings. A crate that is known goes before.
                    first if scope.takes_in.is_some() && !is_outside(first) => {
                        match scope.takes_in.as_deref() {
                            // The file itself asks all modules that it takes in.
                            Some(_) if self.modules.len() == 1 => {
                                format!("{}.{first}", scope.prefix)
                            }
                            Some(module) => format!("{module}.{first}"),
                            None => return None,
                        }
                    }
                    _ if segments.peek().is_none() => return None,
                    "core" | "alloc" => "std".to_owned(),
                    first => first.to_owned(),
                },
            },
        };
        for segment in segments {
            path.push('.');
            path.push_str(segment);
        }
        Some(path)
    }

    pub(crate) fn syn_path(&self, path: &syn::Path) -> Option<String> {
        let names: Vec<String> = path
            .segments
            .iter()
            .map(|segment| segment.ident.to_string())
            .collect();
        self.resolve(names.iter().map(String::as_str))
    }

    /// The path of a written type, through references and smart pointers.
    pub(crate) fn type_path(&self, ty: &Type) -> Option<String> {
        match ty {
            Type::Reference(reference) => self.type_path(&reference.elem),
            Type::Paren(paren) => self.type_path(&paren.elem),
            Type::Group(group) => self.type_path(&group.elem),
            Type::Path(path) if path.qself.is_none() => {
                let last = path.path.segments.last()?;
                let name = last.ident.to_string();
                if TRANSPARENT_TYPES.contains(&name.as_str())
                    || matches!(name.as_str(), "Result" | "Option")
                {
                    // `Result` and `Option` too: `?`, `unwrap` and `if let` are looked through.
                    let syn::PathArguments::AngleBracketed(arguments) = &last.arguments else {
                        return None;
                    };
                    return arguments.args.iter().find_map(|argument| match argument {
                        syn::GenericArgument::Type(inner) => self.type_path(inner),
                        _ => None,
                    });
                }
                self.syn_path(&path.path)
            }
            _ => None,
        }
    }

    /// The path of an expression's value.
    pub(crate) fn path(&self, expr: &Expr) -> Option<String> {
        let path = self.raw_path(expr)?;
        if is_internal(&path) {
            Some(path)
        } else {
            models::canonicalize(&path)
        }
    }

    fn raw_path(&self, expr: &Expr) -> Option<String> {
        match expr {
            Expr::Path(path) if path.qself.is_none() => {
                if let Some(name) = path.path.get_ident() {
                    let name = name.to_string();
                    for block in self.locals.iter().rev() {
                        if let Some(value) = block.get(&name) {
                            return value.clone();
                        }
                    }
                    if name == "self" {
                        return self.self_type.as_ref().map(|path| format!("{path}()"));
                    }
                }
                self.syn_path(&path.path)
            }
            Expr::Call(call) => {
                let callee = self.path(&call.func)?;
                let wraps = matches!(
                    callee.as_str(),
                    "std.sync.Arc.new"
                        | "std.sync.Arc.clone"
                        | "std.rc.Rc.new"
                        | "std.rc.Rc.clone"
                        | "std.boxed.Box.new"
                        | "std.io.BufReader.new"
                        | "std.io.BufReader.with_capacity"
                        | "std.io.BufWriter.new"
                );
                if wraps {
                    // The capacity of a buffer comes first.
                    return call.args.last().and_then(|inner| self.path(inner));
                }
                Some(format!("{callee}()"))
            }
            Expr::MethodCall(call) => {
                Some(format!("{}.{}()", self.path(&call.receiver)?, call.method))
            }
            Expr::Field(field) => {
                let base = self.path(&field.base)?;
                match &field.member {
                    Member::Named(name) => Some(format!("{base}.{name}")),
                    Member::Unnamed(index) => Some(format!("{base}.{}", index.index)),
                }
            }
            Expr::Await(inner) => Some(format!("{}!", self.path(&inner.base)?)),
            Expr::Reference(inner) => self.path(&inner.expr),
            Expr::Paren(inner) => self.path(&inner.expr),
            Expr::Group(inner) => self.path(&inner.expr),
            Expr::Try(inner) => self.path(&inner.expr),
            Expr::Unary(inner) if matches!(inner.op, syn::UnOp::Deref(_)) => self.path(&inner.expr),
            Expr::Struct(literal) => Some(format!("{}()", self.syn_path(&literal.path)?)),
            _ => None,
        }
    }

    /// Binds the names of a pattern to a value and its parts.
    pub(crate) fn bind(&mut self, pattern: &Pat, value: Option<String>) {
        match pattern {
            Pat::Ident(ident) => {
                if let Some(block) = self.locals.last_mut() {
                    block.insert(ident.ident.to_string(), value);
                }
            }
            Pat::Type(typed) => {
                let written = self.type_path(&typed.ty).map(|path| format!("{path}()"));
                self.bind(&typed.pat, written.or(value));
            }
            Pat::Tuple(tuple) => {
                for (index, element) in tuple.elems.iter().enumerate() {
                    let part = value.as_ref().and_then(|value| {
                        let path = format!("{value}.{index}");
                        if is_internal(&path) {
                            Some(path)
                        } else {
                            models::canonicalize(&path)
                        }
                    });
                    self.bind(element, part);
                }
            }
            Pat::Reference(reference) => self.bind(&reference.pat, value),
            Pat::Paren(paren) => self.bind(&paren.pat, value),
            // `Some(x)`, `Ok(x)`: the value itself, as with `?`.
            Pat::TupleStruct(wrapped) => {
                let looks_through = wrapped
                    .path
                    .segments
                    .last()
                    .is_some_and(|last| last.ident == "Some" || last.ident == "Ok");
                for element in &wrapped.elems {
                    self.bind(element, if looks_through { value.clone() } else { None });
                }
            }
            Pat::Struct(fields) => fields
                .fields
                .iter()
                .for_each(|field| self.bind(&field.pat, None)),
            Pat::Or(or) => or.cases.iter().for_each(|case| self.bind(case, None)),
            Pat::Slice(slice) => slice
                .elems
                .iter()
                .for_each(|element| self.bind(element, None)),
            _ => {}
        }
    }
}
