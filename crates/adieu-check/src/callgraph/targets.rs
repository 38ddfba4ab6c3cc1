//! Where every call of the program leads, decided once.

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;
use rustc_hash::FxHashSet;

use super::link::{Entity, Linker};
use super::summary::{Call, CallFlags, FileSummary, FnFlags};
use crate::rule::Code;

/// A call outside the project that must not happen on the event loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Leaf {
    pub(crate) code: Code,
    /// The advice, said after the name of the call.
    pub(crate) instead: &'static str,
    /// A zero timeout makes it harmless.
    pub(crate) pollable: bool,
    /// Through how many functions of the project it is followed. Each hop makes it less likely
    /// that the way is taken at all; what waits shortly is not worth a long shot.
    pub(crate) hops: u32,
}

/// What blocks outside the project, by its canonical name.
pub(crate) type Blocks<'b> = dyn Fn(&str) -> Option<Leaf> + Sync + 'b;

/// Where a call leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target<'t> {
    /// Outside the project, by its canonical name.
    Leaf(Leaf, &'t str),
    Function(u32),
}

/// A call that leads to a function of the project.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Edge {
    pub(crate) caller: u32,
    pub(crate) callee: u32,
    /// Which of the caller's calls it is.
    pub(crate) at: u32,
    pub(crate) flags: CallFlags,
}

/// A call that runs a leaf for sure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeafCall {
    pub(crate) caller: u32,
    pub(crate) at: u32,
    pub(crate) leaf: Leaf,
}

/// The decided targets of all calls.
pub(crate) struct Targets {
    summaries: Vec<FileTargets>,
    /// In the order of their callers.
    edges: Vec<Edge>,
    /// For each function the number of its first edge, and the number of all at the end.
    first_edge: Vec<u32>,
    leaf_calls: Vec<LeafCall>,
}

/// The targets of one summary's names.
struct FileTargets {
    packed: Vec<PackedTarget>,
    leaves: Vec<(Leaf, Arc<str>)>,
}

/// One target in four bytes: there are millions, and few lead anywhere.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct PackedTarget(u32);

impl PackedTarget {
    const NOWHERE: PackedTarget = PackedTarget(0);

    const fn function(number: u32) -> PackedTarget {
        PackedTarget(number << 1 | 1)
    }

    const fn leaf(index: usize) -> PackedTarget {
        PackedTarget((index as u32 + 1) << 1)
    }
}

impl FileTargets {
    fn of(&self, call: &Call) -> Option<Target<'_>> {
        match *self.packed.get(call.target as usize)? {
            PackedTarget::NOWHERE => None,
            PackedTarget(odd) if odd & 1 == 1 => Some(Target::Function(odd >> 1)),
            PackedTarget(even) => {
                let (leaf, outside) = self.leaves.get((even >> 1) as usize - 1)?;
                Some(Target::Leaf(*leaf, outside))
            }
        }
    }
}

impl Targets {
    /// Resolves each path of each summary once, on all cores. `leaf` knows what blocks outside the
    /// project.
    pub(crate) fn resolve(
        linker: &Linker<'_>,
        summaries: &[FileSummary],
        leaf: &Blocks<'_>,
    ) -> Targets {
        let properties = &properties(summaries);
        // Each worker keeps what it has resolved: one share for each, as heavy as the others.
        let shares = shares(summaries, rayon::current_num_threads());
        let decided = shares.into_par_iter().map(|share| {
            let mut linker = linker.fresh();
            let mut all = Share::default();
            for index in share {
                all.decide(&mut linker, index, &summaries[index], properties, leaf);
            }
            all
        });
        let mut targets = Targets {
            summaries: Vec::with_capacity(summaries.len()),
            edges: Vec::new(),
            first_edge: Vec::with_capacity(linker.function_count() + 1),
            leaf_calls: Vec::new(),
        };
        for mut share in decided.collect::<Vec<_>>() {
            targets.summaries.append(&mut share.summaries);
            targets.edges.append(&mut share.edges);
            targets.leaf_calls.append(&mut share.leaf_calls);
        }
        let mut at = 0;
        for function in 0..linker.function_count() as u32 {
            targets.first_edge.push(at as u32);
            let own = targets.edges[at..].iter();
            at += own.take_while(|edge| edge.caller == function).count();
        }
        targets.first_edge.push(at as u32);
        targets
    }

    pub(crate) fn of(&self, summary: usize, call: &Call) -> Option<Target<'_>> {
        self.summaries.get(summary)?.of(call)
    }

    /// All calls within the project, in the order of their callers.
    pub(crate) fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// The calls within the project that a function makes.
    pub(crate) fn edges_of(&self, function: u32) -> &[Edge] {
        let first = self.first_edge[function as usize] as usize;
        let end = self.first_edge[function as usize + 1] as usize;
        &self.edges[first..end]
    }

    pub(crate) fn leaf_calls(&self) -> &[LeafCall] {
        &self.leaf_calls
    }
}

/// The summaries in as many runs as there are workers, with as many names in each.
fn shares(summaries: &[FileSummary], workers: usize) -> Vec<Range<usize>> {
    let names: usize = summaries.iter().map(|summary| summary.names.len()).sum();
    let fair = names.div_ceil(workers.max(1)).max(1);
    let (mut shares, mut start, mut heavy) = (Vec::new(), 0, 0);
    for (index, summary) in summaries.iter().enumerate() {
        heavy += summary.names.len();
        if heavy >= fair {
            shares.push(start..index + 1);
            (start, heavy) = (index + 1, 0);
        }
    }
    shares.push(start..summaries.len());
    shares
}

/// The names that mean a call when they are read.
fn properties(summaries: &[FileSummary]) -> FxHashSet<&str> {
    let functions = summaries.iter().flat_map(|summary| &summary.functions);
    functions
        .filter(|function| function.flags.has(FnFlags::PROPERTY))
        .filter_map(|function| function.name.rsplit('.').next())
        .collect()
}

/// What one worker has decided.
#[derive(Default)]
struct Share {
    summaries: Vec<FileTargets>,
    edges: Vec<Edge>,
    leaf_calls: Vec<LeafCall>,
}

impl Share {
    fn decide(
        &mut self,
        linker: &mut Linker<'_>,
        index: usize,
        summary: &FileSummary,
        properties: &FxHashSet<&str>,
        leaf: &Blocks<'_>,
    ) {
        let targets = decide(linker, summary, properties, leaf);
        for (function, body) in summary.functions.iter().enumerate() {
            let caller = linker.function_number(index, function);
            for (at, call) in body.calls.iter().enumerate() {
                let at = at as u32;
                match targets.of(call) {
                    Some(Target::Function(callee)) => self.edges.push(Edge {
                        caller,
                        callee,
                        at,
                        flags: call.flags,
                    }),
                    Some(Target::Leaf(leaf, outside)) if blocks(call, leaf, outside) => {
                        self.leaf_calls.push(LeafCall { caller, at, leaf });
                    }
                    _ => {}
                }
            }
        }
        self.summaries.push(targets);
    }
}

fn decide(
    linker: &mut Linker<'_>,
    summary: &FileSummary,
    properties: &FxHashSet<&str>,
    leaf: &Blocks<'_>,
) -> FileTargets {
    let mut packed = vec![PackedTarget::NOWHERE; summary.names.len()];
    let mut leaves: Vec<(Leaf, Arc<str>)> = Vec::new();
    let mut done = vec![false; summary.names.len()];
    for call in summary
        .functions
        .iter()
        .flat_map(|function| &function.calls)
    {
        let at = call.target as usize;
        if std::mem::replace(&mut done[at], true) {
            continue;
        }
        let path = summary.names.get(call.target);
        // Most attributes that are read are not properties, and need not be looked for.
        if let Some((_, read)) = path.rsplit_once(".?")
            && !properties.contains(read)
        {
            continue;
        }
        let entity = match linker.resolve(path) {
            // Making an instance runs its constructor.
            Entity::Class(_) => linker.resolve(&format!("{path}().__init__")),
            // So does calling one, if its class can be called.
            Entity::Instance(_) => linker.resolve(&format!("{path}.__call__")),
            Entity::External(outside) => {
                if let Some(leaf) = leaf(&outside) {
                    packed[at] = PackedTarget::leaf(leaves.len());
                    leaves.push((leaf, outside));
                }
                continue;
            }
            other => other,
        };
        if let Entity::Function(number) = entity {
            packed[at] = PackedTarget::function(number);
        }
    }
    FileTargets { packed, leaves }
}

/// Whether a call runs the leaf for sure: not a poll, and not a name whose value is awaited (then
/// it is the asynchronous namesake).
pub(crate) fn blocks(call: &Call, leaf: Leaf, path: &str) -> bool {
    let by_type = path.contains("()");
    !(leaf.pollable && call.flags.has(CallFlags::POLLS)
        || by_type && call.flags.has(CallFlags::AWAITED))
}

/// Whether calling runs the body of this ordinary function right here.
pub(crate) fn runs(function: FnFlags, call: CallFlags) -> bool {
    !call.has(CallFlags::HANDED)
        && !function.has(FnFlags::ASYNC)
        && !function.has(FnFlags::CALLBACK)
        && !function.has(FnFlags::OPAQUE)
        && !function.has(FnFlags::TEST)
        && (!function.has(FnFlags::GENERATOR) || call.has(CallFlags::ITERATED))
}

/// A path as a person would say it: `queue.Queue().get` is `queue.Queue.get`.
pub(crate) fn spoken(path: &str) -> String {
    path.strip_prefix("builtins.")
        .unwrap_or(path)
        .replace("()", "")
        .replace('!', "")
}
