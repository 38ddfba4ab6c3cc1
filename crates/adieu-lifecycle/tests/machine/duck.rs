//! The lame-duck period: it is kept while a part serves, and skipped otherwise.

use std::time::Duration;

use adieu_lifecycle::{Action, Cause, ComponentId, End, Event, Machine, Phase, Role, Terms, Time};

const DUCK: Duration = Duration::from_secs(5);
const NOW: Time = Duration::from_secs(60);

/// Running, with so many parts that work.
fn running(works: u32) -> Machine {
    let mut machine = Machine::new(Terms {
        grace: Duration::from_secs(30),
        lame_duck: DUCK,
        hurry: Duration::from_secs(2),
    });
    for part in (0..works).map(ComponentId) {
        machine.step(Event::Registered(part, Role::Work, None), Time::ZERO);
        machine.step(Event::Opened(part), Time::ZERO);
    }
    machine.step(Event::SetupEnded(End::Done), Time::ZERO);
    machine
}

fn stop() -> Event {
    Event::Stop(Cause::Requested("test".into()))
}

/// Up to when each phase that was entered may last.
fn entered(actions: &[Action]) -> Vec<(Phase, Time)> {
    let phases = actions.iter().filter_map(|action| match action {
        Action::Enter(phase, limit) => Some((*phase, *limit)),
        _ => None,
    });
    phases.collect()
}

#[test]
fn is_waited_for_while_a_server_serves() {
    let mut machine = running(2);
    machine.step(Event::Ended(ComponentId(0), End::Done), Time::ZERO);
    let begun = machine.step(stop(), NOW);
    assert_eq!(entered(&begun), [(Phase::Announce, NOW + DUCK)]);
    assert!(begun.contains(&Action::Wake(NOW + DUCK)));
}

/// What serves may be no part of ours.
#[test]
fn is_waited_for_without_any_work_of_ours() {
    let begun = running(0).step(stop(), NOW);
    assert_eq!(entered(&begun), [(Phase::Announce, NOW + DUCK)]);
}

#[test]
fn is_over_before_it_begins_if_all_work_has_ended() {
    let mut machine = running(1);
    machine.step(Event::Ended(ComponentId(0), End::Failed), NOW);
    let begun = entered(&machine.step(stop(), NOW));
    assert_eq!(begun[0], (Phase::Announce, NOW));
    assert_eq!(begun[1].0, Phase::Drain);
}

#[test]
fn is_over_when_the_last_work_ends() {
    let mut machine = running(2);
    machine.step(stop(), NOW);
    let later = NOW + DUCK / 2;
    assert_eq!(
        entered(&machine.step(Event::Ended(ComponentId(0), End::Done), later)),
        []
    );
    let last = machine.step(Event::Ended(ComponentId(1), End::Done), later);
    assert_eq!(entered(&last)[0].0, Phase::Drain);
}
