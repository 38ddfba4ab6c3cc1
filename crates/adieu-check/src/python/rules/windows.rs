//! `add_signal_handler` in code that also runs on Windows, where the loop does not have it.

use memchr::memmem;
use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{Expr, Stmt};

use super::super::extract::Reader;
use super::walk;
use crate::callgraph::FileSummary;
use crate::finding::{Finding, Place};
use crate::rule;

/// A file with one of these words looks where it runs, or catches the refusal.
const GUARDS: &[&str] = &[
    "NotImplementedError",
    "except Exception",
    "except:",
    "suppress(",
    "sys.platform",
    "os.name",
    "platform.system",
    "win32",
    "uvloop",
];

/// Notes the calls of a file, and whether the file has code for Windows.
pub(crate) fn note<'a>(reader: &mut Reader<'a, '_>, body: &'a [Stmt]) {
    let source = reader.source;
    let has = |word: &str| memmem::find(source.as_bytes(), word.as_bytes()).is_some();
    reader.summary.facts.is_for_windows = has("sys.platform") && has("win32")
        || has("os.name") && (has("\"nt\"") || has("'nt'"))
        || has("platform.system") && has("Windows")
        || has("WindowsSelectorEventLoopPolicy")
        || has("WindowsProactorEventLoopPolicy");
    if !has("add_signal_handler") || GUARDS.iter().any(|word| has(word)) {
        return;
    }
    let mut calls = Calls {
        reader,
        places: Vec::new(),
    };
    calls.visit_body(body);
    let places = calls.places;
    reader.summary.facts.unguarded_handlers = places;
}

struct Calls<'r, 'a, 'm> {
    reader: &'r Reader<'a, 'm>,
    places: Vec<Place>,
}

impl<'a> Visitor<'a> for Calls<'_, '_, '_> {
    fn visit_expr(&mut self, expr: &'a Expr) {
        if let Expr::Call(call) = expr
            && call.func.is_attribute_expr()
            && walk::method(call) == "add_signal_handler"
        {
            self.places.push(self.reader.place(call));
        }
        visitor::walk_expr(self, expr);
    }
}

/// The first such call of each file whose package has code for Windows elsewhere. Most services
/// never run there, and are not told.
pub(crate) fn findings(summaries: &[FileSummary]) -> Vec<Finding> {
    let callers = summaries
        .iter()
        .filter(|summary| !summary.facts.unguarded_handlers.is_empty());
    callers
        .filter_map(|summary| {
            let place = *summary.facts.unguarded_handlers.first()?;
            let other = summaries
                .iter()
                .find(|other| other.facts.is_for_windows && is_near(&summary.path, &other.path))?;
            let message = format!(
                "`add_signal_handler` raises NotImplementedError on Windows, for which `{}` has code of its own: catch it \
                 and use `signal.signal` there",
                other.path.rsplit('/').next().unwrap_or(&other.path)
            );
            Some(Finding::new(
                &summary.path,
                place,
                rule::HANDLER_ON_WINDOWS,
                message,
            ))
        })
        .collect()
}

/// Whether another file stands beside this one or below its directory: a part of the same program.
fn is_near(path: &str, other: &str) -> bool {
    match path.rsplit_once('/') {
        Some((folder, _)) => other
            .strip_prefix(folder)
            .is_some_and(|rest| rest.starts_with('/')),
        None => true,
    }
}
