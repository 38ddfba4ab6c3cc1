//! Spreads what blocks from callee to caller, and tells the way back down.

use std::sync::Arc;

use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};

use super::link::{Entity, Linker};
use super::unit::{Call, CallFlags, FnFlags, Unit};
use crate::finding::Step;
use crate::rule::Code;

/// A call outside the project that must not happen on the event loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Leaf {
    pub(crate) code: Code,
    /// The advice, said after the name of the call.
    pub(crate) instead: &'static str,
    /// A zero time-out makes it harmless.
    pub(crate) pollable: bool,
    /// Through how many functions of the project it is followed. Each hop makes it less likely
    /// that the way is taken at all; what waits shortly is not worth a long shot.
    pub(crate) hops: u32,
}

/// Where a call leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// Outside the project, in its usual spelling.
    Leaf(Leaf, Arc<str>),
    Function(u32),
}

/// The decided targets of all calls, by unit and name.
pub(crate) struct Targets(Vec<Vec<Option<Target>>>);

impl Targets {
    /// Resolves each path of each unit once, on all cores. `leaf` knows what blocks outside the
    /// project.
    pub(crate) fn resolve(
        linker: &Linker<'_>,
        units: &[Unit],
        leaf: fn(&str) -> Option<Leaf>,
    ) -> Targets {
        // Each worker keeps what it has resolved: few chunks share more than many would.
        let chunk = units.len().div_ceil(rayon::current_num_threads()).max(1);
        let properties = &properties(units);
        let targets = units.par_chunks(chunk).flat_map_iter(|units| {
            let mut linker = linker.fresh();
            units
                .iter()
                .map(move |unit| decide(&mut linker, unit, properties, leaf))
        });
        Targets(targets.collect())
    }

    pub(crate) fn of(&self, unit: usize, call: &Call) -> Option<&Target> {
        self.0
            .get(unit)
            .and_then(|names| names.get(call.target as usize))
            .and_then(Option::as_ref)
    }
}

/// The names that mean a call when they are read.
fn properties(units: &[Unit]) -> FxHashSet<&str> {
    let functions = units.iter().flat_map(|unit| &unit.functions);
    functions
        .filter(|function| function.flags.has(FnFlags::PROPERTY))
        .filter_map(|function| function.name.rsplit('.').next())
        .collect()
}

/// The targets of one unit's names.
fn decide(
    linker: &mut Linker<'_>,
    unit: &Unit,
    properties: &FxHashSet<&str>,
    leaf: fn(&str) -> Option<Leaf>,
) -> Vec<Option<Target>> {
    let mut targets: Vec<Option<Target>> = vec![None; unit.names.len()];
    let mut done = vec![false; unit.names.len()];
    for call in unit.functions.iter().flat_map(|function| &function.calls) {
        let at = call.target as usize;
        if std::mem::replace(&mut done[at], true) {
            continue;
        }
        let path = unit.names.get(call.target);
        // Most of what is read is no property, and need not be looked for.
        if let Some((_, read)) = path.rsplit_once(".?")
            && !properties.contains(read)
        {
            continue;
        }
        targets[at] = match linker.resolve(path) {
            Entity::Function(number) => Some(Target::Function(number)),
            Entity::External(outside) => leaf(&outside).map(|leaf| Target::Leaf(leaf, outside)),
            // Making an instance runs its constructor.
            Entity::Class(_) => match linker.resolve(&format!("{path}().__init__")) {
                Entity::Function(number) => Some(Target::Function(number)),
                _ => None,
            },
            // So does calling one, if its class can be called.
            Entity::Instance(_) => match linker.resolve(&format!("{path}.__call__")) {
                Entity::Function(number) => Some(Target::Function(number)),
                _ => None,
            },
            _ => None,
        };
    }
    targets
}

/// How a function gets to a leaf of one rule.
#[derive(Debug, Clone, Copy)]
struct Way {
    code: Code,
    /// The call to make next, by its index in the function.
    call: u32,
}

/// For each function, the rules it breaks when run on the event loop.
pub(crate) struct Reach {
    ways: Vec<Vec<Way>>,
}

/// Whether a call runs the leaf for sure: not a poll, and not a name whose value is awaited (then
/// it is the asynchronous namesake).
pub(crate) fn blocks(call: &Call, leaf: Leaf, path: &str) -> bool {
    let by_type = path.contains("()");
    !(leaf.pollable && call.flags.has(CallFlags::POLLS)
        || by_type && call.flags.has(CallFlags::AWAITED))
}

/// Whether calling runs the body of this ordinary function right here.
pub(crate) fn runs(flags: FnFlags, call: &Call) -> bool {
    !call.flags.has(CallFlags::HANDED)
        && !flags.has(FnFlags::ASYNC)
        && !flags.has(FnFlags::CALLBACK)
        && !flags.has(FnFlags::OPAQUE)
        && !flags.has(FnFlags::TEST)
        && (!flags.has(FnFlags::GENERATOR) || call.flags.has(CallFlags::ITERATED))
}

impl Reach {
    /// Breadth first from the leaves, so that each way is a shortest one.
    pub(crate) fn new(linker: &Linker<'_>, units: &[Unit], targets: &Targets) -> Reach {
        let count = linker.function_count();
        let mut ways: Vec<Vec<Way>> = vec![Vec::new(); count];
        let mut callers: FxHashMap<u32, Vec<(u32, u32)>> = FxHashMap::default();
        let mut queue: Vec<Reached> = Vec::new();
        for (unit_index, unit) in units.iter().enumerate() {
            for (index, function) in unit.functions.iter().enumerate() {
                let number = linker.function_number(unit_index, index);
                for (at, call) in function.calls.iter().enumerate() {
                    match targets.of(unit_index, call) {
                        Some(Target::Leaf(leaf, outside)) if blocks(call, *leaf, outside) => {
                            let reached = Reached {
                                function: number,
                                code: leaf.code,
                                hops: leaf.hops,
                            };
                            add(&mut ways[number as usize], &mut queue, reached, at);
                        }
                        Some(Target::Function(callee))
                            if runs(linker.function(*callee).1.flags, call) =>
                        {
                            callers
                                .entry(*callee)
                                .or_default()
                                .push((number, at as u32));
                        }
                        _ => {}
                    }
                }
            }
        }
        let mut head = 0;
        while let Some(Reached {
            function: callee,
            code,
            hops,
        }) = queue.get(head).copied()
        {
            head += 1;
            // What an async function or a callback does is its own finding, not its caller's.
            let flags = linker.function(callee).1.flags;
            if hops == 0 || flags.has(FnFlags::ASYNC) || flags.has(FnFlags::CALLBACK) {
                continue;
            }
            for (caller, at) in callers.get(&callee).into_iter().flatten() {
                let reached = Reached {
                    function: *caller,
                    code,
                    hops: hops - 1,
                };
                add(
                    &mut ways[*caller as usize],
                    &mut queue,
                    reached,
                    *at as usize,
                );
            }
        }
        Reach { ways }
    }

    /// The rules that a call of this function breaks.
    pub(crate) fn codes(&self, function: u32) -> impl Iterator<Item = Code> + '_ {
        self.ways[function as usize].iter().map(|way| way.code)
    }

    /// The steps from inside `function` down to the leaf.
    pub(crate) fn trace(
        &self,
        linker: &Linker<'_>,
        targets: &Targets,
        function: u32,
        code: Code,
    ) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut at = function;
        // Each step is strictly nearer to the leaf; the bound only guards against a broken table.
        for _ in 0..self.ways.len() {
            let Some(way) = self.ways[at as usize].iter().find(|way| way.code == code) else {
                break;
            };
            let (unit, body) = linker.function(at);
            let call = &body.calls[way.call as usize];
            let mut step = Step {
                path: unit.path.clone(),
                place: call.place,
                call: String::new(),
            };
            match targets.of(linker.unit_of(at), call) {
                Some(Target::Function(callee)) => {
                    step.call = linker.function(*callee).1.name.to_string();
                    at = *callee;
                    steps.push(step);
                }
                Some(Target::Leaf(_, outside)) => {
                    step.call = spoken(outside);
                    steps.push(step);
                    break;
                }
                None => break,
            }
        }
        steps
    }
}

/// A function found to reach a leaf, and how much further that may spread.
#[derive(Debug, Clone, Copy)]
struct Reached {
    function: u32,
    code: Code,
    hops: u32,
}

fn add(ways: &mut Vec<Way>, queue: &mut Vec<Reached>, reached: Reached, call: usize) {
    if !ways.iter().any(|way| way.code == reached.code) {
        ways.push(Way {
            code: reached.code,
            call: call as u32,
        });
        queue.push(reached);
    }
}

/// A path as a person would say it: `queue.Queue().get` is `queue.Queue.get`.
pub(crate) fn spoken(path: &str) -> String {
    path.strip_prefix("builtins.")
        .unwrap_or(path)
        .replace("()", "")
        .replace('!', "")
}
