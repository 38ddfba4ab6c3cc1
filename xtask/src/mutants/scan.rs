//! Finds what can be changed in a source file.

use std::collections::BTreeSet;
use std::ops::Range;

use proc_macro2::Span;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    Arm, Attribute, BinOp, Block, Expr, ExprIf, ExprWhile, FieldValue, ImplItemFn, Item, ItemFn,
    ItemImpl, ItemMod, Local, Pat, Signature, Stmt, TraitItemFn, UnOp,
};

use super::cfgs::is_shipped;
use super::returns;
use super::site::{Change, Form, Site};

/// The longest original text that is kept; the number tells longer ones apart.
const LONGEST: usize = 100;

/// Every site of the file. A `const fn` becomes a plain one, unless its name is among those a constant needs.
pub(super) fn scan(source: &str, keep_const: &BTreeSet<String>) -> syn::Result<Vec<Site>> {
    let file = syn::parse_file(source)?;
    let mut scanner = Scanner {
        source,
        keep_const,
        sites: Vec::new(),
        of: Vec::new(),
        function: String::new(),
        in_const: None,
    };
    scanner.visit_file(&file);
    Ok(scanner.sites)
}

struct Scanner<'a> {
    source: &'a str,
    keep_const: &'a BTreeSet<String>,
    sites: Vec<Site>,
    /// The type that the functions belong to.
    of: Vec<String>,
    function: String,
    in_const: Option<String>,
}

impl Scanner<'_> {
    fn text(&self, span: Span) -> &str {
        &self.source[span.byte_range()]
    }

    fn add(&mut self, span: Span, form: Form, changes: Vec<Change>) {
        let text = one_line(self.text(span));
        self.add_at(span.byte_range(), span, form, text, changes);
    }

    fn add_at(
        &mut self,
        range: Range<usize>,
        span: Span,
        form: Form,
        text: String,
        changes: Vec<Change>,
    ) {
        self.sites.push(Site {
            range,
            form,
            changes,
            function: self.function.clone(),
            text,
            line: span.start().line,
            in_const: self.in_const.clone(),
        });
    }

    /// A function with its body, in which `name` stands for it.
    fn enter(&mut self, attributes: &[Attribute], signature: &Signature, body: &Block) {
        if !is_shipped(attributes) {
            return;
        }
        let name = signature.ident.to_string();
        let is_const = signature.constness.is_some();
        if is_const && self.keep_const.contains(&name) {
            return;
        }
        let path = self.of.iter().cloned().chain([name.clone()]);
        let function = path.collect::<Vec<_>>().join("::");
        let outer = std::mem::replace(&mut self.function, function);
        let outer_const = self.in_const.take();
        if let Some(token) = &signature.constness {
            self.in_const = Some(name);
            self.add(token.span, Form::Blank, Vec::new());
        }
        let before = self.sites.len();
        let is_unit = returns::is_unit(&signature.output);
        if !body.stmts.is_empty() {
            let at = body.span().byte_range().start + 1;
            for (operator, code) in returns::values(&signature.output) {
                let text = format!("fn {}", signature.ident);
                self.add_at(
                    at..at,
                    signature.ident.span(),
                    Form::Entry,
                    text,
                    vec![Change::new(format!("return {operator}"), code)],
                );
            }
        }
        if is_unit {
            self.ends_in_unit(body);
        }
        self.visit_block(body);
        if is_const && self.sites.len() == before {
            self.sites.pop();
        }
        self.function = outer;
        self.in_const = outer_const;
    }

    /// A block whose last expression has no value.
    fn ends_in_unit(&mut self, block: &Block) {
        if let Some(Stmt::Expr(last, None)) = block.stmts.last() {
            self.has_no_value(last);
        }
    }

    fn has_no_value(&mut self, expr: &Expr) {
        if !attributes(expr).is_empty() {
            return;
        }
        match expr {
            Expr::Match(it) => {
                for arm in it.arms.iter().filter(|arm| is_shipped(&arm.attrs)) {
                    self.has_no_value(&arm.body);
                }
            }
            Expr::If(it) => {
                self.ends_in_unit(&it.then_branch);
                if let Some((_, other)) = &it.else_branch {
                    self.has_no_value(other);
                }
            }
            Expr::Block(it) => self.ends_in_unit(&it.block),
            _ if is_act(expr) => self.leave_out(expr.span()),
            _ => {}
        }
    }

    fn leave_out(&mut self, span: Span) {
        self.add(span, Form::Statement, vec![Change::new("left out", "")]);
    }

    /// A condition becomes true and false, unless it binds something; then what it asks besides does.
    fn condition(&mut self, cond: &Expr, values: &[&str]) {
        if let Expr::Let(_) = cond {
            return;
        }
        if binds(cond) {
            if let Expr::Binary(both) = cond {
                self.condition(&both.left, values);
                self.condition(&both.right, values);
            }
            return;
        }
        let changes = values
            .iter()
            .map(|value| Change::new(format!("condition to {value}"), *value))
            .collect();
        self.add(cond.span(), Form::Expression, changes);
    }

    fn binary(&mut self, expr: &Expr, left: &Expr, op: &BinOp, right: &Expr) {
        if binds(expr) {
            return;
        }
        let from = one_line(self.text(op.span()));
        let (left, right) = (self.text(left.span()), self.text(right.span()));
        let changes = others(op)
            .iter()
            .map(|to| {
                // An assignment has a place on its left, which parentheses would not change but the compiler warns of.
                let code = format!("({left}) {to} ({right})");
                Change::new(format!("{from} to {to}"), code)
            })
            .collect::<Vec<_>>();
        if !changes.is_empty() {
            self.add(expr.span(), Form::Expression, changes);
        }
    }
}

impl<'ast> Visit<'ast> for Scanner<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        // Constants are computed by the compiler, and what a macro makes of its words is not known here.
        if !matches!(item, Item::Const(_) | Item::Static(_) | Item::Macro(_)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if is_shipped(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        let is_debug = item.trait_.as_ref().is_some_and(|(_, path, _)| {
            path.segments
                .last()
                .is_some_and(|last| last.ident == "Debug")
        });
        if is_debug || !is_shipped(&item.attrs) {
            return;
        }
        let name = match &*item.self_ty {
            syn::Type::Path(path) => path
                .path
                .segments
                .last()
                .map(|last| last.ident.to_string())
                .unwrap_or_default(),
            other => one_line(self.text(other.span())),
        };
        self.of.push(name);
        visit::visit_item_impl(self, item);
        self.of.pop();
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.enter(&item.attrs, &item.sig, &item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.enter(&item.attrs, &item.sig, &item.block);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        if let Some(body) = &item.default {
            self.enter(&item.attrs, &item.sig, body);
        }
    }

    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}
    fn visit_variant(&mut self, _: &'ast syn::Variant) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
    fn visit_macro(&mut self, _: &'ast syn::Macro) {}
    fn visit_pat(&mut self, _: &'ast Pat) {}

    fn visit_expr_repeat(&mut self, it: &'ast syn::ExprRepeat) {
        self.visit_expr(&it.expr);
    }

    fn visit_local(&mut self, it: &'ast Local) {
        if is_shipped(&it.attrs) {
            visit::visit_local(self, it);
        }
    }

    fn visit_field_value(&mut self, it: &'ast FieldValue) {
        if is_shipped(&it.attrs) {
            visit::visit_field_value(self, it);
        }
    }

    fn visit_arm(&mut self, arm: &'ast Arm) {
        if !is_shipped(&arm.attrs) {
            return;
        }
        if let Some((_, guard)) = &arm.guard {
            self.condition(guard, &["true", "false"]);
            self.visit_expr(guard);
        }
        self.visit_expr(&arm.body);
    }

    fn visit_block(&mut self, block: &'ast Block) {
        for (index, stmt) in block.stmts.iter().enumerate() {
            let is_last = index + 1 == block.stmts.len();
            match stmt {
                Stmt::Expr(expr, Some(_)) if attributes(expr).is_empty() && is_act(expr) => {
                    self.leave_out(stmt.span());
                }
                Stmt::Local(it) if it.attrs.is_empty() && matches!(it.pat, Pat::Wild(_)) => {
                    self.leave_out(stmt.span());
                }
                Stmt::Expr(expr, None) if !is_last => self.has_no_value(expr),
                _ => {}
            }
            self.visit_stmt(stmt);
        }
    }

    fn visit_expr_if(&mut self, it: &'ast ExprIf) {
        self.condition(&it.cond, &["true", "false"]);
        visit::visit_expr_if(self, it);
    }

    fn visit_expr_while(&mut self, it: &'ast ExprWhile) {
        // True would be a loop without an end.
        self.condition(&it.cond, &["false"]);
        self.ends_in_unit(&it.body);
        visit::visit_expr_while(self, it);
    }

    fn visit_expr_for_loop(&mut self, it: &'ast syn::ExprForLoop) {
        self.ends_in_unit(&it.body);
        visit::visit_expr_for_loop(self, it);
    }

    fn visit_expr_loop(&mut self, it: &'ast syn::ExprLoop) {
        self.ends_in_unit(&it.body);
        visit::visit_expr_loop(self, it);
    }

    fn visit_expr(&mut self, expr: &'ast Expr) {
        if !is_shipped(attributes(expr)) {
            return;
        }
        match expr {
            Expr::Binary(it) => self.binary(expr, &it.left, &it.op, &it.right),
            Expr::Unary(it) if matches!(it.op, UnOp::Not(_)) => {
                let without = self.text(it.expr.span()).to_owned();
                self.add(
                    expr.span(),
                    Form::Expression,
                    vec![Change::new("! left out", without)],
                );
            }
            Expr::Macro(it) if it.mac.path.is_ident("matches") => {
                let not = format!("!{}", self.text(expr.span()));
                self.add(
                    expr.span(),
                    Form::Expression,
                    vec![Change::new("matches! to !matches!", not)],
                );
            }
            Expr::MethodCall(it) => {
                let name = it.method.to_string();
                if let Some(other) = opposite(&name, it.args.len()) {
                    let whole = expr.span().byte_range();
                    let method = it.method.span().byte_range();
                    let (before, after) = (
                        &self.source[whole.start..method.start],
                        &self.source[method.end..whole.end],
                    );
                    let (sign, word) = match other.strip_prefix('!') {
                        Some(word) => ("!", word),
                        None => ("", other),
                    };
                    let code = format!("{sign}{before}{word}{after}");
                    self.add(
                        expr.span(),
                        Form::Expression,
                        vec![Change::new(format!("{name} to {other}"), code)],
                    );
                }
            }
            _ => {}
        }
        visit::visit_expr(self, expr);
    }
}

/// A call or an assignment, made for what it does.
fn is_act(expr: &Expr) -> bool {
    match expr {
        Expr::MethodCall(_) | Expr::Call(_) | Expr::Assign(_) => true,
        Expr::Await(it) => is_act(&it.base),
        Expr::Try(it) => is_act(&it.expr),
        _ => false,
    }
}

/// Whether a `let` is in the chain of conditions.
fn binds(cond: &Expr) -> bool {
    match cond {
        Expr::Let(_) => true,
        Expr::Binary(it) if matches!(it.op, BinOp::And(_)) => binds(&it.left) || binds(&it.right),
        _ => false,
    }
}

fn others(op: &BinOp) -> &'static [&'static str] {
    match op {
        BinOp::Eq(_) => &["!="],
        BinOp::Ne(_) => &["=="],
        BinOp::Lt(_) => &["<=", ">="],
        BinOp::Le(_) => &["<", ">"],
        BinOp::Gt(_) => &[">=", "<="],
        BinOp::Ge(_) => &[">", "<"],
        BinOp::And(_) => &["||"],
        BinOp::Or(_) => &["&&"],
        BinOp::Add(_) => &["-"],
        BinOp::Sub(_) => &["+"],
        BinOp::Mul(_) => &["/"],
        BinOp::Div(_) => &["*"],
        BinOp::BitAnd(_) => &["|"],
        BinOp::BitOr(_) => &["&"],
        BinOp::Shl(_) => &[">>"],
        BinOp::Shr(_) => &["<<"],
        BinOp::AddAssign(_) => &["-="],
        BinOp::SubAssign(_) => &["+="],
        BinOp::BitAndAssign(_) => &["|="],
        BinOp::BitOrAssign(_) => &["&="],
        _ => &[],
    }
}

/// The method that means the contrary; with `!` in front, the same method denied.
fn opposite(method: &str, arguments: usize) -> Option<&'static str> {
    Some(match (method, arguments) {
        ("min", 1) => "max",
        ("max", 1) => "min",
        ("any", 1) => "all",
        ("all", 1) => "any",
        ("saturating_sub", 1) => "saturating_add",
        ("saturating_add", 1) => "saturating_sub",
        ("is_some", 0) => "is_none",
        ("is_none", 0) => "is_some",
        ("is_ok", 0) => "is_err",
        ("is_err", 0) => "is_ok",
        ("is_empty", 0) => "!is_empty",
        ("is_zero", 0) => "!is_zero",
        _ => return None,
    })
}

fn attributes(expr: &Expr) -> &[Attribute] {
    match expr {
        Expr::If(it) => &it.attrs,
        Expr::Match(it) => &it.attrs,
        Expr::Block(it) => &it.attrs,
        Expr::MethodCall(it) => &it.attrs,
        Expr::Call(it) => &it.attrs,
        Expr::Assign(it) => &it.attrs,
        Expr::Await(it) => &it.attrs,
        Expr::Try(it) => &it.attrs,
        Expr::Return(it) => &it.attrs,
        Expr::Macro(it) => &it.attrs,
        Expr::ForLoop(it) => &it.attrs,
        Expr::While(it) => &it.attrs,
        Expr::Loop(it) => &it.attrs,
        _ => &[],
    }
}

/// The text with every run of blanks as one, and no longer than it need be.
fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(LONGEST).collect()
}
