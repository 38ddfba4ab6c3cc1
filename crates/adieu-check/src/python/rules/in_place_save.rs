//! State written in place: a stop in the middle leaves half a file.

use ruff_python_ast::{Expr, ExprCall, StmtFunctionDef};
use ruff_text_size::Ranged;

use super::super::extract::Reader;
use super::walk;

const SAVES: &[&str] = &["save", "persist", "checkpoint", "dump", "store"];
const STATE: &[&str] = &[
    "state",
    "checkpoint",
    "offset",
    "offsets",
    "progress",
    "cursor",
    "snapshot",
    "position",
];

/// Remembers where a function saves state in place; whether that happens during the shutdown is decided
/// when the whole program is known.
pub(crate) fn note<'a>(reader: &mut Reader<'a, '_>, def: &'a StmtFunctionDef, index: u32) {
    let name = def.name.as_str();
    let by_name = walk::has_word(name, SAVES) || walk::has_word(name, STATE);
    if !by_name && !walk::has_word(name, &["shutdown", "stop", "close", "cleanup", "teardown"]) {
        return;
    }
    let calls = walk::calls(&def.body);
    let atomic = calls.iter().any(|call| {
        matches!(
            walk::method(call),
            "replace"
                | "rename"
                | "NamedTemporaryFile"
                | "mkstemp"
                | "atomic_write"
                | "move"
                | "renames"
        )
    });
    if atomic {
        return;
    }
    for call in calls {
        let target = match writes(reader, call) {
            Some(target) => target,
            None => continue,
        };
        let text = reader
            .source
            .get(target.start().to_usize()..target.end().to_usize())
            .unwrap_or("");
        let about_state = STATE
            .iter()
            .any(|word| text.to_ascii_lowercase().contains(word));
        if by_name && walk::has_word(name, STATE) || about_state {
            let place = reader.place(call);
            reader.summary.functions[index as usize].in_place_save = Some(place);
            return;
        }
    }
}

/// What a call writes to, when it truncates a file and writes it anew.
fn writes<'a>(reader: &Reader<'a, '_>, call: &'a ExprCall) -> Option<&'a Expr> {
    let Expr::Attribute(attribute) = &*call.func else {
        let is_open = matches!(
            reader.scopes.path(&call.func).as_deref(),
            Some("builtins.open" | "aiofiles.open")
        );
        return if is_open && truncates(call.arguments.find_argument_value("mode", 1)) {
            call.arguments.find_positional(0)
        } else {
            None
        };
    };
    match attribute.attr.as_str() {
        "write_text" | "write_bytes" => Some(&attribute.value),
        "open" if truncates(call.arguments.find_argument_value("mode", 0)) => {
            Some(&attribute.value)
        }
        _ => None,
    }
}

fn truncates(mode: Option<&Expr>) -> bool {
    matches!(mode, Some(Expr::StringLiteral(mode)) if mode.value.to_str().contains('w'))
}
