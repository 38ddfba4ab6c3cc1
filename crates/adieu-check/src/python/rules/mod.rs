//! Rules that one function is enough for.

mod cancel;
mod exits;
mod order;
mod save;
mod signals;
mod spin;
mod start;
mod tasks;
mod walk;

use ruff_python_ast::{Stmt, StmtFunctionDef};

use super::extract::Reader;

pub(crate) use signals::SignalCall;
pub(crate) use tasks::{check_dropped, check_thrown_away};
pub(crate) use walk::has_await;

/// Looks at a function whose body has just been read, while its names are still in scope.
pub(crate) fn on_function<'a>(reader: &mut Reader<'a, '_>, def: &'a StmtFunctionDef, index: u32) {
    if reader.is_test {
        return;
    }
    order::schedule_after_stop(reader, &def.body);
    save::note(reader, def, index);
    if def.is_async {
        start::mark(reader, def, index);
        cancel::check(reader, def, index);
        spin::check(reader, def, index);
        exits::check(reader, def);
        order::wait_closed_first(reader, def);
        order::closed_before_users(reader, def);
    }
}

/// Looks at a file that has been read to its end.
pub(crate) fn on_module<'a>(reader: &mut Reader<'a, '_>, body: &'a [Stmt]) {
    if reader.is_test {
        return;
    }
    order::schedule_after_stop(reader, body);
    signals::check(reader);
}
