//! Each mutant against the tests that reach it.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::baseline::Baseline;
use super::plan::Plan;
use super::pool::{self, lock};
use super::record::Record;
use super::render::Id;
use super::trial::{Bench, Verdict};
use crate::step::Failure;

/// A test that takes this many times as long as without a mutant hangs, and at least so long.
const PATIENCE: (u32, Duration) = (10, Duration::from_secs(10));

/// How a mutant fared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Fate {
    /// This test failed.
    Caught(String),
    /// This test did not end.
    TimedOut(String),
    /// All the tests that reach it passed, so many.
    Survived(usize),
    /// The fastest tests passed, so many, and there was no time for the rest.
    SurvivedSome(usize, usize),
    Unreached,
}

impl Fate {
    pub(super) const fn is_caught(&self) -> bool {
        matches!(self, Self::Caught(_) | Self::TimedOut(_))
    }
}

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Judged {
    pub(super) key: String,
    /// The content of the file it is in.
    digest: u64,
    pub(super) fate: Fate,
}

/// Runs the mutants that are not known to be caught. A survivor of last time is tried again: there may be new tests.
pub(super) fn judge(
    plan: &Plan,
    baseline: &Baseline,
    chosen: &[Id],
    folder: &Path,
    budget: Duration,
    fresh: bool,
) -> Result<BTreeMap<Id, Fate>, Failure> {
    let record = Record::<Judged>::open(folder.join("results.jsonl"))?;
    let before: HashMap<String, Judged> = record
        .read()
        .into_iter()
        .map(|judged| (judged.key.clone(), judged))
        .collect();
    let mut fates = BTreeMap::new();
    let mut open = Vec::new();
    for id in chosen {
        let mutant = &plan.mutants[*id as usize];
        let known = before.get(&mutant.key()).filter(|judged| {
            !fresh
                && judged.fate.is_caught()
                && plan.digests.get(&mutant.file) == Some(&judged.digest)
        });
        match known {
            Some(judged) => _ = fates.insert(*id, judged.fate.clone()),
            None => open.push(*id),
        }
    }
    println!(
        "{} mutants, {} of them not known from last time",
        chosen.len(),
        open.len()
    );
    let fates = Mutex::new(fates);
    let killers = Mutex::new(known_killers(baseline, before.values()));
    pool::run("mutants", &open, |bench, id| {
        let mutant = &plan.mutants[*id as usize];
        let favourites = lock(&killers)
            .get(&mutant.file)
            .cloned()
            .unwrap_or_default();
        let (fate, killer) = try_one(baseline, *id, bench, budget, &favourites)?;
        if let Some(killer) = killer {
            *lock(&killers)
                .entry(mutant.file.clone())
                .or_default()
                .entry(killer)
                .or_default() += 1;
        }
        record.append(&Judged {
            key: mutant.key(),
            digest: plan.digests.get(&mutant.file).copied().unwrap_or(0),
            fate: fate.clone(),
        })?;
        lock(&fates).insert(*id, fate);
        Ok(())
    })?;
    Ok(fates.into_inner().unwrap_or_default())
}

/// For each file, how many mutants of it each test has caught.
type Killers = HashMap<String, HashMap<usize, u32>>;

fn known_killers<'a>(baseline: &Baseline, judged: impl Iterator<Item = &'a Judged>) -> Killers {
    let tests = baseline.tests.iter().zip(0..);
    let tests: HashMap<String, usize> = tests.map(|((test, _), at)| (test.shown(), at)).collect();
    let mut killers = Killers::new();
    for judged in judged {
        if let Fate::Caught(test) = &judged.fate
            && let Some(index) = tests.get(test)
            && let Some((file, _)) = judged.key.split_once('|')
        {
            let of_file = killers.entry(file.to_owned()).or_default();
            *of_file.entry(*index).or_default() += 1;
        }
    }
    killers
}

/// The fate, and which test decided it.
fn try_one(
    baseline: &Baseline,
    id: Id,
    bench: &Bench,
    budget: Duration,
    favourites: &HashMap<usize, u32>,
) -> Result<(Fate, Option<usize>), Failure> {
    let Some(reaching) = baseline.reaching.get(&id) else {
        return Ok((Fate::Unreached, None));
    };
    let order = order(reaching, favourites, |index| baseline.tests[index].1);
    let mut spent = Duration::ZERO;
    for (tried, index) in order.iter().enumerate() {
        let (test, usual) = &baseline.tests[*index];
        if spent > budget {
            return Ok((Fate::SurvivedSome(tried, order.len()), None));
        }
        let limit = (*usual * PATIENCE.0).max(PATIENCE.1);
        let trial = bench.run(test, Some(id), None, limit)?;
        spent += trial.took;
        match trial.verdict {
            Verdict::Passed => {}
            Verdict::Failed => return Ok((Fate::Caught(test.shown()), Some(*index))),
            Verdict::TimedOut => return Ok((Fate::TimedOut(test.shown()), Some(*index))),
        }
    }
    Ok((Fate::Survived(order.len()), None))
}

/// First the few that have caught the most in the same file, then the fastest of each program in turns.
fn order(
    reaching: &[usize],
    favourites: &HashMap<usize, u32>,
    took: impl Fn(usize) -> Duration,
) -> Vec<usize> {
    const FEW: usize = 12;
    // Slow ones take the place of many fast ones.
    const AT_MOST: Duration = Duration::from_secs(4);
    let mut first: Vec<usize> = reaching
        .iter()
        .copied()
        .filter(|index| favourites.contains_key(index))
        .collect();
    // The gain is what it catches for the time it takes.
    first.sort_by_key(|index| std::cmp::Reverse(favourites[index] * 1_000 / cost(took(*index))));
    let mut spent = Duration::ZERO;
    first.retain(|index| {
        spent += took(*index);
        spent <= AT_MOST
    });
    first.truncate(FEW);
    let rest: Vec<usize> = reaching
        .iter()
        .copied()
        .filter(|index| !first.contains(index))
        .collect();
    first.into_iter().chain(rest).collect()
}

fn cost(took: Duration) -> u32 {
    u32::try_from(took.as_millis()).unwrap_or(u32::MAX).max(20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_catchers_come_first_and_then_the_fastest() {
        let favourites = HashMap::from([(2, 3), (9, 50)]);
        assert_eq!(
            order(&[0, 1, 2, 3], &favourites, |_| Duration::from_millis(50)),
            [2, 0, 1, 3]
        );
    }
}
