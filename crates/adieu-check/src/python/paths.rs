//! Expressions and annotations as paths.

use ruff_python_ast::{Expr, Operator};

use super::bindings::{Owner, Scope};
use super::canonical;
use super::imports::Position;
use super::models::libraries;
use crate::callgraph::{ModuleId, path};

/// Longer paths name nothing we know.
const LONGEST: usize = 200;

/// Everything needed to say what a name means at some point of a file.
pub(crate) struct Scopes<'a, 'm> {
    pub(crate) position: Position<'m>,
    pub(crate) module: ModuleId,
    pub(crate) has_star: bool,
    /// The module's own names; `None` for those only the linker can follow.
    pub(crate) top: rustc_hash::FxHashMap<&'a str, Option<Box<str>>>,
    pub(crate) stack: Vec<Scope<'a>>,
}

impl<'a> Scopes<'a, '_> {
    /// The class whose method is being read.
    pub(crate) fn class(&self) -> Option<u32> {
        self.stack.iter().rev().find_map(|scope| match scope.owner {
            Owner::Class(class) => Some(class),
            Owner::Function(_) => None,
        })
    }

    fn name_into(&self, name: &str, out: &mut String) -> bool {
        for (depth, scope) in self.stack.iter().rev().enumerate() {
            // A class body's names are seen from that body alone.
            if matches!(scope.owner, Owner::Class(_)) && depth > 0 {
                continue;
            }
            if let Some(bound) = scope.names.get(name) {
                return match bound {
                    Some(path) => {
                        out.push_str(path);
                        true
                    }
                    None => false,
                };
            }
        }
        match self.top.get(name) {
            Some(Some(path)) => out.push_str(path),
            Some(None) => self.own(name, out),
            // A star import hardly ever hides a builtin.
            None if libraries::is_builtin(name) => {
                out.push_str("builtins.");
                out.push_str(name);
            }
            None if self.has_star => self.own(name, out),
            // Bound nowhere: an excerpt without its imports, or a name that would not even run.
            None if self.position.clients.is_known_root(name) => out.push_str(name),
            None => return false,
        }
        true
    }

    /// Whether a path that begins with this name could lead into the project.
    fn may_be_own(&self, name: &str) -> bool {
        let is_own = |path: &Option<Box<str>>| match path {
            Some(path) => path::is_internal(path),
            None => false,
        };
        match self.stack.iter().rev().find_map(|it| it.names.get(name)) {
            Some(bound) => is_own(bound),
            None => match self.top.get(name) {
                Some(path) => path.is_none() || is_own(path),
                None => self.has_star,
            },
        }
    }

    /// Whether an expression has this path, without building it.
    pub(crate) fn is_own(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Name(name) => self.may_be_own(name.id.as_str()),
            Expr::Attribute(attribute) => self.is_own(&attribute.value),
            Expr::Call(call) => self.is_own(&call.func),
            Expr::Await(inner) => self.is_own(&inner.value),
            _ => false,
        }
    }

    fn own(&self, name: &str, out: &mut String) {
        use std::fmt::Write;
        // Writing to a string cannot fail.
        let _ = write!(out, "@{}.{name}", self.module);
    }

    /// Appends the path of an expression's value; false when it has none.
    pub(crate) fn path_into(&self, expr: &Expr, out: &mut String) -> bool {
        let fits = match expr {
            Expr::Name(name) => self.name_into(name.id.as_str(), out),
            Expr::Attribute(attribute) => {
                self.path_into(&attribute.value, out) && {
                    out.push('.');
                    out.push_str(attribute.attr.as_str());
                    true
                }
            }
            Expr::Call(call) => {
                if self.is_super(&call.func) && call.arguments.args.is_empty() {
                    use std::fmt::Write;
                    return self
                        .class()
                        .is_some_and(|class| write!(out, "@{}${class}~", self.module).is_ok());
                }
                let start = out.len();
                self.path_into(&call.func, out) && {
                    // Calling a partial calls what it was made from.
                    if out[start..] == *"functools.partial" {
                        out.truncate(start);
                        let inner = call.arguments.args.first();
                        return inner.is_some_and(|inner| self.path_into(inner, out));
                    }
                    out.push_str("()");
                    true
                }
            }
            Expr::Await(inner) => {
                self.path_into(&inner.value, out) && {
                    out.push('!');
                    true
                }
            }
            Expr::BinOp(binary) if binary.op == Operator::Div => {
                self.path_into(&binary.left, out) && {
                    out.push_str(".__truediv__()");
                    true
                }
            }
            Expr::If(choice) => {
                let start = out.len();
                match (&*choice.body, &*choice.orelse) {
                    (Expr::NoneLiteral(_), other) | (other, Expr::NoneLiteral(_)) => {
                        self.path_into(other, out)
                    }
                    (one, other) => {
                        let mut second = String::new();
                        self.path_into(one, out)
                            && self.path_into(other, &mut second)
                            && out[start..] == *second
                    }
                }
            }
            Expr::Named(named) => self.path_into(&named.value, out),
            _ => false,
        };
        fits && out.len() < LONGEST
    }

    fn is_super(&self, func: &Expr) -> bool {
        matches!(func, Expr::Name(name) if name.id.as_str() == "super")
    }

    /// The path of an expression's value.
    pub(crate) fn path(&self, expr: &Expr) -> Option<String> {
        let mut out = String::new();
        self.path_into(expr, &mut out).then_some(out)
    }

    /// The path of a value by its canonical name, to compare and to keep.
    pub(crate) fn value(&self, expr: &Expr) -> Option<String> {
        let path = self.path(expr)?;
        if path::is_internal(&path) {
            Some(path)
        } else {
            canonical::canonicalize(&path)
        }
    }

    /// The class an annotation names, through `Optional`, `| None`, `Annotated` and quotes.
    pub(crate) fn annotation(&self, expr: &Expr) -> Option<String> {
        match expr {
            Expr::Name(_) | Expr::Attribute(_) => self
                .path(expr)
                .filter(|path| !path.starts_with("builtins.")),
            Expr::StringLiteral(text) => {
                let text = text.value.to_str();
                let bare = text.trim().trim_end_matches("| None").trim();
                let mut segments = bare.split('.');
                let mut path = String::new();
                let plain = bare
                    .chars()
                    .all(|c| c.is_alphanumeric() || c == '_' || c == '.');
                if !plain || !self.name_into(segments.next()?, &mut path) {
                    return None;
                }
                for segment in segments {
                    path.push('.');
                    path.push_str(segment);
                }
                Some(path)
            }
            Expr::BinOp(binary) if binary.op == Operator::BitOr => {
                match (&*binary.left, &*binary.right) {
                    (Expr::NoneLiteral(_), other) | (other, Expr::NoneLiteral(_)) => {
                        self.annotation(other)
                    }
                    _ => None,
                }
            }
            Expr::Subscript(subscript) => {
                let base = self.path(&subscript.value)?;
                match base.rsplit('.').next() {
                    Some("Optional" | "Final" | "ClassVar") => self.annotation(&subscript.slice),
                    Some("Annotated") => match &*subscript.slice {
                        Expr::Tuple(tuple) => {
                            tuple.elts.first().and_then(|first| self.annotation(first))
                        }
                        _ => None,
                    },
                    _ if base.starts_with("typing.") || base.starts_with("builtins.") => None,
                    _ => Some(base),
                }
            }
            _ => None,
        }
    }

    /// `Database = Annotated[Session, Depends(database)]`: another name of the class.
    pub(crate) fn alias(&self, value: &Expr) -> Option<String> {
        let Expr::Subscript(subscript) = value else {
            return None;
        };
        let base = self.path(&subscript.value)?;
        matches!(&*base, "typing.Annotated" | "typing_extensions.Annotated")
            .then(|| self.annotation(value))
            .flatten()
    }

    /// An assignment inside an expression makes its name the function's own, from here on.
    pub(crate) fn make_local(&mut self, name: &'a str) {
        let function = self.stack.iter_mut().rev();
        let mut function =
            function.skip_while(|scope| matches!(scope.owner, Owner::Function(None)));
        if let Some(scope) = function.next()
            && matches!(scope.owner, Owner::Function(_))
        {
            scope.names.entry(name).or_insert(None);
        }
    }

    /// Gives a name a value. Straight-line code replaces it; a branch that disagrees leaves the
    /// name unknown, because nothing here follows branches.
    pub(crate) fn bind(&mut self, name: &'a str, value: Option<String>, in_branch: bool) -> bool {
        let Some(scope) = self.stack.last_mut() else {
            return false;
        };
        let value = value.map(String::into_boxed_str);
        match scope.names.get_mut(name) {
            Some(bound) => {
                let disagrees = in_branch && bound.is_some() && *bound != value;
                *bound = if disagrees { None } else { value };
                true
            }
            None => false,
        }
    }
}
