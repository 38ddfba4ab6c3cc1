//! Spreads what blocks from callee to caller, and tells the way back down.

use super::link::Linker;
use super::summary::{Call, FileSummary, FnFlags, Function};
use super::targets::{Target, Targets, runs, spoken};
use crate::finding::Step;
use crate::rule::Code;

/// How a function gets to a leaf of one rule.
#[derive(Debug, Clone, Copy)]
struct WayDown {
    code: Code,
    /// The call to make next, by its index in the function.
    call: u32,
}

/// One function on a way down, and the call it makes there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hop<'l> {
    pub(crate) file: &'l FileSummary,
    pub(crate) function: &'l Function,
    pub(crate) call: &'l Call,
}

/// For each function, the rules it breaks when run on the event loop.
pub(crate) struct Reach {
    ways: Vec<Vec<WayDown>>,
}

impl Reach {
    /// Breadth first from the leaves, so that each way is a shortest one.
    pub(crate) fn new(linker: &Linker<'_>, targets: &Targets) -> Reach {
        let mut ways: Vec<Vec<WayDown>> = vec![Vec::new(); linker.function_count()];
        let mut queue: Vec<Reached> = Vec::new();
        for call in targets.leaf_calls() {
            let reached = Reached {
                function: call.caller,
                code: call.leaf.code,
                hops: call.leaf.hops,
            };
            add(&mut ways, &mut queue, reached, call.at);
        }
        let callers = Callers::of(linker, targets);
        let mut head = 0;
        while let Some(Reached {
            function: callee,
            code,
            hops,
        }) = queue.get(head).copied()
        {
            head += 1;
            // What an async function or a callback does is its own finding, not its caller's.
            let flags = linker.flags(callee);
            if hops == 0 || flags.has(FnFlags::ASYNC) || flags.has(FnFlags::CALLBACK) {
                continue;
            }
            for (caller, at) in callers.to(callee) {
                let reached = Reached {
                    function: *caller,
                    code,
                    hops: hops - 1,
                };
                add(&mut ways, &mut queue, reached, *at);
            }
        }
        Reach { ways }
    }

    /// The rules that a call of this function breaks.
    pub(crate) fn codes(&self, function: u32) -> impl Iterator<Item = Code> + '_ {
        self.ways[function as usize].iter().map(|way| way.code)
    }

    /// The functions from `function` down to the one that makes the call of the leaf, with the call
    /// each makes on the way.
    pub(crate) fn through<'l>(
        &self,
        linker: &Linker<'l>,
        targets: &Targets,
        function: u32,
        code: Code,
    ) -> Vec<Hop<'l>> {
        let mut through = Vec::new();
        let mut at = function;
        for _ in 0..self.ways.len() {
            let Some(way) = self.ways[at as usize].iter().find(|way| way.code == code) else {
                break;
            };
            let (file, function) = linker.function(at);
            let call = &function.calls[way.call as usize];
            through.push(Hop {
                file,
                function,
                call,
            });
            match targets.of(linker.summary_of(at), call) {
                Some(Target::Function(callee)) => at = callee,
                _ => break,
            }
        }
        through
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
            let (summary, body) = linker.function(at);
            let call = &body.calls[way.call as usize];
            let mut step = Step {
                path: summary.path.clone(),
                place: call.place,
                call: String::new(),
            };
            match targets.of(linker.summary_of(at), call) {
                Some(Target::Function(callee)) => {
                    step.call = linker.function(callee).1.name.to_string();
                    at = callee;
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

/// Who runs whom: for each function its callers, one behind the other.
struct Callers {
    /// For each function the number of its first caller, and the number of all at the end.
    first: Vec<u32>,
    /// The caller, and which of its calls it is.
    all: Vec<(u32, u32)>,
}

impl Callers {
    fn of(linker: &Linker<'_>, targets: &Targets) -> Callers {
        let run = || {
            let edges = targets.edges().iter();
            edges.filter(|edge| runs(linker.flags(edge.callee), edge.flags))
        };
        let mut first = vec![0; linker.function_count() + 1];
        for edge in run() {
            first[edge.callee as usize + 1] += 1;
        }
        for function in 1..first.len() {
            first[function] += first[function - 1];
        }
        let mut next = first.clone();
        let mut all = vec![(0, 0); first.last().map_or(0, |count| *count as usize)];
        for edge in run() {
            let place = &mut next[edge.callee as usize];
            all[*place as usize] = (edge.caller, edge.at);
            *place += 1;
        }
        Callers { first, all }
    }

    fn to(&self, callee: u32) -> &[(u32, u32)] {
        let first = self.first[callee as usize] as usize;
        let end = self.first[callee as usize + 1] as usize;
        &self.all[first..end]
    }
}

/// A function found to reach a leaf, and how much further that may spread.
#[derive(Debug, Clone, Copy)]
struct Reached {
    function: u32,
    code: Code,
    hops: u32,
}

fn add(ways: &mut [Vec<WayDown>], queue: &mut Vec<Reached>, reached: Reached, call: u32) {
    let ways = &mut ways[reached.function as usize];
    if !ways.iter().any(|way| way.code == reached.code) {
        ways.push(WayDown {
            code: reached.code,
            call,
        });
        queue.push(reached);
    }
}
