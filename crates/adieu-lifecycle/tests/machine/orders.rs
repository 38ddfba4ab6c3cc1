//! What the machine orders, and what it does not: single steps without a world around them.

use std::time::Duration;

use adieu_lifecycle::{
    Action, Cause, ComponentId, End, Event, Exit, Machine, Outcome, Phase, Role, StopSignal, Terms,
    Time,
};

const RESOURCE: ComponentId = ComponentId(0);
const WORK: ComponentId = ComponentId(1);

/// One resource and one piece of work, in a service that is set up.
fn running() -> Machine {
    let mut machine = Machine::new(Terms {
        grace: Duration::from_secs(100),
        lame_duck: Duration::ZERO,
        hurry: Duration::from_secs(4),
    });
    machine.step(
        Event::Registered(RESOURCE, Role::Resource, None),
        Time::ZERO,
    );
    machine.step(Event::Opened(RESOURCE), Time::ZERO);
    machine.step(Event::Registered(WORK, Role::Work, None), Time::ZERO);
    machine.step(Event::SetupEnded(End::Done), Time::ZERO);
    machine
}

fn stop() -> Event {
    Event::Stop(Cause::Signal(StopSignal::Terminate))
}

fn exit(actions: &[Action]) -> Option<Exit> {
    actions.iter().find_map(|action| match action {
        Action::End(exit) => Some(*exit),
        _ => None,
    })
}

#[test]
fn a_hurry_that_comes_first_begins_the_stop() {
    let actions = running().step(Event::Hurry(StopSignal::Interrupt), Time::ZERO);
    let cause = Cause::Signal(StopSignal::Interrupt);
    assert_eq!(actions.first(), Some(&Action::Begin(cause)));
}

#[test]
fn a_second_hurry_changes_neither_the_limits_nor_the_exit_code() {
    let mut machine = running();
    machine.step(stop(), Time::ZERO);
    machine.step(Event::Hurry(StopSignal::Interrupt), Time::ZERO);
    let end = machine.end();
    assert_eq!(end, Duration::from_secs(4));
    machine.step(Event::Hurry(StopSignal::Terminate), Duration::from_secs(1));
    assert_eq!(machine.end(), end);
    let actions = machine.step(Event::Kill, Duration::from_secs(2));
    assert_eq!(exit(&actions), Some(Exit::Signal(2)));
}

#[test]
fn a_kill_cuts_the_work_that_is_alive_and_nothing_else() {
    let mut machine = running();
    machine.step(stop(), Time::ZERO);
    let actions = machine.step(Event::Kill, Time::ZERO);
    assert_eq!(exit(&actions), Some(Exit::Cut));
    assert!(actions.contains(&Action::Settled(WORK, Outcome::Abandoned)));
    assert!(actions.contains(&Action::Settled(RESOURCE, Outcome::NotReached)));
    let mut machine = running();
    machine.step(Event::Ended(WORK, End::Done), Time::ZERO);
    machine.step(stop(), Time::ZERO);
    let actions = machine.step(Event::Kill, Time::ZERO);
    assert_eq!(exit(&actions), Some(Exit::Clean));
}

#[test]
fn a_setup_that_is_over_is_not_cancelled() {
    let actions = running().step(stop(), Time::ZERO);
    assert!(!actions.contains(&Action::CancelSetup), "{actions:?}");
    let mut starting = Machine::new(Terms {
        grace: Duration::from_secs(100),
        lame_duck: Duration::ZERO,
        hurry: Duration::from_secs(4),
    });
    let actions = starting.step(stop(), Time::ZERO);
    assert!(actions.contains(&Action::CancelSetup), "{actions:?}");
}

#[test]
fn work_that_ends_when_it_is_cancelled_is_not_abandoned() {
    let mut machine = running();
    machine.step(stop(), Time::ZERO);
    let drained = Duration::from_secs(93);
    let actions = machine.step(Event::Tick, drained);
    assert!(actions.contains(&Action::CancelWork), "{actions:?}");
    machine.step(Event::Ended(WORK, End::Cancelled), drained);
    let actions = machine.step(Event::Idle, drained);
    assert!(!actions.contains(&Action::AbandonWork), "{actions:?}");
    assert!(actions.contains(&Action::SealWhenIdle), "{actions:?}");
    let sealed = Event::Sealed {
        cut: false,
        failed: false,
    };
    let actions = machine.step(sealed, drained);
    let release = Duration::from_secs(99);
    assert!(
        actions.contains(&Action::Enter(Phase::Release, release)),
        "{actions:?}"
    );
    assert!(
        actions.contains(&Action::Close(RESOURCE, release)),
        "{actions:?}"
    );
}
