//! Walking what a function does itself: not its nested functions, classes and lambdas.

use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Comprehension, Expr, ExprCall, Stmt};

/// Statements and expressions in source order.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Node<'a> {
    Stmt(&'a Stmt),
    Expr(&'a Expr),
}

struct Own<F> {
    each: F,
}

impl<'a, F: FnMut(Node<'a>)> Visitor<'a> for Own<F> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        (self.each)(Node::Stmt(stmt));
        if !matches!(stmt, Stmt::FunctionDef(_) | Stmt::ClassDef(_)) {
            visitor::walk_stmt(self, stmt);
        }
    }

    fn visit_expr(&mut self, expr: &'a Expr) {
        (self.each)(Node::Expr(expr));
        if !matches!(expr, Expr::Lambda(_)) {
            visitor::walk_expr(self, expr);
        }
    }

    fn visit_comprehension(&mut self, comprehension: &'a Comprehension) {
        if comprehension.is_async {
            (self.each)(Node::Expr(&comprehension.iter));
        }
        visitor::walk_comprehension(self, comprehension);
    }

    fn visit_annotation(&mut self, _: &'a Expr) {}
}

/// Calls `each` for everything in these statements.
pub(crate) fn own<'a>(body: &'a [Stmt], each: impl FnMut(Node<'a>)) {
    let mut own = Own { each };
    for stmt in body {
        own.visit_stmt(stmt);
    }
}

/// The calls in these statements.
pub(crate) fn calls(body: &[Stmt]) -> Vec<&ExprCall> {
    let mut calls = Vec::new();
    own(body, |node| {
        if let Node::Expr(Expr::Call(call)) = node {
            calls.push(call);
        }
    });
    calls
}

/// Whether these statements give control back to the loop.
pub(crate) fn has_await(body: &[Stmt]) -> bool {
    let mut found = false;
    own(body, |node| {
        found |= match node {
            Node::Expr(Expr::Await(_) | Expr::Yield(_)) => true,
            Node::Expr(Expr::ListComp(comp)) => comp.generators.iter().any(|g| g.is_async),
            Node::Stmt(Stmt::For(stmt)) => stmt.is_async,
            Node::Stmt(Stmt::With(stmt)) => stmt.is_async,
            _ => false,
        };
    });
    found
}

/// Each list of statements in a body, nested blocks included, outermost first.
pub(crate) fn blocks<'a>(body: &'a [Stmt], each: &mut impl FnMut(&'a [Stmt])) {
    each(body);
    for stmt in body {
        match stmt {
            Stmt::If(stmt) => {
                blocks(&stmt.body, each);
                for clause in &stmt.elif_else_clauses {
                    blocks(&clause.body, each);
                }
            }
            Stmt::For(stmt) => {
                blocks(&stmt.body, each);
                blocks(&stmt.orelse, each);
            }
            Stmt::While(stmt) => {
                blocks(&stmt.body, each);
                blocks(&stmt.orelse, each);
            }
            Stmt::With(stmt) => blocks(&stmt.body, each),
            Stmt::Try(stmt) => {
                blocks(&stmt.body, each);
                for handler in &stmt.handlers {
                    let ruff_python_ast::ExceptHandler::ExceptHandler(handler) = handler;
                    blocks(&handler.body, each);
                }
                blocks(&stmt.orelse, each);
                blocks(&stmt.finalbody, each);
            }
            _ => {}
        }
    }
}

/// The name a call goes by: `c` of `a.b.c()`.
pub(crate) fn method(call: &ExprCall) -> &str {
    match &*call.func {
        Expr::Attribute(attribute) => attribute.attr.as_str(),
        Expr::Name(name) => name.id.as_str(),
        _ => "",
    }
}

/// The last name of what a method is called on: `b` of `a.b.c()`.
pub(crate) fn receiver(call: &ExprCall) -> &str {
    match &*call.func {
        Expr::Attribute(attribute) => last_name(&attribute.value),
        _ => "",
    }
}

/// The last name of an expression: `b` of `a.b`, of `a.b[0]` and of `a.b()`.
pub(crate) fn last_name(expr: &Expr) -> &str {
    match expr {
        Expr::Attribute(attribute) => attribute.attr.as_str(),
        Expr::Name(name) => name.id.as_str(),
        Expr::Subscript(subscript) => last_name(&subscript.value),
        Expr::Call(call) => last_name(&call.func),
        Expr::Await(inner) => last_name(&inner.value),
        Expr::Starred(starred) => last_name(&starred.value),
        _ => "",
    }
}

/// Whether a name has one of these words between its underscores.
pub(crate) fn has_word(name: &str, words: &[&str]) -> bool {
    name.split('_')
        .any(|word| words.iter().any(|known| word.eq_ignore_ascii_case(known)))
}

/// `while True`, `while 1`.
pub(crate) fn is_always_true(test: &Expr) -> bool {
    match test {
        Expr::BooleanLiteral(literal) => literal.value,
        Expr::NumberLiteral(literal) => {
            matches!(&literal.value, ruff_python_ast::Number::Int(int) if int.as_u8() != Some(0))
        }
        _ => false,
    }
}
