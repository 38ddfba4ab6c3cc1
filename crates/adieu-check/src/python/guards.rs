//! Branches that are taken once, or hardly ever.

use ruff_python_ast::{CmpOp, Expr, Stmt, StmtIf, UnaryOp};

/// Words of a switch that is off in production.
const SWITCHES: &[&str] = &[
    "debug",
    "verbose",
    "dump",
    "profile",
    "profiling",
    "trace",
    "dry_run",
    "reload",
];

/// Whether a branch under this test makes what is not there yet, or is for a developer or a desktop: `x is None`,
/// `not self.x`, `key not in cache`, `DEBUG`.
pub(crate) fn is_rare(test: &Expr) -> bool {
    match test {
        Expr::Compare(compare) => match (&*compare.ops, &*compare.comparators) {
            ([CmpOp::Eq], [Expr::StringLiteral(system)]) => is_desktop(system.value.to_str()),
            ([CmpOp::Is], [Expr::NoneLiteral(_)]) => is_kept(&compare.left),
            ([CmpOp::NotIn], [container]) => is_kept(container),
            _ => false,
        },
        Expr::UnaryOp(unary) if unary.op == UnaryOp::Not => is_kept(&unary.operand),
        Expr::BoolOp(all) => all.values.iter().any(is_rare),
        Expr::Name(name) => is_switch(name.id.as_str()),
        Expr::Attribute(attribute) => is_switch(attribute.attr.as_str()),
        _ => false,
    }
}

/// Systems that services hardly ever run on.
fn is_desktop(system: &str) -> bool {
    matches!(system, "win32" | "nt" | "Windows" | "darwin" | "Darwin")
}

/// An attribute or a constant: what outlives the call.
fn is_kept(expr: &Expr) -> bool {
    match expr {
        Expr::Attribute(_) => true,
        Expr::Subscript(subscript) => is_kept(&subscript.value),
        Expr::Name(name) => {
            let name = name.id.as_str();
            name.starts_with('_')
                || name.contains("cache")
                || name.chars().all(|c| !c.is_ascii_lowercase())
        }
        Expr::Call(call) => match &*call.func {
            Expr::Name(name) => name.id.as_str() == "hasattr",
            Expr::Attribute(method) => {
                matches!(
                    method.attr.as_str(),
                    "exists" | "is_file" | "is_dir" | "isfile" | "isdir"
                )
            }
            _ => false,
        },
        _ => false,
    }
}

fn is_switch(name: &str) -> bool {
    let name = name.trim_start_matches('_').to_ascii_lowercase();
    SWITCHES.iter().any(|switch| {
        name == *switch
            || name.ends_with(&format!("_{switch}"))
            || name.starts_with(&format!("{switch}_"))
    })
}

/// `if self.client is not None: return self.client`
pub(crate) fn returns_what_is_there(stmt: &StmtIf) -> bool {
    let asks = match &*stmt.test {
        Expr::Compare(compare) => match (&*compare.ops, &*compare.comparators) {
            ([CmpOp::IsNot], [Expr::NoneLiteral(_)]) => is_kept(&compare.left),
            ([CmpOp::In], [container]) => is_kept(container),
            _ => false,
        },
        Expr::Attribute(_) => true,
        Expr::Name(_) => is_kept(&stmt.test),
        _ => false,
    };
    asks && stmt.elif_else_clauses.is_empty()
        && matches!(stmt.body.last(), Some(Stmt::Return(given))
            if matches!(given.value.as_deref(), Some(Expr::Attribute(_) | Expr::Name(_) | Expr::Subscript(_))))
}
