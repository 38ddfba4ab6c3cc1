//! Exits that cut a shutdown off: `log.Fatal` and `os.Exit` where something is still to be done.

use crate::flat_tree::FlatNode;
use crate::go::names::{
    GoCode, arguments, function_of, is_function, last_name, method, statement_of,
};
use crate::go::summary::{HTTP, Need, SIGNAL, Sink};
use crate::rule;

/// Whether a call ends the process without running what is deferred.
fn ends_process(code: &GoCode<'_>, call: FlatNode<'_>) -> bool {
    if !call.is("call_expression") {
        return false;
    }
    code.calls(call, "os", &["Exit"]) || name_of(call).is_some_and(is_fatal)
}

fn name_of<'t>(call: FlatNode<'t>) -> Option<&'t str> {
    method(call).map(|(_, name)| name)
}

fn is_fatal(name: &str) -> bool {
    matches!(name, "Fatal" | "Fatalf" | "Fatalln" | "Fatalw")
}

/// `ListenAndServe` returns `ErrServerClosed` as soon as `Shutdown` begins: an exit on any error ends the process then.
pub(super) fn on_server_closed(code: &GoCode<'_>, call: FlatNode<'_>, sink: &mut Sink<'_>) {
    let Some((operand, name)) = method(call) else {
        return;
    };
    let serves = match name {
        "ListenAndServe" | "ListenAndServeTLS" => !code.calls(call, HTTP, &[name]),
        "Serve" | "ServeTLS" => code.has_type(operand, HTTP, "Server"),
        "Start" | "StartTLS" => super::shutdown::is_echo(code, operand),
        _ => false,
    };
    let Some(server) = last_name(operand).filter(|_| serves) else {
        return;
    };
    let Some(exit) = exit_behind(code, call) else {
        return;
    };
    let said = exit.child("function").map_or("it", FlatNode::text);
    let message = format!(
        "`{name}` returns `ErrServerClosed` as soon as `Shutdown` is called, and `{said}` then ends the process in the \
         middle of it: leave that error out with `errors.Is(err, http.ErrServerClosed)`"
    );
    sink.report(
        exit,
        rule::GO_EXIT_ON_SERVER_CLOSED,
        message,
        vec![Need::ShutDown(server.to_owned())],
    );
}

/// The exit that any error of this call leads to.
fn exit_behind<'t>(code: &GoCode<'t>, call: FlatNode<'t>) -> Option<FlatNode<'t>> {
    // `log.Fatal(server.ListenAndServe())`.
    let around = call.ancestors().take_while(|above| !is_function(*above));
    if let Some(exit) = around.into_iter().find(|above| ends_process(code, *above)) {
        let is_argument = exit.child("arguments").is_some_and(|list| list.holds(call));
        return is_argument.then_some(exit);
    }
    let statement = statement_of(call);
    let condition = call.ancestors().find(|above| above.is("if_statement"));
    // `if err := server.ListenAndServe(); err != nil { log.Fatal(err) }`, or the same in two statements.
    let test =
        match condition.filter(|test| test.child("initializer").is_some_and(|it| it.holds(call))) {
            Some(test) => test,
            None => {
                let statement = statement?;
                let list = statement.parent()?;
                let mut next = list
                    .children()
                    .filter(|it| !it.is("comment") && it.start() > statement.start());
                next.next().filter(|next| next.is("if_statement"))?
            }
        };
    let mentions = test
        .below()
        .any(|node| node.text() == "ErrServerClosed" || node.text().contains("Server closed"));
    let question = test.child("condition")?;
    let words: Vec<&str> = question.text().split_whitespace().collect();
    let [_, "!=", "nil"] = words[..] else {
        return None;
    };
    if mentions {
        return None;
    }
    let body = test.child("consequence")?;
    let first = body.below().find(|node| ends_process(code, *node))?;
    // An exit under a further question is not behind any error.
    let is_direct = first
        .ancestors()
        .take_while(|above| *above != body)
        .all(|above| {
            !above.is("if_statement") && !is_function(above) && !above.kind().ends_with("_case")
        });
    is_direct.then_some(first)
}

/// An exit inside of a goroutine.
pub(super) fn in_goroutine(code: &GoCode<'_>, statement: FlatNode<'_>, sink: &mut Sink<'_>) {
    for node in statement.below().filter(|node| ends_process(code, *node)) {
        let nearest = node.ancestors().find(|above| above.is("go_statement"));
        if nearest != Some(statement) {
            continue;
        }
        let said = node.child("function").map_or("this", FlatNode::text);
        let message = format!(
            "`{said}` in a goroutine ends the process whatever the others are doing: send the error to `main`"
        );
        sink.report(node, rule::GO_EXIT_IN_GOROUTINE, message, Vec::new());
    }
}

/// The end of `main` by an exit, behind a `defer` that matters.
pub(super) fn skips_defers(code: &GoCode<'_>, call: FlatNode<'_>, sink: &mut Sink<'_>) {
    if !ends_process(code, call) {
        return;
    }
    let Some(main) = call.ancestors().filter(|above| is_function(*above)).last() else {
        return;
    };
    if main.child("name").is_none_or(|name| name.text() != "main") {
        return;
    }
    let is_last = statement_of(call).is_some_and(|statement| {
        let list = statement.parent();
        let at_end = list.is_some_and(|list| {
            list.children().filter(|it| !it.is("comment")).last() == Some(statement)
        });
        let in_main = list.and_then(FlatNode::parent).and_then(FlatNode::parent) == Some(main);
        at_end && in_main
    });
    if !is_last && !is_behind_signal(code, call, main) {
        return;
    }
    let deferred = main
        .below()
        .take_while(|node| node.start() < call.start())
        .filter(|node| node.is("defer_statement") && function_of(*node) == Some(main))
        .find_map(|node| node.first().filter(|deferred| matters(*deferred)));
    let Some(deferred) = deferred else { return };
    let said = call.child("function").map_or("this", FlatNode::text);
    let lost = match deferred.child("function") {
        Some(named) if !is_function(named) => format!("`{}`", named.text()),
        _ => "the function".to_owned(),
    };
    let message = format!(
        "`{said}` ends the process without {lost} that `main` defers: return from a function that `main` calls, and \
         exit behind it"
    );
    sink.report(call, rule::GO_EXIT_SKIPS_DEFERS, message, Vec::new());
}

/// Whether the exit is the answer of a goroutine to a signal.
fn is_behind_signal(code: &GoCode<'_>, call: FlatNode<'_>, main: FlatNode<'_>) -> bool {
    let Some(goroutine) = call.ancestors().find(|above| above.is("go_statement")) else {
        return false;
    };
    let channels: Vec<&str> = main
        .below()
        .filter(|node| code.calls(*node, SIGNAL, &["Notify"]))
        .filter_map(|node| arguments(node).first().map(|it| it.text()))
        .collect();
    let mut before = goroutine
        .below()
        .take_while(|node| node.start() < call.start());
    before.any(|node| {
        node.is("unary_expression")
            && node.text().starts_with("<-")
            && node.first().is_some_and(|it| channels.contains(&it.text()))
    })
}

/// What is lost when it does not run: closing, flushing, saving.
fn matters(deferred: FlatNode<'_>) -> bool {
    if deferred.child("function").is_some_and(is_function) {
        let closes = |node: FlatNode<'_>| {
            node.is("call_expression") && name_of(node).is_some_and(is_clean_up)
        };
        return deferred.below().any(closes);
    }
    name_of(deferred).is_some_and(is_clean_up)
}

fn is_clean_up(name: &str) -> bool {
    [
        "Close",
        "Flush",
        "Shutdown",
        "Stop",
        "Save",
        "Disconnect",
        "Release",
        "Unlock",
        "Remove",
    ]
    .iter()
    .any(|word| name.starts_with(word))
}
