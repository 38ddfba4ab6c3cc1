//! What async code reaches, over all packages of the workspace.

use rustc_hash::FxHashSet;

use super::crates::Crates;
use super::known;
use crate::finding::{Finding, Step};
use crate::program::{
    Call, CallFlags, FnFlags, Linker, Modules, Reach, Target, Targets, Unit, blocks, runs, spoken,
};
use crate::rule::{self, Code};

/// All findings that need more than one function.
pub(crate) fn findings(units: &[Unit], modules: &Modules, crates: &Crates) -> Vec<Finding> {
    let linker = Linker::new(units, modules, known::spell);
    let targets = Targets::resolve(&linker, units, known::blocking);
    let reach = Reach::new(&linker, &targets);
    let mut found = Vec::new();
    for (index, unit) in units.iter().enumerate() {
        for function in &unit.functions {
            if !function.flags.has(FnFlags::ASYNC) || function.flags.has(FnFlags::TEST) {
                continue;
            }
            for call in &function.calls {
                match targets.of(index, call) {
                    Some(Target::Leaf(leaf, outside))
                        if blocks(call, leaf, outside) && !is_forgiven(leaf.code, call) =>
                    {
                        let said = said(outside);
                        let message = match said.strip_suffix("::__hold__") {
                            Some(lock) => format!(
                                "a guard of `{lock}` lives across an await; {}",
                                leaf.instead
                            ),
                            None => {
                                format!("`{said}` blocks the runtime's thread; {}", leaf.instead)
                            }
                        };
                        found.push(Finding::new(&unit.path, call.place, leaf.code, message));
                    }
                    Some(Target::Function(callee)) if runs(linker.flags(callee), call.flags) => {
                        for code in reach.codes(callee).filter(|code| !is_forgiven(*code, call)) {
                            let way = reach.trace(&linker, &targets, callee, code);
                            let (_, body) = linker.function(callee);
                            let Some(last) =
                                way.last().filter(|_| code != rule::GUARD_ACROSS_AWAIT)
                            else {
                                continue;
                            };
                            let end = last.call.replace('.', "::");
                            let message = format!(
                                "`{}` blocks the runtime's thread: it reaches `{end}`",
                                body.name
                            );
                            let mut finding = Finding::new(&unit.path, call.place, code, message);
                            let first = Step {
                                path: unit.path.clone(),
                                place: call.place,
                                call: body.name.to_string(),
                            };
                            finding.trace = std::iter::once(first)
                                .chain(way.into_iter().map(|step| Step {
                                    call: step.call.replace('.', "::"),
                                    ..step
                                }))
                                .collect();
                            found.push(finding);
                        }
                    }
                    _ => {}
                }
            }
        }
    }
    second_runtimes(units, crates, &mut found);
    found
}

/// Runtimes made beside the one of `#[tokio::main]`.
fn second_runtimes(units: &[Unit], crates: &Crates, found: &mut Vec<Finding>) {
    let services: FxHashSet<usize> = units
        .iter()
        .filter(|unit| unit.facts.serves)
        .filter_map(|unit| crates.package_number(&unit.path))
        .collect();
    for unit in units {
        if !crates
            .package_number(&unit.path)
            .is_some_and(|package| services.contains(&package))
        {
            continue;
        }
        for place in &unit.runtimes {
            let message = "this service already has a runtime: a stop of that one does not reach the tasks of this one; \
                           use `Handle::current`";
            found.push(Finding::new(
                &unit.path,
                *place,
                rule::SECOND_RUNTIME,
                message,
            ));
        }
    }
}

/// A main may read its settings before it first awaits: there is no other task to hold up.
fn is_forgiven(code: Code, call: &Call) -> bool {
    call.flags.has(CallFlags::AT_START) && code == rule::RUST_FILE
}

fn said(path: &str) -> String {
    spoken(path).replace('.', "::")
}
