//! How `Shutdown` is called: with a context that ends in time, and that is not over before it begins.

use crate::flat_tree::FlatNode;
use crate::go::names::{
    Definition, GoCode, arguments, is_function, last_name, method, statement_of,
};
use crate::go::summary::{HTTP, Need, Sink};
use crate::rule;

const CONTEXT: &str = "context";

/// `server.Shutdown(ctx)`.
pub(super) fn check(code: &GoCode<'_>, call: FlatNode<'_>, sink: &mut Sink<'_>) {
    let Some((operand, "Shutdown")) = method(call) else {
        return;
    };
    let [context] = arguments(call)[..] else {
        return;
    };
    let needs = match what_is_shut_down(code, operand) {
        Some(needs) => needs,
        None => return,
    };
    match origin(code, context) {
        ContextOrigin::WithoutLimit => {
            let message = "`Shutdown` waits for as long as one client holds its connection: give it a context with a \
                           deadline, as `context.WithTimeout` makes one";
            sink.report(
                call,
                rule::GO_SHUTDOWN_WITHOUT_DEADLINE,
                message.to_owned(),
                needs,
            );
        }
        ContextOrigin::Context(definition, limited) => {
            if is_over(code, definition, call) {
                let name = definition.name.text();
                let what = if limited { "is made from" } else { "is" };
                let message = format!(
                    "this context {what} `{name}`, which is cancelled by now, so `Shutdown` returns at once and drains \
                     nothing: make one from `context.Background()`"
                );
                sink.report(call, rule::GO_SHUTDOWN_CANCELLED, message, needs);
            }
        }
        ContextOrigin::Unknown => {}
    }
}

/// What has to be so for this to be an `http.Server` or an echo server.
fn what_is_shut_down(code: &GoCode<'_>, operand: FlatNode<'_>) -> Option<Vec<Need>> {
    if code.has_type(operand, HTTP, "Server") || is_echo(code, operand) {
        return Some(Vec::new());
    }
    let name = last_name(operand)?;
    (operand.is("selector_expression")).then(|| vec![Need::ServerField(name.to_owned())])
}

/// Whether a variable holds what `echo.New` made.
pub(super) fn is_echo(code: &GoCode<'_>, operand: FlatNode<'_>) -> bool {
    let made_by_echo = |definition: Definition<'_>| {
        definition
            .value
            .and_then(|value| code.called(value))
            .is_some_and(|(path, name)| {
                path.starts_with("github.com/labstack/echo") && name == "New"
            })
    };
    code.has_type(operand, "github.com/labstack/echo", "Echo")
        || operand.is("identifier") && code.definition(operand).is_some_and(made_by_echo)
}

/// What a context is made from.
enum ContextOrigin<'t> {
    /// `context.Background()`, and nothing on the way limits it.
    WithoutLimit,
    /// A variable, and whether a context with a limit was made of it.
    Context(Definition<'t>, bool),
    Unknown,
}

fn origin<'t>(code: &GoCode<'t>, context: FlatNode<'t>) -> ContextOrigin<'t> {
    let mut node = context;
    let mut limited = false;
    let mut last: Option<Definition<'t>> = None;
    // A name may be defined by itself: each step goes to an earlier place.
    for _ in 0..16 {
        match node.kind() {
            "identifier" => {
                let Some(definition) = code.definition(node) else {
                    break;
                };
                last = Some(definition);
                let Some(value) = definition.value else { break };
                node = value;
            }
            "call_expression" => match code.called(node) {
                Some((CONTEXT, "Background" | "TODO")) => {
                    if !limited {
                        return ContextOrigin::WithoutLimit;
                    }
                    break;
                }
                Some((
                    CONTEXT,
                    "WithTimeout" | "WithDeadline" | "WithTimeoutCause" | "WithDeadlineCause",
                )) => {
                    limited = true;
                    let Some(parent) = arguments(node).first().copied() else {
                        break;
                    };
                    node = parent;
                    last = None;
                }
                Some((CONTEXT, "WithValue")) => {
                    let Some(parent) = arguments(node).first().copied() else {
                        break;
                    };
                    node = parent;
                }
                _ => break,
            },
            _ => break,
        }
    }
    match last {
        Some(definition) => ContextOrigin::Context(definition, limited),
        None => ContextOrigin::Unknown,
    }
}

/// Whether the end of this context was waited for on the way to the call.
fn is_over(code: &GoCode<'_>, definition: Definition<'_>, call: FlatNode<'_>) -> bool {
    let name = definition.name.text();
    let Some(function) = call.ancestors().filter(|node| is_function(*node)).last() else {
        return false;
    };
    let before = function
        .below()
        .take_while(|node| node.start() < call.start());
    before
        .filter(|node| node.is("unary_expression") && node.text().starts_with("<-"))
        .any(|receive| {
            let Some(done) = receive.first() else {
                return false;
            };
            let Some((context, "Done")) =
                (done.is("call_expression")).then(|| method(done)).flatten()
            else {
                return false;
            };
            let is_same = context.text() == name
                && code
                    .definition(context)
                    .is_some_and(|other| other.name == definition.name);
            is_same && comes_after(receive, call)
        })
}

/// Whether the call is made only once the receive has returned.
fn comes_after(receive: FlatNode<'_>, call: FlatNode<'_>) -> bool {
    let case = receive
        .ancestors()
        .find(|above| above.is("communication_case"));
    if let Some(case) = case.filter(|case| {
        case.child("communication")
            .is_some_and(|communication| communication.holds(receive))
    }) {
        if case.holds(call) {
            return !in_later_function(case, call);
        }
        return false;
    }
    let Some(statement) = statement_of(receive) else {
        return false;
    };
    statement.is("expression_statement")
        && statement
            .parent()
            .is_some_and(|list| list.holds(call) && !in_later_function(list, call))
}

/// Whether a function literal between them may be called at another time.
fn in_later_function(outer: FlatNode<'_>, call: FlatNode<'_>) -> bool {
    call.ancestors()
        .take_while(|above| *above != outer)
        .any(is_function)
}
