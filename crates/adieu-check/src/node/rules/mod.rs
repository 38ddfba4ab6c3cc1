//! The rules for Node.js.

mod handlers;
mod servers;

pub(super) use servers::{is_imported_application, is_serve};

use super::names::NodeCode;
use super::summary::Sink;

/// All that can be found in one file.
pub(super) fn run(code: &NodeCode<'_>, sink: &mut Sink<'_>) {
    for node in code.root.below().filter(|node| node.is("call_expression")) {
        servers::check(code, node, sink);
        handlers::check(code, node, sink);
    }
}
