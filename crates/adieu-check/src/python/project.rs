//! The rules that need the whole program: what async code reaches, and how the program is run.

use rustc_hash::FxHashSet;

use super::models::blocking;
use super::models::clients::Clients;
use super::weight::Way;
use super::{canonical, rules};
use crate::callgraph::{
    Call, CallFlags, Entity, FileSummary, FnFlags, Function, Hop, Linker, Modules, Reach, Target,
    Targets, blocks, path, runs, spoken,
};
use crate::finding::{Finding, Step};
use crate::rule::{self, Code};
use crate::severity::Severity;

/// Words in the name of a function that runs while the program stops.
const STOPS: &[&str] = &[
    "shutdown", "stop", "close", "aclose", "cleanup", "teardown", "aexit", "exit",
];

struct Project<'a> {
    summaries: &'a [FileSummary],
    linker: Linker<'a>,
    targets: Targets,
    reach: Reach,
    found: Vec<Finding>,
    /// Whether any part of the project serves clients or works through a queue.
    in_service: bool,
}

/// The tables to follow the paths of Python files.
pub(crate) fn linker<'a>(summaries: &'a [FileSummary], modules: &'a Modules) -> Linker<'a> {
    Linker::new(summaries, modules, canonical::canonicalize).extend()
}

/// All findings that need more than one function.
pub(crate) fn findings(
    summaries: &[FileSummary],
    modules: &Modules,
    clients: &Clients,
) -> Vec<Finding> {
    let linker = linker(summaries, modules);
    let leaf = |path: &str| blocking::blocking(path, clients);
    let targets = Targets::resolve(&linker, summaries, &leaf);
    let reach = Reach::new(&linker, &targets);
    let mut project = Project {
        summaries,
        linker,
        targets,
        reach,
        found: Vec::new(),
        in_service: summaries.iter().any(|file| file.facts.is_service),
    };
    project.blocking();
    project.cleanups();
    project.saves();
    project.second_loops();
    project.mains();
    project.found.extend(rules::on_windows(summaries));
    project.found.extend(rules::of_jobs(summaries));
    project.found
}

impl<'a> Project<'a> {
    fn blocking(&mut self) {
        for (index, summary) in self.summaries.iter().enumerate() {
            for function in &summary.functions {
                let on_loop =
                    function.flags.has(FnFlags::ASYNC) || function.flags.has(FnFlags::CALLBACK);
                if !on_loop || function.flags.has(FnFlags::TEST) {
                    continue;
                }
                for call in &function.calls {
                    self.blocking_call(index, summary, function, call);
                }
            }
        }
    }

    /// How much a blocking call matters, in a coroutine or through the functions it calls.
    fn severity(
        &self,
        file: &'a FileSummary,
        caller: &'a Function,
        call: &Call,
        through: Vec<Hop<'_>>,
        (code, blocks): (Code, &str),
    ) -> Severity {
        let way = Way {
            caller,
            file,
            call,
            through,
            blocks,
            in_service: self.in_service,
        };
        way.severity(code)
    }

    fn blocking_call(
        &mut self,
        index: usize,
        summary: &'a FileSummary,
        caller: &'a Function,
        call: &Call,
    ) {
        if call.flags.has(CallFlags::HANDED) {
            return;
        }
        match self.targets.of(index, call) {
            Some(Target::Leaf(leaf, outside)) if blocks(call, leaf, outside) => {
                if is_forgiven(leaf.code, call) {
                    return;
                }
                let said = spoken(outside);
                let message = match (leaf.code, path::held(&said)) {
                    (_, Some(lock)) => format!("`{lock}` stops the event loop: {}", leaf.instead),
                    (rule::NESTED_LOOP, None) => {
                        format!("`{said}` inside async code: {}", leaf.instead)
                    }
                    _ => format!("`{said}` blocks the event loop; {}", leaf.instead),
                };
                let fix = if leaf.code == rule::BLOCKING_SLEEP {
                    summary.fixes.get(&call.place).cloned()
                } else {
                    None
                };
                let severity = self.severity(summary, caller, call, Vec::new(), (leaf.code, &said));
                self.found.push(
                    Finding::new(&summary.path, call.place, leaf.code, message)
                        .rated(severity)
                        .with_fix(fix),
                );
            }
            Some(Target::Function(callee)) if runs(self.linker.flags(callee), call.flags) => {
                let codes = self
                    .reach
                    .codes(callee)
                    .filter(|code| !is_forgiven(*code, call));
                for code in codes.collect::<Vec<_>>() {
                    let way = self.reach.trace(&self.linker, &self.targets, callee, code);
                    let (_, body) = self.linker.function(callee);
                    let Some(last) = way.last() else { continue };
                    let message = match code {
                        rule::NESTED_LOOP => {
                            format!(
                                "`{}` starts an event loop inside the running one: it reaches `{}`",
                                body.name, last.call
                            )
                        }
                        _ => format!(
                            "`{}` blocks the event loop: it reaches `{}`",
                            body.name, last.call
                        ),
                    };
                    let through = self
                        .reach
                        .through(&self.linker, &self.targets, callee, code);
                    let severity =
                        self.severity(summary, caller, call, through, (code, &last.call));
                    let mut finding =
                        Finding::new(&summary.path, call.place, code, message).rated(severity);
                    let place = call.place;
                    finding.trace = vec![Step {
                        path: summary.path.clone(),
                        place,
                        call: body.name.to_string(),
                    }];
                    finding.trace.extend(way);
                    self.found.push(finding);
                }
            }
            _ => {}
        }
    }

    fn cleanups(&mut self) {
        let spawned: FxHashSet<u32> = self
            .targets
            .edges()
            .iter()
            .filter(|edge| edge.flags.has(CallFlags::SPAWNED))
            .map(|edge| edge.callee)
            .collect();
        let mut spawned: Vec<u32> = spawned.into_iter().collect();
        spawned.sort_unstable();
        for number in spawned {
            let (summary, function) = self.linker.function(number);
            if function.flags.has(FnFlags::TEST) {
                continue;
            }
            for place in &function.bare_cleanups {
                let message = format!(
                    "`{}` runs as a task: a second cancellation cuts this clean-up in two; wrap it in `asyncio.shield` \
                     or give it a timeout",
                    function.name
                );
                self.found.push(Finding::new(
                    &summary.path,
                    *place,
                    rule::UNSHIELDED_CLEANUP,
                    message,
                ));
            }
        }
    }

    fn saves(&mut self) {
        let functions = self.summaries.iter().flat_map(|summary| &summary.functions);
        let saves: FxHashSet<u32> = (0..)
            .zip(functions)
            .filter(|(_, function)| function.in_place_save.is_some())
            .map(|(number, _)| number)
            .collect();
        let on_the_way_out: FxHashSet<u32> = self
            .targets
            .edges()
            .iter()
            .filter(|edge| saves.contains(&edge.callee))
            .filter(|edge| {
                edge.flags.has(CallFlags::IN_FINALLY)
                    || is_stop(&self.linker.function(edge.caller).1.name)
            })
            .map(|edge| edge.callee)
            .collect();
        let mut saves: Vec<u32> = saves.into_iter().collect();
        saves.sort_unstable();
        for number in saves {
            let (summary, function) = self.linker.function(number);
            let Some(place) = function.in_place_save else {
                continue;
            };
            if is_stop(&function.name) || on_the_way_out.contains(&number) {
                let message = format!(
                    "`{}` overwrites the state while the program stops: a kill in the middle leaves half a file; write \
                     a temporary file beside it and `os.replace` it",
                    function.name
                );
                self.found.push(Finding::new(
                    &summary.path,
                    place,
                    rule::NON_ATOMIC_SAVE,
                    message,
                ));
            }
        }
    }

    /// Loops started off the main path: in a thread beside the loop that serves.
    fn second_loops(&mut self) {
        let on_loop = self.on_loop();
        let mut found = Vec::new();
        for (index, summary) in self.summaries.iter().enumerate() {
            for (at, function) in summary.functions.iter().enumerate() {
                let number = self.linker.function_number(index, at);
                let beside = on_loop[number as usize] || summary.facts.serves;
                // Only a framework takes a handler over, and it has a loop.
                let in_thread = function.flags.has(FnFlags::IN_THREAD)
                    && (beside || function.flags.has(FnFlags::OPAQUE));
                if function.flags.has(FnFlags::TEST) || !beside && !in_thread {
                    continue;
                }
                let calls = function.calls.iter().filter(|call| {
                    let handed = call.flags.has(CallFlags::HANDED);
                    handed && beside || in_thread && !handed
                });
                found.extend(calls.filter_map(|call| self.second_loop(index, call)));
            }
        }
        self.found.append(&mut found);
    }

    /// The loop that a call starts in a thread, if it does.
    fn second_loop(&self, summary: usize, call: &Call) -> Option<Finding> {
        let (name, way) = match self.targets.of(summary, call)? {
            Target::Function(callee) => {
                let function = self.linker.function(callee).1;
                let starts = self.reach.codes(callee).any(|c| c == rule::NESTED_LOOP);
                let runs = call.flags.has(CallFlags::HANDED) || runs(function.flags, call.flags);
                if !starts || !runs || function.flags.has(FnFlags::TEST) {
                    return None;
                }
                let way = self
                    .reach
                    .trace(&self.linker, &self.targets, callee, rule::NESTED_LOOP);
                (function.name.to_string(), way)
            }
            Target::Leaf(leaf, outside)
                if leaf.code == rule::NESTED_LOOP && !outside.ends_with("new_event_loop") =>
            {
                (spoken(outside), Vec::new())
            }
            Target::Leaf(..) => return None,
        };
        let message = format!(
            "`{name}` runs a second event loop in a thread: a stop of the first one does not reach it; use \
             `asyncio.run_coroutine_threadsafe` or a task"
        );
        let path = &self.summaries[summary].path;
        let mut finding = Finding::new(path, call.place, rule::SECOND_LOOP, message);
        if !way.is_empty() {
            let first = Step {
                path: path.clone(),
                place: call.place,
                call: name,
            };
            finding.trace = std::iter::once(first).chain(way).collect();
        }
        Some(finding)
    }

    /// By number: coroutines, and what they call on the spot.
    fn on_loop(&self) -> Vec<bool> {
        let count = self.linker.function_count();
        let mut on_loop = vec![false; count];
        let is_async = |number: &u32| self.linker.flags(*number).has(FnFlags::ASYNC);
        let mut next: Vec<u32> = (0..count as u32).filter(is_async).collect();
        while let Some(number) = next.pop() {
            if std::mem::replace(&mut on_loop[number as usize], true) {
                continue;
            }
            let own = self.targets.edges_of(number).iter();
            next.extend(
                own.filter(|edge| runs(self.linker.flags(edge.callee), edge.flags))
                    .map(|edge| edge.callee),
            );
        }
        on_loop
    }

    /// Programs that run forever and never handle SIGTERM.
    fn mains(&mut self) {
        for summary in self.summaries {
            for (main, place) in &summary.facts.mains {
                let Entity::Function(main) = self.linker.resolve(summary.names.get(*main)) else {
                    continue;
                };
                if summary.facts.handles_signals
                    || self.linker.function(main).1.flags.has(FnFlags::TEST)
                {
                    continue;
                }
                let reached = reached(main, &self.targets);
                let forever = reached
                    .iter()
                    .find(|number| self.linker.function(**number).1.flags.has(FnFlags::FOREVER));
                // What asks a person is stopped by this person.
                let asks = reached.iter().any(|number| {
                    let (file, function) = self.linker.function(*number);
                    function
                        .calls
                        .iter()
                        .any(|call| file.names.get(call.target) == "builtins.input")
                });
                let handled = reached
                    .iter()
                    .any(|number| self.linker.function(*number).0.facts.handles_signals);
                if let (Some(forever), false) = (forever, handled || asks) {
                    let (_, worker) = self.linker.function(*forever);
                    let message = format!(
                        "`{}` runs forever and nothing handles SIGTERM: a stop kills it in the middle of its work; use \
                         `loop.add_signal_handler`",
                        worker.name
                    );
                    self.found.push(Finding::new(
                        &summary.path,
                        *place,
                        rule::NO_SIGTERM,
                        message,
                    ));
                }
            }
        }
    }
}

/// A main may read its settings before it first awaits: there is no other task to hold up.
fn is_forgiven(code: Code, call: &Call) -> bool {
    call.flags.has(CallFlags::AT_START) && matches!(code, rule::BLOCKING_FILE | rule::BLOCKING_PATH)
}

/// Everything that a main calls or awaits, however far down.
fn reached(main: u32, targets: &Targets) -> Vec<u32> {
    let mut seen: FxHashSet<u32> = FxHashSet::default();
    let mut order = vec![main];
    seen.insert(main);
    let mut head = 0;
    while let Some(at) = order.get(head).copied() {
        head += 1;
        let edges = targets.edges_of(at).iter();
        for edge in edges.filter(|edge| !edge.flags.has(CallFlags::HANDED)) {
            if seen.insert(edge.callee) {
                order.push(edge.callee);
            }
        }
    }
    order
}

fn is_stop(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name);
    last.split('_').any(|word| STOPS.contains(&word))
}
