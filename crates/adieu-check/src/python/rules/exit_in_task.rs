//! Ending the process from inside a task.

use ruff_python_ast::{Expr, Stmt, StmtFunctionDef, StmtRaise};
use ruff_text_size::Ranged;

use super::super::extract::Reader;
use super::walk::{self, Node};
use crate::rule;

pub(crate) fn check<'a>(reader: &mut Reader<'a, '_>, def: &'a StmtFunctionDef) {
    let name = def.name.as_str();
    // A program's main may choose its exit code, and a decorated function is some tool's command.
    if name.contains("main") || !def.decorator_list.is_empty() {
        return;
    }
    for call in walk::calls(&def.body) {
        if !matches!(walk::method(call), "exit" | "_exit" | "quit" | "abort") {
            continue;
        }
        let Some(path) = reader.scopes.path(&call.func) else {
            continue;
        };
        let said = match path.as_str() {
            "sys.exit" => "sys.exit",
            "os._exit" => "os._exit",
            "os.abort" => "os.abort",
            "builtins.exit" => "exit",
            "builtins.quit" => "quit",
            _ => continue,
        };
        if is_run_directly(reader.source, name) {
            continue;
        }
        report(reader, call, said);
    }
    // `raise SystemExit(1)` is what `sys.exit(1)` does.
    let mut raised: Vec<&StmtRaise> = Vec::new();
    walk::own(&def.body, |node| {
        if let Node::Stmt(Stmt::Raise(raise)) = node {
            raised.push(raise);
        }
    });
    for raise in raised {
        let exception = match raise.exc.as_deref() {
            Some(Expr::Call(call)) => &*call.func,
            Some(exception) => exception,
            None => continue,
        };
        let is_exit = matches!(exception, Expr::Name(name) if name.id.as_str() == "SystemExit");
        if is_exit && !is_run_directly(reader.source, name) {
            report(reader, raise, "SystemExit");
        }
    }
}

fn report(reader: &mut Reader<'_, '_>, place: &impl Ranged, said: &str) {
    let message = format!(
        "`{said}` ends the process from inside a task: other tasks lose their clean-up; \
         set a stop event, or raise and let main decide"
    );
    reader.report(place, rule::EXIT_IN_TASK, message);
}

/// `asyncio.run(name(...))` somewhere in this file makes it the program's main.
fn is_run_directly(source: &str, name: &str) -> bool {
    memchr::memmem::find(source.as_bytes(), format!("run({name}(").as_bytes()).is_some()
}
