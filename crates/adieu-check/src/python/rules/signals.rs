//! `signal.signal` beside an event loop.

use ruff_python_ast::{Expr, ExprCall};
use ruff_text_size::{Ranged, TextRange};

use super::super::extract::Reader;
use crate::callgraph::CallFlags;
use crate::rule;

/// A handler installed with `signal.signal`, judged at the file's end.
#[derive(Debug)]
pub(crate) struct SignalCall {
    range: TextRange,
    function: Option<u32>,
    in_async: bool,
}

impl SignalCall {
    /// What to remember of a `signal.signal(...)` call; resetting a signal installs nothing.
    pub(crate) fn new(reader: &Reader<'_, '_>, call: &ExprCall) -> Option<SignalCall> {
        let handler = call.arguments.find_positional(1)?;
        let resets = matches!(handler, Expr::Attribute(a) if matches!(a.attr.as_str(), "SIG_IGN" | "SIG_DFL"));
        let is_name =
            matches!(handler, Expr::Name(n) if matches!(n.id.as_str(), "SIG_IGN" | "SIG_DFL"));
        let signal = call.arguments.find_positional(0)?;
        let stops = match signal {
            Expr::Attribute(a) => {
                matches!(a.attr.as_str(), "SIGTERM" | "SIGINT" | "SIGHUP" | "SIGQUIT")
            }
            Expr::Name(n) => !matches!(n.id.as_str(), "SIGCHLD" | "SIGPIPE" | "SIGALRM"),
            _ => true,
        };
        if resets || is_name || !stops {
            return None;
        }
        let frame = reader.frames.last();
        Some(SignalCall {
            range: call.range(),
            function: frame.and_then(|frame| frame.function),
            in_async: frame.is_some_and(|frame| frame.is_async),
        })
    }
}

pub(crate) fn check(reader: &mut Reader<'_, '_>) {
    let calls = std::mem::take(&mut reader.signal_calls);
    if calls.is_empty() {
        return;
    }
    // Falls back where the loop cannot do it, or wakes the loop from the handler: both are right.
    let prepared = [
        "add_signal_handler",
        "call_soon_threadsafe",
        "win32",
        "set_wakeup_fd",
    ];
    if prepared.iter().any(|word| reader.source.contains(word)) {
        return;
    }
    for call in calls {
        let beside = call.in_async
            || match call.function {
                Some(function) => runs_loop(reader, function),
                None => !reader.summary.facts.mains.is_empty(),
            };
        if beside {
            reader.report(
                &call.range,
                rule::SIGNAL_BESIDE_LOOP,
                "a handler from `signal.signal` interrupts the event loop anywhere and does not wake it; \
                 use `loop.add_signal_handler`",
            );
        }
    }
}

fn runs_loop(reader: &Reader<'_, '_>, function: u32) -> bool {
    reader.summary.functions[function as usize]
        .calls
        .iter()
        .any(|call| {
            let path = reader.summary.names.get(call.target);
            !call.flags.has(CallFlags::AWAITED)
                && (path == "asyncio.run"
                    || path.ends_with(".run_until_complete")
                    || path.ends_with(".run_forever"))
        })
}
