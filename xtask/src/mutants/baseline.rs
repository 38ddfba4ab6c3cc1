//! The tests without any mutant: how long each takes, which mutants it reaches, and whether it can be relied on.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::build::Program;
use super::pool;
use super::record::Record;
use super::render::Id;
use super::tree::digest;
use super::trial::{self, Test, Verdict};
use crate::step::Failure;

/// The packages whose tests are used: those with the library in them.
const PACKAGES: &[&str] = &[
    "crates/adieu-lifecycle",
    "crates/adieu-core",
    "crates/adieu",
    "fixtures/actor",
    "fixtures/replica",
    "fixtures/consumer",
    "examples/web",
    "examples/worker",
    "examples/bot",
];

/// A test that takes longer is not used.
const LONGEST: Duration = Duration::from_secs(20);
/// And one that takes this long hangs.
const HANGS: Duration = Duration::from_secs(90);

#[derive(Clone, Serialize, Deserialize)]
struct Known {
    test: String,
    /// Changes with what was built.
    stamp: u64,
    millis: u64,
    reached: BTreeSet<Id>,
    /// How often it has passed and failed without a mutant.
    passed: u32,
    failed: u32,
}

pub(super) struct Baseline {
    pub(super) tests: Vec<(Test, Duration)>,
    /// For each mutant, the tests that reach it, by their place in `tests`; the fastest of each program first.
    pub(super) reaching: BTreeMap<Id, Vec<usize>>,
    /// Failed once and passed once.
    pub(super) flaky: Vec<String>,
    /// Failed each time.
    pub(super) red: Vec<String>,
    /// Passed, and too slow to be used.
    pub(super) slow: Vec<String>,
}

impl Baseline {
    /// Runs what is not known from last time: every test once with a trace and once without.
    pub(super) fn take(programs: &[Program], folder: &Path) -> Result<Self, Failure> {
        let traces = folder.join("traces");
        fs::create_dir_all(&traces)?;
        let record = Record::<Known>::open(folder.join("baseline.jsonl"))?;
        let before: BTreeMap<String, Known> = record
            .read()
            .into_iter()
            .map(|known| (known.test.clone(), known))
            .collect();
        let mut tests: Vec<(Test, u64)> = Vec::new();
        for package in PACKAGES {
            let (with_tests, started): (Vec<&Program>, Vec<&Program>) = programs
                .iter()
                .filter(|it| it.package == *package)
                .partition(|it| it.has_tests);
            for program in with_tests {
                // What it does depends on itself, and on what it starts.
                let parts = started.iter().chain([&program]).map(|it| &it.executable);
                let bytes = parts.map(fs::read).collect::<Result<Vec<_>, _>>()?;
                let stamp = digest(bytes);
                tests.extend(trial::list(program)?.into_iter().map(|test| (test, stamp)));
            }
        }
        tests.sort();
        let mut known: BTreeMap<String, Known> = tests
            .iter()
            .filter_map(|(test, stamp)| {
                let found = before.get(&test.shown())?;
                (found.stamp == *stamp).then(|| (test.shown(), found.clone()))
            })
            .collect();
        let fresh: Vec<&(Test, u64)> = tests
            .iter()
            .filter(|(test, _)| !known.contains_key(&test.shown()))
            .collect();
        println!(
            "{} tests, {} of them not known from last time",
            tests.len(),
            fresh.len()
        );
        let first = Mutex::new(BTreeMap::new());
        pool::run("baseline", &fresh, |bench, (test, stamp)| {
            let trace = traces.join(format!("{:016x}.txt", digest([test.shown()])));
            let _ = fs::remove_file(&trace);
            let mut trials = vec![bench.run(test, None, Some(&trace), HANGS)?];
            // A second time without a trace: one that fails once and passes once cannot be relied on.
            trials.push(bench.run(test, None, None, HANGS)?);
            let passed = trials
                .iter()
                .filter(|it| it.verdict == Verdict::Passed)
                .count();
            let took = trials.iter().map(|it| it.took).max().unwrap_or_default();
            let reached = fs::read_to_string(&trace)
                .unwrap_or_default()
                .lines()
                .filter_map(|line| line.parse().ok())
                .collect();
            let result = Known {
                test: test.shown(),
                stamp: *stamp,
                millis: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
                reached,
                passed: u32::try_from(passed).unwrap_or(0),
                failed: u32::try_from(trials.len() - passed).unwrap_or(0),
            };
            record.append(&result)?;
            pool::lock(&first).insert(test.shown(), result);
            Ok(())
        })?;
        known.extend(first.into_inner().unwrap_or_default());
        Ok(Self::sorted(tests, &known))
    }

    fn sorted(tests: Vec<(Test, u64)>, known: &BTreeMap<String, Known>) -> Self {
        let mut baseline = Self {
            tests: Vec::new(),
            reaching: BTreeMap::new(),
            flaky: Vec::new(),
            red: Vec::new(),
            slow: Vec::new(),
        };
        for (test, _) in tests {
            let name = test.shown();
            let Some(found) = known.get(&name) else {
                continue;
            };
            let took = Duration::from_millis(found.millis);
            match (found.passed, found.failed) {
                (0, _) => baseline.red.push(name),
                (_, 1..) => baseline.flaky.push(name),
                _ if took > LONGEST => baseline.slow.push(name),
                _ => {
                    let index = baseline.tests.len();
                    for id in &found.reached {
                        baseline.reaching.entry(*id).or_default().push(index);
                    }
                    baseline.tests.push((test, took));
                }
            }
        }
        for indices in baseline.reaching.values_mut() {
            in_turns(indices, &baseline.tests);
        }
        baseline
    }
}

/// The fastest of each program, then the second of each: what one kind of test cannot see another may.
fn in_turns(indices: &mut [usize], tests: &[(Test, Duration)]) {
    indices.sort_by_key(|index| tests[*index].1);
    let mut places = BTreeMap::new();
    let turn: BTreeMap<usize, (usize, Duration)> = indices
        .iter()
        .map(|index| {
            let (test, took) = &tests[*index];
            let place = places.entry(&test.executable).or_insert(0_usize);
            *place += 1;
            (*index, (*place, *took))
        })
        .collect();
    indices.sort_by_key(|index| turn[index]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_has_its_turn() {
        let test = |program: &str, millis: u64| {
            let test = Test {
                package: program.to_owned(),
                target: program.to_owned(),
                name: millis.to_string(),
                executable: program.into(),
                folder: program.into(),
            };
            (test, Duration::from_millis(millis))
        };
        let tests = [
            test("quick", 3),
            test("quick", 1),
            test("slow", 900),
            test("quick", 2),
            test("slow", 800),
        ];
        let mut indices = [0, 1, 2, 3, 4];
        in_turns(&mut indices, &tests);
        assert_eq!(indices, [1, 4, 3, 2, 0]);
    }
}
