//! All orders of events, with few parts: a model check.
//!
//! Each scenario is small enough to be explored to its end, so there is no depth at which the check stops
//! looking. The `sometimes` properties keep it from being true of nothing.

use std::time::Duration;

use adieu_lifecycle::{Exit, Moment, Outcome, Phase, Role, Terms};
use stateright::{Checker, Expectation, Model, Path, Property};

use crate::auditor::Promise;
use crate::world::{Move, Scenario, World};

/// Whether a world shows something.
type Seen = fn(&Scenario, &World) -> bool;

impl Model for Scenario {
    type State = World;
    type Action = Move;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Move>) {
        // Nothing is to be learned behind a broken promise.
        if world.auditor.breaches.is_empty() {
            actions.extend(world.moves(self));
        }
    }

    fn next_state(&self, world: &World, action: Move) -> Option<World> {
        let mut world = world.clone();
        world.apply(self, action);
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        macro_rules! promises {
            ($($promise:ident: $words:literal,)*) => {
                vec![$(Property::<Self>::always($words, |_, world| {
                    !world.auditor.breaches.contains_key(&Promise::$promise)
                }),)*]
            };
        }
        let mut properties = promises! {
            PhasesMoveForward: "phases only move forward",
            ClosedOnce: "nothing is closed twice",
            ClosedInItsPhase: "only what is open is closed, in its phase",
            UsersFirst: "nothing is closed before its users have an outcome",
            LastOpenedFirst: "one after the other, last opened first",
            NobodyOverlooked: "no work is overlooked by the cancellation",
            CancelledBeforeAbandoned: "nothing is abandoned that was not cancelled",
            OneOutcome: "every part has exactly one outcome",
            OutcomeIsTrue: "the outcome is what happened",
            OwnLimitHolds: "a limit of one's own holds",
            OneEnd: "one end, and nothing after it",
            ExitFits: "the exit code is the last that applies",
            WakeIsAsked: "a wake-up is asked for when only time helps",
            InTime: "the end comes by the end of the grace period",
            TurnForAll: "every part has a turn although others hang",
            HurryIsSooner: "hurry makes no deadline later",
        };
        let sometimes: [(&'static str, Seen); 5] = [
            ("clean", |_, world| {
                world.auditor.exit() == Some(Exit::Clean)
            }),
            ("cut", |_, world| world.auditor.exit() == Some(Exit::Cut)),
            ("all abandoned, and still on to the end", |_, world| {
                world.auditor.phase() == Some(Phase::Save)
                    && world.auditor.outcomes().all(|it| it == Outcome::Abandoned)
            }),
            ("failed, or nothing may fail", |model, world| {
                world.auditor.exit() == Some(Exit::Failed) || !model.failures
            }),
            ("in a hurry, or no part may be", |model, world| {
                world.auditor.exit() == Some(Exit::Signal(2)) || !model.signals
            }),
        ];
        properties.extend(sometimes.map(|(name, seen)| Property::sometimes(name, seen)));
        properties
    }
}

pub(crate) const TERMS: Terms = Terms {
    grace: Duration::from_secs(20),
    lame_duck: Duration::ZERO,
    hurry: Duration::from_secs(2),
};
pub(crate) const WORK: (Role, Option<Duration>) = (Role::Work, None);
pub(crate) const RESOURCE: (Role, Option<Duration>) = (Role::Resource, None);
const SHUTDOWN: (Role, Option<Duration>) = (Role::Hook(Moment::Shutdown), None);
pub(crate) const CLEANUP: (Role, Option<Duration>) = (Role::Hook(Moment::Cleanup), None);
const EXIT: (Role, Option<Duration>) = (Role::Hook(Moment::Exit), None);

/// Nothing fails, no second signal comes, all parts stop when asked, and things happen when they are due.
pub(crate) fn calm(parts: &[(Role, Option<Duration>)]) -> Scenario {
    Scenario {
        terms: TERMS,
        parts: parts.to_vec(),
        children: 0,
        pauses: 0,
        oversleeps: 0,
        bounds: 0,
        stubborn: false,
        signals: false,
        failures: false,
    }
}

/// Whatever may happen, except that `setup` listens.
fn rough(parts: &[(Role, Option<Duration>)]) -> Scenario {
    Scenario {
        pauses: 1,
        signals: true,
        failures: true,
        ..calm(parts)
    }
}

fn explore(scenario: Scenario) {
    let checker = scenario.checker().threads(2).spawn_bfs().join();
    println!("{} states", checker.unique_state_count());
    let wrong: Vec<_> = (checker.model().properties().into_iter())
        .filter_map(|property| {
            let found = checker.discovery(property.name);
            let promised = property.expectation == Expectation::Always;
            match found {
                Some(path) if promised => Some(broken(property.name, path)),
                None if !promised => Some(format!("never {}", property.name)),
                _ => None,
            }
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The shortest way to a broken promise, without the states on it.
fn broken(promise: &str, path: Path<World, Move>) -> String {
    let why = path.last_state().auditor.breaches.clone();
    let way = path.into_actions();
    format!("broken: {promise}\n  {why:?}\n  after {way:?}")
}

#[test]
fn work_and_what_it_uses() {
    explore(rough(&[RESOURCE, WORK]));
}

#[test]
fn work_with_a_limit_of_its_own() {
    let limited = (Role::Work, Some(Duration::from_secs(3)));
    explore(Scenario {
        signals: false,
        ..rough(&[limited, WORK])
    });
}

#[test]
fn resources_close_in_reverse() {
    let limited = (Role::Resource, Some(Duration::from_secs(1)));
    explore(Scenario {
        failures: false,
        ..rough(&[RESOURCE, limited, RESOURCE])
    });
}

#[test]
fn hooks_of_each_moment() {
    explore(Scenario {
        pauses: 0,
        ..rough(&[SHUTDOWN, CLEANUP, EXIT])
    });
}

#[test]
fn shutdown_hooks_take_turns_beside_the_lame_duck() {
    let terms = Terms {
        lame_duck: Duration::from_secs(5),
        ..TERMS
    };
    explore(Scenario {
        terms,
        ..rough(&[SHUTDOWN, SHUTDOWN])
    });
}

#[test]
fn a_lame_duck_longer_than_the_grace() {
    let terms = Terms {
        lame_duck: TERMS.grace * 2,
        ..TERMS
    };
    explore(Scenario {
        terms,
        ..calm(&[RESOURCE, WORK])
    });
}

#[test]
fn cleanup_hooks_take_turns_after_work() {
    explore(Scenario {
        failures: false,
        ..rough(&[WORK, CLEANUP, CLEANUP])
    });
}

#[test]
fn exit_hooks_take_turns() {
    explore(rough(&[EXIT, EXIT]));
}

#[test]
fn work_that_starts_work() {
    explore(Scenario {
        children: 2,
        ..calm(&[WORK])
    });
}

#[test]
fn work_that_is_started_after_all_had_ended() {
    let terms = Terms {
        lame_duck: Duration::from_secs(5),
        ..TERMS
    };
    explore(Scenario {
        terms,
        children: 1,
        ..calm(&[WORK])
    });
}

#[test]
fn cleanup_that_starts_work() {
    explore(Scenario {
        children: 1,
        failures: true,
        ..calm(&[CLEANUP])
    });
}

#[test]
fn ticks_that_come_far_too_late() {
    let late = |parts| Scenario {
        oversleeps: 3,
        ..calm(parts)
    };
    explore(late(&[RESOURCE, WORK]));
    explore(late(&[RESOURCE, RESOURCE, EXIT]));
    explore(late(&[SHUTDOWN, SHUTDOWN, CLEANUP]));
}

#[test]
fn a_platform_that_ends_the_process_sooner() {
    let bounded = |parts| Scenario {
        bounds: 1,
        pauses: 1,
        ..calm(parts)
    };
    explore(bounded(&[RESOURCE, WORK]));
    explore(bounded(&[SHUTDOWN, CLEANUP]));
    explore(Scenario {
        signals: true,
        ..bounded(&[RESOURCE])
    });
}

#[test]
fn setup_that_does_not_listen() {
    let stubborn = |parts| Scenario {
        stubborn: true,
        ..calm(parts)
    };
    explore(stubborn(&[RESOURCE, WORK]));
    explore(stubborn(&[RESOURCE, RESOURCE]));
    explore(stubborn(&[SHUTDOWN, SHUTDOWN, SHUTDOWN]));
    explore(stubborn(&[CLEANUP, WORK]));
}
