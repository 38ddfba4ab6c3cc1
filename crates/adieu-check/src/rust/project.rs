//! What async code reaches, over all packages of the workspace.

use rustc_hash::FxHashSet;

use super::crates::Crates;
use super::models;
use super::weight::Way;
use crate::callgraph::{
    Call, CallFlags, Facts, FileSummary, FnFlags, Linker, Modules, Reach, Target, Targets, blocks,
    path, runs, spoken,
};
use crate::finding::{Finding, Step};
use crate::rule::{self, Code};

/// All findings that need more than one function.
pub(crate) fn findings(
    summaries: &[FileSummary],
    modules: &Modules,
    crates: &Crates,
) -> Vec<Finding> {
    let linker = Linker::new(summaries, modules, models::canonicalize).extend();
    let targets = Targets::resolve(&linker, summaries, &models::blocking);
    let reach = Reach::new(&linker, &targets);
    let mut found = Vec::new();
    let services: FxHashSet<usize> = summaries
        .iter()
        .filter(|file| file.facts.is_service)
        .filter_map(|file| crates.package_number(&file.path))
        .collect();
    for (index, summary) in summaries.iter().enumerate() {
        let in_service = crates
            .package_number(&summary.path)
            .is_some_and(|package| services.contains(&package));
        for function in &summary.functions {
            if !function.flags.has(FnFlags::ASYNC) || function.flags.has(FnFlags::TEST) {
                continue;
            }
            for call in &function.calls {
                match targets.of(index, call) {
                    Some(Target::Leaf(leaf, outside))
                        if blocks(call, leaf, outside) && !is_forgiven(leaf.code, call) =>
                    {
                        let said = said(outside);
                        let message = match path::held(&said) {
                            Some(lock) => format!(
                                "a guard of `{lock}` lives across an await; {}",
                                leaf.instead
                            ),
                            None => {
                                format!("`{said}` blocks the runtime's thread; {}", leaf.instead)
                            }
                        };
                        let way = Way {
                            caller: function,
                            file: summary,
                            call,
                            through: Vec::new(),
                            blocks: &said,
                            in_service,
                        };
                        let severity = way.severity(leaf.code);
                        found.push(
                            Finding::new(&summary.path, call.place, leaf.code, message)
                                .rated(severity),
                        );
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
                            let severity = Way {
                                caller: function,
                                file: summary,
                                call,
                                through: reach.through(&linker, &targets, callee, code),
                                blocks: &end,
                                in_service,
                            }
                            .severity(code);
                            let mut finding =
                                Finding::new(&summary.path, call.place, code, message)
                                    .rated(severity);
                            let first = Step {
                                path: summary.path.clone(),
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
    second_runtimes(summaries, crates, &mut found);
    ctrl_c_alone(summaries, crates, &services, &mut found);
    found
}

/// Services that hear Ctrl-C, and nothing of what a container or a unit is sent.
fn ctrl_c_alone(
    summaries: &[FileSummary],
    crates: &Crates,
    services: &FxHashSet<usize>,
    found: &mut Vec<Finding>,
) {
    let hears_sigterm = |facts: &Facts| {
        facts.handles_signals || facts.servers.iter().any(|it| it.server != "axum::serve")
    };
    if summaries.iter().any(|file| hears_sigterm(&file.facts)) {
        return;
    }
    let mut said: FxHashSet<usize> = FxHashSet::default();
    for summary in summaries {
        let package = crates.package_number(&summary.path);
        // One handler for both signals mends all of a program.
        let is_first = summary.facts.ctrl_c.is_some()
            && package.is_some_and(|package| services.contains(&package) && said.insert(package));
        if let (true, Some(place)) = (is_first, summary.facts.ctrl_c) {
            let message = "`ctrl_c` is SIGINT alone, and containers and units are stopped with SIGTERM: wait for \
                           `SignalKind::terminate()` as well";
            found.push(Finding::new(
                &summary.path,
                place,
                rule::CTRL_C_ALONE,
                message,
            ));
        }
    }
}

/// Runtimes made beside the one of `#[tokio::main]`.
fn second_runtimes(summaries: &[FileSummary], crates: &Crates, found: &mut Vec<Finding>) {
    let services: FxHashSet<usize> = summaries
        .iter()
        .filter(|summary| summary.facts.serves && !summary.facts.is_aside)
        .filter_map(|summary| crates.package_number(&summary.path))
        .collect();
    for summary in summaries {
        if !crates
            .package_number(&summary.path)
            .is_some_and(|package| services.contains(&package))
        {
            continue;
        }
        for place in &summary.runtimes {
            let message = "this service already has a runtime: a stop of that one does not reach the tasks of this one; \
                           use `Handle::current`";
            found.push(Finding::new(
                &summary.path,
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
