//! A platform that ends the process sooner than the grace does: the stop fits into what is left.

use std::time::Duration;

use adieu_lifecycle::{
    Action, Cause, ComponentId, End, Event, Exit, Machine, Role, StopSignal, Terms, Time,
};

const GRACE: Duration = Duration::from_secs(600);
const LEFT: Duration = Duration::from_millis(4_500);

/// Running, with two resources and work that never ends by itself.
fn running() -> Machine {
    let mut machine = Machine::new(Terms {
        grace: GRACE,
        lame_duck: Duration::from_secs(5),
        hurry: Duration::from_secs(2),
    });
    for (part, role) in [(0, Role::Resource), (1, Role::Resource), (2, Role::Work)] {
        machine.step(Event::Registered(ComponentId(part), role, None), Time::ZERO);
        machine.step(Event::Opened(ComponentId(part)), Time::ZERO);
    }
    machine.step(Event::SetupEnded(End::Done), Time::ZERO);
    machine
}

fn close() -> Event {
    Event::Stop(Cause::Signal(StopSignal::Close))
}

/// No part ever ends: what the machine does by time alone, and when.
fn all_hang(machine: &mut Machine, begun: Vec<Action>, now: Time) -> Vec<(Time, Action)> {
    let mut done = Vec::new();
    let mut wake = None;
    let mut next = (begun, now);
    for _ in 0..100 {
        let (actions, now) = next;
        for action in actions {
            match &action {
                Action::Wake(at) => wake = Some(*at),
                // The roster answers at once: nothing is left to start work.
                Action::Seal => {
                    let sealed = Event::Sealed {
                        cut: true,
                        failed: false,
                    };
                    let more = machine.step(sealed, now);
                    wake = more.iter().rev().find_map(|action| match action {
                        Action::Wake(at) => Some(*at),
                        _ => None,
                    });
                    done.extend(more.into_iter().map(|action| (now, action)));
                }
                _ => {}
            }
            done.push((now, action));
        }
        if machine.has_ended() {
            break;
        }
        let at = wake.take().unwrap_or(now).max(now);
        next = (machine.step(Event::Tick, at), at);
    }
    done
}

fn turns(done: &[(Time, Action)]) -> usize {
    let is_turn = |action: &Action| matches!(action, Action::Close(..));
    done.iter().filter(|(_, action)| is_turn(action)).count()
}

fn end(done: &[(Time, Action)]) -> Option<(Time, Exit)> {
    done.iter().find_map(|(at, action)| match action {
        Action::End(exit) => Some((*at, *exit)),
        _ => None,
    })
}

#[test]
fn a_stop_that_is_told_what_is_left_ends_by_then_and_closes_everything() {
    let mut machine = running();
    let now = Duration::from_secs(60);
    let mut begun = machine.step(Event::Within(LEFT), now);
    begun.extend(machine.step(close(), now));
    assert_eq!(machine.end(), now + LEFT);
    let done = all_hang(&mut machine, begun, now);
    assert_eq!(turns(&done), 2, "{done:?}");
    let (at, exit) = end(&done).expect("an end");
    assert!(at <= now + LEFT, "{at:?}");
    assert_eq!(exit, Exit::Cut);
}

#[test]
fn a_stop_under_way_is_squeezed_into_what_is_left() {
    let mut machine = running();
    let mut begun = machine.step(
        Event::Stop(Cause::Signal(StopSignal::Interrupt)),
        Time::ZERO,
    );
    assert_eq!(machine.end(), GRACE);
    // In the lame duck, which would take until the fifth second.
    let now = Duration::from_secs(1);
    begun.extend(machine.step(Event::Within(LEFT), now));
    begun.extend(machine.step(close(), now));
    assert_eq!(machine.end(), now + LEFT);
    let done = all_hang(&mut machine, begun, now);
    assert_eq!(turns(&done), 2, "{done:?}");
    assert!(
        end(&done).is_some_and(|(at, _)| at <= now + LEFT),
        "{done:?}"
    );
}

#[test]
fn what_is_left_is_shared_as_a_whole_grace_is() {
    let mut machine = running();
    machine.step(Event::Stop(Cause::Requested("test".into())), Time::ZERO);
    // Each slice has a limit of its own, so those of a long grace would be next to nothing in a short one.
    let now = Duration::from_secs(5);
    let mut begun = machine.step(Event::Tick, now);
    begun.extend(machine.step(Event::Within(LEFT), now));
    let done = all_hang(&mut machine, begun, now);
    let turns: Vec<_> = done
        .iter()
        .filter_map(|(at, action)| match action {
            Action::Close(_, by) => Some(*by - *at),
            _ => None,
        })
        .collect();
    assert_eq!(turns.len(), 2, "{done:?}");
    assert!(turns.iter().all(|turn| *turn >= LEFT / 50), "{turns:?}");
}

#[test]
fn more_than_the_grace_is_not_given() {
    let mut machine = running();
    machine.step(Event::Within(GRACE * 2), Time::ZERO);
    machine.step(close(), Time::ZERO);
    assert_eq!(machine.end(), GRACE);
    machine.step(Event::Within(GRACE), Duration::from_secs(10));
    assert_eq!(machine.end(), GRACE);
}
