//! Age and requests of a connection as a table, to the millisecond.

use proptest::prelude::*;

use super::*;
use crate::net::DrainStage;

const NOW: u64 = 1_000_000;
const FOREVER: CloseAction = CloseAction::Wait(None);

fn limits() -> Limits {
    Limits::default()
        .max_connection_age(Duration::from_secs(100))
        .max_connection_age_grace(Duration::from_secs(10))
        // So that no other limit is met.
        .head(Duration::MAX)
        .stall(Duration::MAX)
        .keep_alive(Duration::MAX)
        .handshake(Duration::MAX)
}

/// A connection that is too old since so long.
fn retired(since: u64) -> Lifetime {
    Lifetime {
        retires_at: NOW - since,
        ends_at: NOW - since + 10_000,
        requests: None,
    }
}

/// One that will be.
fn retires_in(millis: u64) -> Lifetime {
    Lifetime {
        retires_at: NOW + millis,
        ends_at: NOW + millis + 10_000,
        requests: None,
    }
}

fn of_requests(most: u32) -> Lifetime {
    Lifetime {
        requests: Some(most),
        ..Lifetime::UNLIMITED
    }
}

fn counters(protocol: Protocol, quiet: u64) -> ConnCounters {
    ConnCounters::new(NOW - quiet, protocol)
}

fn served(protocol: Protocol, quiet: u64) -> ConnCounters {
    let counters = counters(protocol, quiet);
    counters.begin();
    counters.end();
    counters
}

fn working(protocol: Protocol) -> ConnCounters {
    let counters = counters(protocol, 0);
    counters.begin();
    counters
}

fn input(lifetime: Lifetime) -> PolicyInput {
    PolicyInput {
        now_ms: NOW,
        stage: DrainStage::Serving,
        lingering_for: Duration::ZERO,
        closing_for: Duration::ZERO,
        all_acknowledged: true,
        most: Duration::MAX / 4,
        idle_grace: Duration::ZERO,
        until_final_cutoff: Duration::MAX,
        lifetime,
        has_successor: false,
        turn_left: None,
        leaves_early: false,
    }
}

fn close_action(counters: &ConnCounters, lifetime: Lifetime) -> CloseAction {
    counters.close_action(&limits(), input(lifetime))
}

/// As `close_action`, without what the limits of the state ask for.
fn retirement(counters: &ConnCounters, lifetime: Lifetime) -> CloseAction {
    counters.retirement_action(&limits(), input(lifetime))
}

fn wait(millis: u64) -> CloseAction {
    CloseAction::Wait(Some(Duration::from_millis(millis)))
}

#[test]
fn both_are_off_by_default() {
    let lifetime = Lifetimes::new().next(&Limits::default(), NOW);
    assert_eq!(lifetime, Lifetime::UNLIMITED);
    assert!(!lifetime.is_limited());
    assert!(!lifetime.has_ended(u64::MAX - 1));
    for protocol in [Protocol::Http1, Protocol::Http2, Protocol::WebSocket] {
        assert_eq!(retirement(&working(protocol), lifetime), FOREVER);
        assert_eq!(retirement(&served(protocol, 900_000), lifetime), FOREVER);
    }
    let many = working(Protocol::Http2);
    assert!(!many.is_retired(lifetime, u64::MAX - 1));
    assert!(!many.refuses_streams(lifetime, &limits(), u64::MAX - 1));
}

#[test]
fn connections_opened_together_end_apart() {
    let lifetimes = Lifetimes::new();
    let mut ends: Vec<u64> = (0..100)
        .map(|_| lifetimes.next(&limits(), NOW).retires_at - NOW)
        .collect();
    ends.sort_unstable();
    assert!(ends[0] >= 90_000 && ends[99] < 110_000, "{ends:?}");
    // Evenly: a hundred of them in 20 s, and none more than a second after the one before.
    assert!(ends[0] < 91_000 && ends[99] > 109_000, "{ends:?}");
    assert!(
        ends.windows(2).all(|two| two[1] - two[0] < 1_000),
        "{ends:?}"
    );
}

#[test]
fn the_grace_follows_the_age() {
    let lifetime = Lifetime::new(&limits(), NOW, 0);
    assert_eq!(lifetime.retires_at, NOW + 90_000);
    assert_eq!(lifetime.ends_at, NOW + 100_000);
    assert!(!lifetime.has_ended(NOW + 99_999));
    assert!(lifetime.has_ended(NOW + 100_000));
    let patient = limits().max_connection_age_grace(Duration::MAX);
    assert_eq!(Lifetime::new(&patient, NOW, 0).ends_at, u64::MAX);
}

#[test]
fn a_connection_has_at_least_one_request() {
    let none = Limits::default().max_requests_per_connection(0);
    assert_eq!(Lifetime::new(&none, NOW, 0), of_requests(1));
}

#[test]
fn the_client_is_told_at_the_age_or_with_the_last_request() {
    let idle = served(Protocol::Http1, 0);
    assert!(!idle.is_retired(retires_in(1), NOW));
    assert!(idle.is_retired(retires_in(0), NOW));
    assert!(!idle.is_retired(of_requests(2), NOW));
    idle.begin();
    assert!(
        idle.is_retired(of_requests(2), NOW),
        "its last is in flight"
    );
}

#[test]
fn an_idle_connection_is_closed_once_it_was_quiet_for_the_linger() {
    for protocol in [Protocol::Http1, Protocol::Http2] {
        for make in [counters, served] {
            let expected = |quiet, lifetime| close_action(&make(protocol, quiet), lifetime);
            assert_eq!(expected(9_000, retires_in(700)), wait(700));
            assert_eq!(expected(499, retired(600)), wait(1));
            assert_eq!(expected(500, retired(600)), CloseAction::Close);
        }
    }
    // The client of HTTP/2 gets its GOAWAY at that moment, and may have a request on its way.
    assert_eq!(
        close_action(&served(Protocol::Http1, 900), retired(0)),
        CloseAction::Close
    );
    assert_eq!(
        close_action(&served(Protocol::Http2, 900), retired(0)),
        wait(500)
    );
    for protocol in [Protocol::Http1, Protocol::Http2] {
        assert_eq!(
            close_action(&served(protocol, 499), of_requests(1)),
            wait(1)
        );
        assert_eq!(
            close_action(&served(protocol, 500), of_requests(1)),
            CloseAction::Close
        );
        assert_eq!(retirement(&served(protocol, 500), of_requests(2)), FOREVER);
    }
}

#[test]
fn the_timer_of_an_idle_connection_is_that_of_its_policy() {
    let idle = served(Protocol::Http1, 100);
    let until = |lifetime| idle.idle_until(&Limits::default(), lifetime);
    assert_eq!(until(Lifetime::UNLIMITED), Some(NOW - 100 + 75_000));
    assert_eq!(until(retires_in(20_000)), Some(NOW + 20_000));
    assert_eq!(until(retires_in(90_000)), Some(NOW - 100 + 75_000));
    assert_eq!(until(retired(0)), Some(NOW + 400));
    assert_eq!(
        until(retired(9_800)),
        Some(NOW + 200),
        "the end of the grace"
    );
    assert_eq!(until(of_requests(1)), Some(NOW + 400));
    assert_eq!(until(of_requests(2)), Some(NOW - 100 + 75_000));
}

#[test]
fn work_goes_on_until_the_end_of_the_grace() {
    for protocol in [Protocol::Http1, Protocol::Upgraded] {
        let busy = working(protocol);
        assert_eq!(close_action(&busy, retires_in(5)), wait(10_005));
        assert_eq!(close_action(&busy, retired(9_999)), wait(1));
        assert_eq!(close_action(&busy, retired(10_000)), CloseAction::Abort);
        assert_eq!(close_action(&busy, of_requests(1)), FOREVER);
    }
    let half_head = counters(Protocol::Http1, 0);
    half_head.read(NOW, 5, 0, false, true);
    assert_eq!(retirement(&half_head, retired(9_999)), wait(1));
    assert_eq!(retirement(&half_head, retired(10_000)), CloseAction::Close);
    // Every idle state has its end there as well, however often it pings.
    assert_eq!(
        close_action(&served(Protocol::Http2, 0), retired(10_000)),
        CloseAction::Close
    );
}

/// The driver has to look when the GOAWAY is due, and again when further streams are refused.
#[test]
fn an_http2_connection_is_looked_at_when_something_is_to_be_said() {
    let busy = working(Protocol::Http2);
    assert_eq!(close_action(&busy, retires_in(5)), wait(5));
    assert_eq!(close_action(&busy, retired(0)), wait(500));
    assert!(!busy.refuses_streams(retired(499), &limits(), NOW));
    assert!(busy.refuses_streams(retired(500), &limits(), NOW));
    assert_eq!(close_action(&busy, retired(9_999)), wait(1));
    assert_eq!(close_action(&busy, retired(10_000)), CloseAction::Abort);
}

#[test]
fn streams_that_crossed_the_goaway_are_not_refused() {
    let busy = counters(Protocol::Http2, 0);
    for _ in 0..100 {
        busy.begin();
    }
    assert!(busy.is_retired(of_requests(1), NOW));
    assert!(!busy.refuses_streams(of_requests(1), &limits(), NOW));
    busy.begin();
    assert!(busy.refuses_streams(of_requests(1), &limits(), NOW));
}

#[test]
fn a_close_that_has_begun_keeps_its_own_limit() {
    let http2 = served(Protocol::Http2, 900);
    assert!(http2.begin_close(NOW - 400));
    assert_eq!(close_action(&http2, retired(20_000)), wait(600));
    let parting = counters(Protocol::AwaitingClose, 0);
    assert_eq!(retirement(&parting, retired(20_000)), FOREVER);
    let handshake = counters(Protocol::TlsHandshake, 0);
    assert_eq!(retirement(&handshake, retired(20_000)), FOREVER);
}

#[test]
fn a_websocket_gets_its_close_frame_at_the_end_of_the_grace_and_then_the_patience() {
    let socket = counters(Protocol::WebSocket, 900);
    assert_eq!(close_action(&socket, retired(9_999)), wait(1));
    assert_eq!(
        close_action(&socket, retired(10_000)),
        CloseAction::CloseWebSocket
    );
    socket.close_websocket(NOW - 999);
    assert_eq!(close_action(&socket, retired(20_000)), wait(1));
    socket.close_websocket(NOW - 1_000);
    assert_eq!(close_action(&socket, retired(20_000)), CloseAction::Abort);
}

#[test]
fn in_a_stop_the_stop_decides() {
    for stage in [DrainStage::Lingering, DrainStage::Closing] {
        let input = PolicyInput {
            stage,
            ..input(retired(900_000))
        };
        let busy = working(Protocol::Http1);
        assert_eq!(busy.close_action(&limits(), input), FOREVER);
    }
}

#[test]
fn of_two_actions_the_first_that_is_due_is_taken() {
    use CloseAction::{Abort, Close};
    for (one, two, first) in [
        (FOREVER, FOREVER, FOREVER),
        (FOREVER, wait(2), wait(2)),
        (wait(3), wait(2), wait(2)),
        (wait(3), Abort, Abort),
        (FOREVER, Close, Close),
        (Close, wait(1), Close),
    ] {
        assert_eq!(one.or_sooner(two), first);
        assert_eq!(two.or_sooner(one), first);
    }
    assert_eq!(Close.or_sooner(Abort), Close);
}

proptest! {
    /// Whatever the limits are, nothing overflows, and the age is within a tenth.
    #[test]
    fn every_lifetime_is_within_a_tenth(age in any::<u64>(), grace in any::<u64>(), number in any::<u64>()) {
        let limits = Limits::default()
.max_connection_age(Duration::from_millis(age))
.max_connection_age_grace(Duration::from_millis(grace));
        let lifetime = Lifetime::new(&limits, 0, number);
        prop_assert!(lifetime.retires_at >= age - age / 10);
        prop_assert!(lifetime.retires_at <= age.saturating_add(age / 10));
        prop_assert!(lifetime.ends_at >= lifetime.retires_at);
    }

    /// A driver that looks again after each `Wait` comes to the end of an idle connection.
    #[test]
    fn an_idle_connection_comes_to_its_end(age in 0_u64..100_000, quiet in 0_u64..10_000) {
        let idle = served(Protocol::Http1, quiet);
        let mut input = input(retires_in(age));
        for _ in 0..3 {
            match idle.close_action(&limits(), input) {
                CloseAction::Wait(Some(left)) => input.now_ms += millis(left),
                close_action => {
                    prop_assert_eq!(close_action, CloseAction::Close);
                    prop_assert!(input.now_ms >= NOW + age);
                    prop_assert!(input.now_ms <= NOW + age + 500);
                    return Ok(());
                }
            }
        }
        prop_assert!(false, "it stays");
    }
}
