//! Single orders worth a name: each was once answered wrongly.

use std::time::Duration;

use adieu_lifecycle::{
    Action, Cause, ComponentId, End, Event, Machine, Moment, Outcome, Phase, Role, Time,
};

use crate::model::{CLEANUP, RESOURCE, TERMS, WORK, calm};
use crate::world::{Move, Scenario, World};

/// Plays the moves, each of which must be possible and break nothing.
fn play(scenario: &Scenario, moves: &[Move]) -> World {
    let mut world = World::new(scenario);
    for next in moves {
        let possible = world.moves(scenario);
        assert!(possible.contains(next), "{next:?} is none of {possible:?}");
        world.apply(scenario, *next);
        assert!(
            world.auditor.breaches.is_empty(),
            "{:?}",
            world.auditor.breaches
        );
    }
    world
}

/// Signals, pauses, and a `setup` that goes on.
fn any(parts: &[(Role, Option<Duration>)]) -> Scenario {
    Scenario {
        stubborn: true,
        signals: true,
        pauses: 1,
        ..calm(parts)
    }
}

const SET_UP: [Move; 2] = [Move::Register, Move::Open];
/// There is no part to wait for.
const TO_RELEASE: [Move; 3] = [Move::Stop, Move::Tell(0), Move::Tell(0)];

#[test]
fn hurry_leaves_a_turn_to_what_waits_behind_a_close_that_hangs() {
    let scenario = any(&[RESOURCE, RESOURCE]);
    let start = [SET_UP, SET_UP].concat();
    let moves = [
        &start[..],
        &[Move::SetupEnds(End::Done)],
        &TO_RELEASE,
        &[Move::Hurry],
    ]
    .concat();
    let mut world = play(&scenario, &moves);
    assert_eq!(world.auditor.phase(), Some(Phase::Release));
    world.apply(&scenario, Move::Wake);
    assert_eq!(
        world.auditor.outcome(ComponentId(1)),
        Some(Outcome::Abandoned)
    );
    // The other one has begun and still has time.
    assert_eq!(world.auditor.outcome(ComponentId(0)), None);
    assert!(world.wake.is_some_and(|at| at > world.now));
}

#[test]
fn hurry_late_in_a_phase_gives_it_no_time_again() {
    let scenario = any(&[RESOURCE]);
    let start = [Move::Register, Move::Open, Move::SetupEnds(End::Done)];
    let moves = [&start[..], &TO_RELEASE, &[Move::Pause]].concat();
    let calm = play(&scenario, &moves);
    let mut hurried = calm.clone();
    hurried.apply(&scenario, Move::Hurry);
    assert!(hurried.wake.is_some() && hurried.wake <= calm.wake);
    assert!(hurried.wake <= Some(hurried.now + TERMS.hurry));
}

#[test]
fn hurry_late_in_a_turn_moves_no_later_turn_back() {
    let scenario = Scenario {
        pauses: 2,
        ..any(&[RESOURCE, RESOURCE, RESOURCE, WORK])
    };
    let start = [SET_UP, SET_UP, SET_UP, [Move::Register, Move::Launch]].concat();
    // The work hangs up to the release, and so does the first close through most of its turn.
    let stop = [
        Move::SetupEnds(End::Done),
        Move::Stop,
        Move::Wake,
        Move::Wake,
        Move::Tell(0),
        Move::Pause,
        Move::Pause,
    ];
    // The auditor holds the hurried way against the calm one.
    let world = play(&scenario, &[&start[..], &stop, &[Move::Hurry]].concat());
    assert_eq!(world.auditor.phase(), Some(Phase::Release));
}

#[test]
fn work_that_a_stubborn_setup_starts_late_has_its_outcome_before_the_release() {
    let scenario = any(&[RESOURCE, CLEANUP, WORK]);
    // Cancelled, then abandoned; then, while the cleanup runs, it goes on and starts work, which hangs.
    let moves = [
        Move::Register,
        Move::Open,
        Move::Register,
        Move::Stop,
        Move::Wake,
        Move::Wake,
        Move::Register,
        Move::Launch,
        Move::Finish(1, End::Done),
    ];
    let mut world = play(&scenario, &moves);
    assert_eq!(world.auditor.phase(), Some(Phase::Cancel));
    assert_eq!(world.auditor.outcome(ComponentId(2)), None);
    while world.auditor.phase() < Some(Phase::Release) {
        let next = world.certain_moves()[0];
        world.apply(&scenario, next);
    }
    assert_eq!(
        world.auditor.outcome(ComponentId(2)),
        Some(Outcome::Abandoned)
    );
    assert!(
        world.auditor.breaches.is_empty(),
        "{:?}",
        world.auditor.breaches
    );
}

#[test]
fn nothing_is_called_idle_that_setup_has_registered_meanwhile() {
    let scenario = any(&[WORK]);
    // Asked before the work comes alive, answered "idle", and then setup ends.
    let moves = [
        Move::Register,
        Move::Stop,
        Move::Tell(0),
        Move::Launch,
        Move::SetupEnds(End::Cancelled),
    ];
    let world = play(&scenario, &moves);
    assert_eq!(world.auditor.phase(), Some(Phase::Drain));
    assert_eq!(world.auditor.outcome(ComponentId(0)), None);
}

/// Two hooks in the save phase; the first one hangs, and the tick that ends its turn comes at the very end of the grace
/// period. A nanosecond later the second hook would have a turn from the overtime. It has one at the end as well.
#[test]
fn a_tick_that_comes_late_at_the_very_limit_takes_no_turn_away() {
    let start = Duration::from_secs(1);
    let mut machine = Machine::new(TERMS);
    for hook in [ComponentId(0), ComponentId(1)] {
        machine.step(
            Event::Registered(hook, Role::Hook(Moment::Exit), None),
            start,
        );
    }
    machine.step(Event::SetupEnded(End::Done), start);
    machine.step(Event::Stop(Cause::Requested("test".into())), start);
    machine.step(Event::Idle, start);
    let (cut, failed) = (false, false);
    machine.step(Event::Sealed { cut, failed }, start);
    let end = machine.end();
    let turn = |actions: Vec<Action>| -> Option<(ComponentId, Time)> {
        actions.into_iter().find_map(|action| match action {
            Action::Close(id, by) => Some((id, by)),
            _ => None,
        })
    };
    let late = machine
        .clone()
        .step(Event::Tick, end + Duration::from_nanos(1));
    assert!(turn(late).is_some_and(|(id, by)| id == ComponentId(1) && by > end));
    let at_the_limit = turn(machine.step(Event::Tick, end));
    assert!(
        at_the_limit.is_some_and(|(id, by)| id == ComponentId(1) && by > end),
        "{at_the_limit:?}, at {end:?}"
    );
}
