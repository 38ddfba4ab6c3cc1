//! The grace that the code of an adieu service gives itself, for the deployment rules.

use rustc_hash::FxHashMap;
use syn::{Expr, ExprLit, ExprMethodCall, Item, Lit};

use super::items;
use super::paths::Scopes;
use crate::callgraph::CodeGrace;

/// `.grace(Duration::from_secs(25))` on a service of adieu.
pub(crate) fn of_call(
    call: &ExprMethodCall,
    receiver: &str,
    scopes: &Scopes<'_>,
    constants: &FxHashMap<String, u64>,
) -> Option<CodeGrace> {
    let is_service = receiver
        .strip_prefix("adieu.service()")
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    if call.method != "grace" || !is_service {
        return None;
    }
    let [value] = call.args.iter().collect::<Vec<_>>()[..] else {
        return None;
    };
    let constant = match value {
        Expr::Path(path) => path
            .path
            .get_ident()
            .and_then(|name| constants.get(&name.to_string()).copied()),
        _ => None,
    };
    Some(CodeGrace {
        seconds: constant.or_else(|| duration(value, |function| scopes.path(function))),
        place: items::place(call.method.span()),
        server: "the service",
        setting: "grace",
    })
}

/// Constants of a file that are durations, by name; none for a name that stands there twice.
pub(crate) fn constants(items: &[Item]) -> FxHashMap<String, u64> {
    let mut found: FxHashMap<String, Option<u64>> = FxHashMap::default();
    for item in items {
        if let Item::Const(item) = item
            && let Some(seconds) = duration(&item.expr, last_two)
        {
            found
                .entry(item.ident.to_string())
                .and_modify(|held| *held = None)
                .or_insert(Some(seconds));
        }
    }
    found
        .into_iter()
        .filter_map(|(name, seconds)| Some((name, seconds?)))
        .collect()
}

/// `Duration::from_secs` by its name alone: enough for the value of a constant.
fn last_two(function: &Expr) -> Option<String> {
    let Expr::Path(path) = function else {
        return None;
    };
    let mut names = path.path.segments.iter().rev().map(|s| s.ident.to_string());
    let (last, owner) = (names.next()?, names.next()?);
    (owner == "Duration").then(|| format!("std.time.Duration.{last}"))
}

/// Whole seconds, rounded up, of a duration made from a plain number.
fn duration(expr: &Expr, path: impl Fn(&Expr) -> Option<String>) -> Option<u64> {
    let Expr::Call(call) = expr else { return None };
    let path = path(&call.func)?;
    let make = path
        .strip_prefix("std.time.Duration")
        .or_else(|| path.strip_prefix("tokio.time.Duration"))?;
    let Some(Expr::Lit(ExprLit { lit, .. })) = call.args.first() else {
        return None;
    };
    let whole = match lit {
        Lit::Int(int) => int.base10_parse::<u64>().ok(),
        _ => None,
    };
    match make {
        ".from_secs" | ".new" | "()" => whole,
        ".from_mins" => whole?.checked_mul(60),
        ".from_hours" => whole?.checked_mul(3_600),
        ".from_millis" => Some(whole?.div_ceil(1_000)),
        ".from_secs_f64" | ".from_secs_f32" => match lit {
            Lit::Float(float) => {
                let seconds = float.base10_parse::<f64>().ok()?;
                (seconds >= 0.0).then(|| seconds.ceil() as u64)
            }
            _ => None,
        },
        _ => None,
    }
}
