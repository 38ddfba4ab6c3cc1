//! What comes if from now on every part hangs: no work ends, no close ends, `setup` does not end. Only time
//! passes, and the few instructions of our own that cannot be held up are done.

use std::collections::BTreeMap;

use adieu_lifecycle::{ComponentId, Event, Time};

use crate::auditor::Promise;
use crate::world::{Scenario, World};

/// More steps than any stop has.
const MANY: usize = 1_000;

/// When each part had its outcome, and when the end came.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Times {
    settled: BTreeMap<ComponentId, Time>,
    ended: Option<Time>,
}

/// Lets every part hang until the end.
pub(crate) fn hang(scenario: &Scenario, world: &mut World) -> Times {
    let mut times = Times::default();
    for _ in 0..MANY {
        for part in 0..scenario.parts.len() {
            let id = ComponentId(u32::try_from(part).unwrap_or(u32::MAX));
            if world.auditor.outcome(id).is_some() {
                times.settled.entry(id).or_insert(world.now);
            }
        }
        if world.has_ended() {
            times.ended = Some(world.now);
            break;
        }
        let Some(next) = world.certain_moves().into_iter().next() else {
            break;
        };
        world.apply(scenario, next);
    }
    let ended = times.ended.is_some();
    let why = || "no end although time passes".into();
    let begun = world.auditor.begun();
    world.auditor.insist(Promise::InTime, ended || !begun, why);
    times
}

/// Holds the hurried world against the calm one it was a moment ago: nothing may come later.
pub(crate) fn compare(scenario: &Scenario, calm: World, hurried: &mut World) {
    if calm.auditor.overslept || hurried.has_ended() {
        return;
    }
    let mut calm = calm;
    calm.step(Event::Tick);
    let calm = hang(scenario, &mut calm);
    let mut ahead = hurried.clone();
    let soon = hang(scenario, &mut ahead);
    let later = soon
        .settled
        .iter()
        .find(|(id, at)| calm.settled.get(id).is_some_and(|calm| calm < *at));
    let holds = later.is_none() && soon.ended <= calm.ended;
    let why = || format!("hurried {soon:?}, calm {calm:?}");
    hurried.auditor.insist(Promise::HurryIsSooner, holds, why);
    hurried.auditor.breaches.extend(ahead.auditor.breaches);
}

/// Checks from here that the end comes in time, without touching this world.
pub(crate) fn check(scenario: &Scenario, world: &World) -> World {
    let mut ahead = world.clone();
    hang(scenario, &mut ahead);
    ahead
}
