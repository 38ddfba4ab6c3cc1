//! Servers that a program starts: whether a signal stops them, and whether `main` waits for that.

use crate::flat_tree::FlatNode;
use crate::go::names::{GoCode, arguments, function_of, is_function, last_name, method};
use crate::go::summary::{HTTP, Need, Sink};
use crate::rule;
use crate::severity::Severity;

const GRPC: &str = "google.golang.org/grpc";
const GIN: &str = "github.com/gin-gonic/gin";

pub(super) fn check(code: &GoCode<'_>, call: FlatNode<'_>, is_main: bool, sink: &mut Sink<'_>) {
    let Some(server) = server(code, call) else {
        return;
    };
    if is_in_goroutine(call) {
        return;
    }
    if !is_reported(code, call) {
        without_shutdown(code, call, &server, is_main, sink);
    }
    if is_main {
        not_awaited(call, &server, sink);
    }
}

/// A call that serves until the server is shut down.
struct Server<'t> {
    /// As it is written: `http.ListenAndServe`.
    said: &'t str,
    /// The variable, where there is one.
    name: Option<&'t str>,
    is_grpc: bool,
}

fn server<'t>(code: &GoCode<'t>, call: FlatNode<'t>) -> Option<Server<'t>> {
    let said = call.child("function")?.text();
    if code.calls(
        call,
        HTTP,
        &["ListenAndServe", "ListenAndServeTLS", "Serve", "ServeTLS"],
    ) {
        return Some(Server {
            said,
            name: None,
            is_grpc: false,
        });
    }
    let (operand, method) = method(call)?;
    let name = last_name(operand);
    let made_by = || {
        let definition = code.definition(operand)?;
        code.called(definition.value?)
    };
    let serves = match method {
        "ListenAndServe" | "ListenAndServeTLS" | "ServeTLS" => {
            code.has_type(operand, HTTP, "Server")
        }
        "Serve" => {
            code.has_type(operand, HTTP, "Server") || matches!(made_by(), Some((GRPC, "NewServer")))
        }
        "Run" | "RunTLS" => {
            code.has_type(operand, GIN, "Engine")
                || matches!(made_by(), Some((GIN, "Default" | "New")))
        }
        "Start" | "StartTLS" => super::shutdown::is_echo(code, operand),
        "Listen" => made_by().is_some_and(|(path, name)| {
            path.starts_with("github.com/gofiber/fiber") && name == "New"
        }),
        _ => false,
    };
    serves.then_some(Server {
        said,
        name,
        is_grpc: matches!(made_by(), Some((GRPC, _))),
    })
}

/// Whether the function starts another server before: with TLS and without, one of which runs.
fn is_reported(code: &GoCode<'_>, call: FlatNode<'_>) -> bool {
    let function = function_of(call);
    let before = function.into_iter().flat_map(FlatNode::below);
    before
        .take_while(|node| node.start() < call.start())
        .any(|node| {
            node.is("call_expression")
                && !node.holds(call)
                && server(code, node).is_some()
                && !is_in_goroutine(node)
        })
}

fn is_in_goroutine(call: FlatNode<'_>) -> bool {
    call.ancestors().any(|above| above.is("go_statement"))
        // `g.Go(func() error { return server.ListenAndServe() })`.
        || call.ancestors().any(|above| {
            above.is("func_literal")
                && above
                    .parent()
                    .and_then(|list| list.parent())
                    .filter(|around| around.is("call_expression"))
                    .and_then(method)
                    .is_some_and(|(_, name)| matches!(name, "Go" | "Add" | "Submit" | "Do"))
        })
}

fn without_shutdown(
    code: &GoCode<'_>,
    call: FlatNode<'_>,
    server: &Server<'_>,
    is_main: bool,
    sink: &mut Sink<'_>,
) {
    let mut needs = match is_main {
        true => vec![Need::NoSignals],
        false => vec![Need::NoSignalsInModule],
    };
    needs.extend(server.name.map(|name| Need::NeverClosed(name.to_owned())));
    let stop = match server.is_grpc {
        true => "GracefulStop",
        false => "Shutdown",
    };
    let message = format!(
        "nothing stops `{}` on SIGTERM, so requests in flight are lost: wait for the signal with `signal.NotifyContext` \
         and call `{stop}`",
        server.said
    );
    sink.report(call, rule::GO_NO_SHUTDOWN, message, needs);
    if is_local(code, call) {
        sink.rate_last(Severity::Note);
    }
}

/// Whether only programs of the same machine reach the server: `"localhost:80"`, or a listener of `net.Listen` for it.
fn is_local(code: &GoCode<'_>, call: FlatNode<'_>) -> bool {
    let is_name = |text: &str| {
        let text = text.trim_matches('"');
        text.starts_with("localhost:") || text.starts_with("127.0.0.1:")
    };
    let Some(first) = arguments(call).first().copied() else {
        return false;
    };
    let listener = (first.is("identifier"))
        .then(|| code.definition(first))
        .flatten();
    let listener = listener
        .and_then(|it| it.value)
        .filter(|made| code.calls(*made, "net", &["Listen"]));
    is_name(first.text())
        || listener.is_some_and(|made| arguments(made).iter().any(|it| is_name(it.text())))
}

/// `ListenAndServe` returns as soon as `Shutdown` is called, not when it has returned.
fn not_awaited(call: FlatNode<'_>, server: &Server<'_>, sink: &mut Sink<'_>) {
    let (Some(name), Some(function)) = (server.name, function_of(call)) else {
        return;
    };
    let shutdown = function
        .below()
        .take_while(|node| node.start() < call.start())
        .find(|node| {
            node.is("call_expression")
                && method(*node).is_some_and(|(operand, method)| {
                    method == "Shutdown" && last_name(operand) == Some(name)
                })
                && node
                    .ancestors()
                    .take_while(|above| *above != function)
                    .any(|above| above.is("go_statement"))
        });
    if shutdown.is_none() {
        return;
    }
    let waits = function.below().any(|node| {
        let is_receive = node.is("unary_expression") && node.text().starts_with("<-");
        let is_wait = node.is("call_expression")
            && method(node).is_some_and(|(_, name)| name.contains("Wait"));
        let is_wait =
            is_wait || node.is("select_statement") || is_receive || node.is("range_clause");
        let own = node
            .ancestors()
            .take_while(|above| *above != function)
            .all(|above| {
                !is_function(above) || above.ancestors().any(|it| it.is("defer_statement"))
            });
        let is_deferred = node.ancestors().any(|above| above.is("defer_statement"));
        is_wait && own && (node.start() > call.start() || is_deferred)
    });
    if waits {
        return;
    }
    let is_main = function.child("name").is_some_and(|it| it.text() == "main");
    let what = if is_main { "`main`" } else { "this function" };
    let message = format!(
        "`{}` returns as soon as `Shutdown` is called, and {what} returns with it while requests are in flight: wait \
         for `Shutdown` to return",
        server.said
    );
    sink.report(call, rule::GO_SHUTDOWN_NOT_AWAITED, message, Vec::new());
    if !is_main {
        sink.rate_last(Severity::Warning);
    }
}
