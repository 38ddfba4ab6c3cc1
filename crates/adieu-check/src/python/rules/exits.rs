//! Ending the process from inside a task.

use ruff_python_ast::StmtFunctionDef;

use super::super::extract::Reader;
use super::walk;
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
        let message = format!(
            "`{said}` ends the process from inside a task: other tasks lose their clean-up; \
             set a stop event, or raise and let main decide"
        );
        reader.report(call, rule::EXIT_IN_TASK, message);
    }
}

/// `asyncio.run(name(...))` somewhere in this file makes it the program's main.
fn is_run_directly(source: &str, name: &str) -> bool {
    memchr::memmem::find(source.as_bytes(), format!("run({name}(").as_bytes()).is_some()
}
