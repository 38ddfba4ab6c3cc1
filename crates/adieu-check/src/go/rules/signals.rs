//! `signal.Notify` and `signal.NotifyContext`: which signals, into what, and where.

use crate::flat_tree::FlatNode;
use crate::go::names::{GoCode, arguments, function_of};
use crate::go::summary::{Need, SIGNAL, Sink};
use crate::rule;
use crate::severity::Severity;

pub(super) fn check(code: &GoCode<'_>, call: FlatNode<'_>, is_main: bool, sink: &mut Sink<'_>) {
    if !code.calls(call, SIGNAL, &["Notify", "NotifyContext"]) {
        return;
    }
    let arguments = arguments(call);
    let Some((target, signals)) = arguments.split_first() else {
        return;
    };
    unbuffered(code, call, *target, sink);
    which(call, signals, sink);
    if !is_main {
        in_library(call, sink);
    }
}

/// A signal that comes while the program does something else is dropped.
fn unbuffered(code: &GoCode<'_>, call: FlatNode<'_>, target: FlatNode<'_>, sink: &mut Sink<'_>) {
    let made = code.definition(target).and_then(|it| it.value);
    let Some(made) =
        made.filter(|made| made.child("function").is_some_and(|it| it.text() == "make"))
    else {
        return;
    };
    if let [kind] = arguments(made)[..]
        && kind.is("channel_type")
    {
        let message = format!(
            "`signal.Notify` does not wait for a receiver, so a signal is lost while `{}` has none: make the channel \
             with a buffer of 1",
            target.text()
        );
        sink.report(call, rule::GO_UNBUFFERED_NOTIFY, message, Vec::new());
    }
}

fn which(call: FlatNode<'_>, signals: &[FlatNode<'_>], sink: &mut Sink<'_>) {
    let last = |node: &FlatNode<'_>| {
        let text = node.text();
        text.rsplit('.').next().unwrap_or(text).to_owned()
    };
    let names: Vec<String> = signals.iter().map(last).collect();
    let has = |name: &str| names.iter().any(|it| it == name);
    let uncatchable = signals.iter().zip(&names).find(|(node, name)| {
        is_named(**node) && matches!(name.as_str(), "Kill" | "SIGKILL" | "SIGSTOP")
    });
    if let Some((node, _)) = uncatchable {
        let text = node.text();
        if has("SIGTERM") {
            let message = format!("`{text}` cannot be caught: leave it out");
            sink.report(*node, rule::GO_UNCATCHABLE_SIGNAL, message, Vec::new());
            sink.rate_last(Severity::Note);
        } else if signals.iter().all(|node| is_named(*node)) {
            let message = format!(
                "`{text}` cannot be caught, and SIGTERM, which containers and units are stopped with, is not waited for: \
                 write `syscall.SIGTERM`"
            );
            sink.report(
                *node,
                rule::GO_UNCATCHABLE_SIGNAL,
                message,
                vec![Need::NoSigterm],
            );
        }
        return;
    }
    if let [only] = names.as_slice()
        && matches!(only.as_str(), "Interrupt" | "SIGINT")
        && signals.iter().all(|node| is_named(*node))
    {
        let message = "only SIGINT is waited for, and containers and units are stopped with SIGTERM: add \
                       `syscall.SIGTERM`";
        sink.report(
            call,
            rule::GO_INTERRUPT_ALONE,
            message.to_owned(),
            vec![Need::NoSigterm, Need::Serves],
        );
    }
}

/// `os.Interrupt` and `syscall.SIGTERM`, and not a variable.
fn is_named(node: FlatNode<'_>) -> bool {
    node.is("selector_expression")
        && node
            .child("operand")
            .is_some_and(|it| matches!(it.text(), "os" | "syscall" | "unix" | "windows"))
}

fn in_library(call: FlatNode<'_>, sink: &mut Sink<'_>) {
    let function = function_of(call).and_then(|it| it.child("name"));
    let message = match function {
        Some(name) => format!(
            "`{}` of a library takes the signals of the process from the program that uses it: take a context instead",
            name.text()
        ),
        None => "a library takes the signals of the process from the program that uses it: take a context instead".to_owned(),
    };
    sink.report(
        call,
        rule::GO_NOTIFY_IN_LIBRARY,
        message,
        vec![Need::Library],
    );
}
