//! Rules that one function is enough for.

mod cancel;
mod endless_loop;
mod exit_in_task;
mod in_place_save;
mod jobs;
mod order;
mod signals;
mod start;
mod tasks;
mod walk;
mod windows;
mod yield_in_context;

use ruff_python_ast::{Stmt, StmtFunctionDef};

use super::extract::Reader;

pub(crate) use jobs::findings as of_jobs;
pub(crate) use signals::SignalCall;
pub(crate) use tasks::{check_dropped, check_thrown_away};
pub(crate) use walk::has_await;
pub(crate) use windows::findings as on_windows;

/// Looks at a function whose body has just been read, while its names are still in scope.
pub(crate) fn on_function<'a>(reader: &mut Reader<'a, '_>, def: &'a StmtFunctionDef, index: u32) {
    if reader.is_test {
        return;
    }
    order::schedule_after_stop(reader, &def.body);
    in_place_save::note(reader, def, index);
    if def.is_async {
        start::mark(reader, def, index);
        cancel::check(reader, def, index);
        endless_loop::check(reader, def, index);
        exit_in_task::check(reader, def);
        order::wait_closed_first(reader, def);
        order::closed_before_users(reader, def);
        yield_in_context::check(reader, def);
    } else {
        endless_loop::note(reader, &def.body);
    }
}

/// Looks at a file that has been read to its end.
pub(crate) fn on_module<'a>(reader: &mut Reader<'a, '_>, body: &'a [Stmt]) {
    if reader.is_test {
        return;
    }
    order::schedule_after_stop(reader, body);
    endless_loop::note(reader, body);
    jobs::note(reader, body);
    signals::check(reader);
    windows::note(reader, body);
}
