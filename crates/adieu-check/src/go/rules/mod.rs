//! The rules for Go.

mod exits;
mod servers;
mod shutdown;
mod signals;

use super::names::GoCode;
use super::summary::Sink;

/// All that can be found in one file.
pub(super) fn run(code: &GoCode<'_>, is_main: bool, sink: &mut Sink<'_>) {
    for node in code.root.below() {
        match node.kind() {
            "call_expression" => {
                shutdown::check(code, node, sink);
                signals::check(code, node, is_main, sink);
                exits::on_server_closed(code, node, sink);
                servers::check(code, node, is_main, sink);
                if is_main {
                    exits::skips_defers(code, node, sink);
                }
            }
            "go_statement" => exits::in_goroutine(code, node, sink),
            _ => {}
        }
    }
}
