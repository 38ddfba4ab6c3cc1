//! Guards of std locks, and how long they live.

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Block, Expr, ExprMacro, Local, Macro, Pat, Stmt};

use super::bodies::Ways;

/// The locks whose guard is bound in this block and still there at a later await of it.
pub(crate) fn across_await(block: &Block) -> Vec<(&Expr, Span)> {
    let mut found = Vec::new();
    for (index, stmt) in block.stmts.iter().enumerate() {
        let Stmt::Local(Local {
            pat,
            init: Some(init),
            ..
        }) = stmt
        else {
            continue;
        };
        let (Some(lock), Some(name)) = (guarded(&init.expr), bound(pat)) else {
            continue;
        };
        let mut life = Life { name, end: None };
        for later in &block.stmts[index + 1..] {
            life.visit_stmt(later);
        }
        if life.end == Some(End::Awaits) {
            found.push((lock, init.expr.span()));
        }
    }
    found
}

/// The locks that are taken somewhere in an expression, as a temporary.
pub(crate) fn in_expression(expr: &Expr) -> Vec<(&Expr, Span)> {
    let mut found = Locks(Vec::new());
    found.visit_expr(expr);
    found.0
}

/// `guard` of `guard`, `mut guard`, `Ok(guard)` and `guard: MutexGuard<..>`.
fn bound(pat: &Pat) -> Option<String> {
    match pat {
        Pat::Ident(ident) => Some(ident.ident.to_string()),
        Pat::Type(typed) => bound(&typed.pat),
        Pat::TupleStruct(wrapped) => match wrapped.elems.first() {
            Some(inner) if wrapped.elems.len() == 1 => bound(inner),
            _ => None,
        },
        _ => None,
    }
}

/// The mutex of `mutex.lock().unwrap()` and similar ones.
fn guarded(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::MethodCall(call) => match call.method.to_string().as_str() {
            "lock" | "read" | "write" if call.args.is_empty() => Some(&call.receiver),
            "unwrap" | "expect" | "unwrap_or_else" => guarded(&call.receiver),
            _ => None,
        },
        Expr::Try(inner) => guarded(&inner.expr),
        Expr::Paren(inner) => guarded(&inner.expr),
        _ => None,
    }
}

/// What happens first to a guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Awaits,
    /// Dropped, or given to someone else.
    Gone,
}

/// Follows one guard in source order.
struct Life {
    name: String,
    end: Option<End>,
}

impl Life {
    fn meets(&mut self, end: End) {
        self.end.get_or_insert(end);
    }

    fn is_guard(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::Path(path) if path.path.is_ident(&self.name))
    }
}

impl<'ast> Visit<'ast> for Life {
    fn visit_expr(&mut self, expr: &'ast Expr) {
        if self.end.is_some() {
            return;
        }
        match expr {
            Expr::Call(call) if call.args.iter().any(|argument| self.is_guard(argument)) => {
                self.meets(End::Gone);
            }
            // `condvar.wait(guard)` takes it and gives another one back.
            Expr::MethodCall(call) if call.args.iter().any(|a| self.is_guard(a)) => {
                self.meets(End::Gone);
            }
            Expr::Await(inner) => {
                self.visit_expr(&inner.base);
                self.meets(End::Awaits);
            }
            Expr::Closure(_) | Expr::Async(_) => {}
            Expr::Macro(ExprMacro { mac, .. }) => self.visit_macro(mac),
            _ => visit::visit_expr(self, expr),
        }
    }

    fn visit_macro(&mut self, mac: &'ast Macro) {
        let mut ways = Ways::default();
        ways.visit_macro(mac);
        if ways.awaits {
            self.meets(End::Awaits);
        }
    }

    fn visit_item(&mut self, _: &'ast syn::Item) {}
}

/// Collects locks taken in an expression, but not those of blocks that end inside of it.
struct Locks<'ast>(Vec<(&'ast Expr, Span)>);

impl<'ast> Visit<'ast> for Locks<'ast> {
    fn visit_expr(&mut self, expr: &'ast Expr) {
        match expr {
            Expr::Closure(_) | Expr::Async(_) | Expr::Block(_) | Expr::Unsafe(_) => {}
            Expr::MethodCall(_) => match guarded(expr) {
                Some(lock) => self.0.push((lock, expr.span())),
                None => visit::visit_expr(self, expr),
            },
            _ => visit::visit_expr(self, expr),
        }
    }
}
