//! What came of it: the figures, and the survivors.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::json;

use super::accepted::Accepted;
use super::judge::Fate;
use super::modules::MODULES;
use super::plan::Plan;
use super::render::Id;
use super::site::Mutant;

/// The share of viable mutants that has to be caught, in percent.
pub(super) const BAR: usize = 90;

#[derive(Clone, Copy, Default)]
pub(super) struct Count {
    pub(super) viable: usize,
    pub(super) caught: usize,
    pub(super) accepted: usize,
}

impl Count {
    /// In tenths of a percent, rounded down.
    fn permille(self) -> usize {
        self.caught * 1_000 / self.viable.max(1)
    }

    pub(super) fn survivors(self) -> usize {
        self.viable - self.caught - self.accepted
    }

    pub(super) fn is_enough(self) -> bool {
        self.permille() >= BAR * 10
    }
}

pub(super) struct Page<'a> {
    plan: &'a Plan,
    fates: &'a BTreeMap<Id, Fate>,
    accepted: &'a [Accepted],
}

impl<'a> Page<'a> {
    pub(super) const fn new(
        plan: &'a Plan,
        fates: &'a BTreeMap<Id, Fate>,
        accepted: &'a [Accepted],
    ) -> Self {
        Self {
            plan,
            fates,
            accepted,
        }
    }

    fn mutant(&self, id: Id) -> &Mutant {
        &self.plan.mutants[id as usize]
    }

    fn excuse(&self, id: Id) -> Option<&Accepted> {
        self.accepted.iter().find(|it| it.is(self.mutant(id)))
    }

    pub(super) fn count(&self, module: Option<&str>) -> Count {
        let mut count = Count::default();
        for (id, fate) in self.fates {
            if module.is_none_or(|name| name == self.mutant(*id).module) {
                count.viable += 1;
                if fate.is_caught() {
                    count.caught += 1;
                } else if self.excuse(*id).is_some() {
                    count.accepted += 1;
                }
            }
        }
        count
    }

    /// Entries of the list whose mutant is there and was caught, or is not there at all.
    pub(super) fn stale(&self) -> Vec<&Accepted> {
        self.accepted
            .iter()
            .filter(|it| {
                let mut found = self
                    .plan
                    .viable()
                    .filter(|(_, mutant)| it.is(mutant))
                    .peekable();
                found.peek().is_none()
                    || found.any(|(id, _)| self.fates.get(&id).is_some_and(Fate::is_caught))
            })
            .collect()
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for (id, fate) in self.fates {
            if fate.is_caught() || self.excuse(*id).is_some() {
                continue;
            }
            let mutant = self.mutant(*id);
            let _ = writeln!(
                text,
                "survived: {}:{} {}: {}: {} ({})",
                mutant.file,
                mutant.line,
                mutant.function,
                mutant.operator,
                mutant.text,
                words(fate)
            );
        }
        let _ = writeln!(
            text,
            "{:<14}{:>7}{:>8}{:>7}{:>10}{:>10}",
            "module", "viable", "caught", "%", "accepted", "survived"
        );
        let modules = MODULES.iter().map(|module| Some(module.name));
        for name in modules.chain([None]) {
            let count = self.count(name);
            if count.viable > 0 {
                let share = count.permille();
                let _ = writeln!(
                    text,
                    "{:<14}{:>7}{:>8}{:>5}.{}{:>10}{:>10}",
                    name.unwrap_or("in all"),
                    count.viable,
                    count.caught,
                    share / 10,
                    share % 10,
                    count.accepted,
                    count.survivors()
                );
            }
        }
        text
    }

    pub(super) fn json(&self) -> String {
        let one = |(id, fate): (&Id, &Fate)| {
            let mutant = self.mutant(*id);
            json!({
                "module": mutant.module,
                "file": mutant.file,
                "line": mutant.line,
                "function": mutant.function,
                "operator": mutant.operator,
                "text": mutant.text,
                "nth": mutant.nth,
                "caught": fate.is_caught(),
                "fate": words(fate),
                "accepted": self.excuse(*id).map(|it| it.reason.as_str()),
            })
        };
        let count = self.count(None);
        json!({
            "viable": count.viable,
            "caught": count.caught,
            "accepted": count.accepted,
            "survived": count.survivors(),
            "mutants": self.fates.iter().map(one).collect::<Vec<_>>(),
        })
        .to_string()
    }
}

fn words(fate: &Fate) -> String {
    match fate {
        Fate::Caught(test) => format!("caught by {test}"),
        Fate::TimedOut(test) => format!("hangs in {test}"),
        Fate::Survived(1) => "1 test reaches it".to_owned(),
        Fate::Survived(tests) => format!("{tests} tests reach it"),
        Fate::SurvivedSome(tried, tests) => {
            format!("the fastest {tried} of {tests} tests that reach it")
        }
        Fate::Unreached => "no test reaches it".to_owned(),
    }
}
