//! The close policy as a table: what each fact does to the state, and what each state is given, to the millisecond.

use super::*;

const NOW: u64 = 100_000;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A connection that last moved so long ago.
fn counters(protocol: Protocol, quiet: u64) -> ConnCounters {
    let counters = ConnCounters::new(NOW - quiet, Protocol::Detecting);
    counters.enter(protocol, NOW - quiet);
    counters
}

/// An idle one: it has had an answer.
fn served(protocol: Protocol, quiet: u64) -> ConnCounters {
    let counters = counters(protocol, quiet);
    counters.begin();
    counters.end();
    counters
}

fn running() -> PolicyInput {
    PolicyInput {
        now_ms: NOW,
        stage: DrainStage::Serving,
        lingering_for: Duration::ZERO,
        closing_for: Duration::ZERO,
        all_acknowledged: true,
        most: Duration::MAX / 4,
        idle_grace: Duration::ZERO,
        until_final_cutoff: Duration::MAX,
        lifetime: Lifetime::UNLIMITED,
        has_successor: false,
        turn_left: None,
        leaves_early: false,
    }
}

/// So long after the linger began.
fn linger(since: u64) -> PolicyInput {
    PolicyInput {
        stage: DrainStage::Lingering,
        lingering_for: ms(since),
        ..running()
    }
}

/// So long after the linger was over.
fn closing(since: u64) -> PolicyInput {
    PolicyInput {
        stage: DrainStage::Closing,
        lingering_for: ms(since + 500),
        closing_for: ms(since),
        ..running()
    }
}

fn close_action(counters: &ConnCounters, input: PolicyInput) -> CloseAction {
    counters.close_action(&Limits::default(), input)
}

fn wait(millis: u64) -> CloseAction {
    CloseAction::Wait(Some(ms(millis)))
}

const FOREVER: CloseAction = CloseAction::Wait(None);

#[test]
fn the_time_of_a_head_counts_from_its_first_byte_and_not_from_the_protocol() {
    let counters = ConnCounters::new(NOW - 30_000, Protocol::Detecting);
    counters.read(NOW - 30_000, 5, 0, false, true);
    counters.enter(Protocol::Http1, NOW - 100);
    assert_eq!(counters.state(), ConnState::HalfHead);
    assert_eq!(close_action(&counters, running()), CloseAction::Close);
}

#[test]
fn bytes_that_come_while_a_request_is_under_way_are_no_half_head() {
    let counters = counters(Protocol::Http1, 0);
    counters.begin();
    counters.read(NOW, 10, 0, true, true);
    assert!(counters.is_in_body());
    counters.read(NOW, 10, 0, false, true);
    assert!(!counters.is_in_body());
    counters.end();
    assert_eq!(counters.state(), ConnState::Idle);
}

#[test]
fn a_head_that_no_handler_has_seen_waits() {
    let counters = counters(Protocol::Http1, 0);
    assert!(!counters.has_heads_waiting());
    counters.read(NOW, 40, 2, false, true);
    counters.begin();
    assert!(counters.has_heads_waiting());
    counters.begin();
    assert!(!counters.has_heads_waiting());
}

#[test]
fn only_work_is_progress_while_a_request_is_under_way_or_an_answer_is_taken_slowly() {
    let chats = |counters: &ConnCounters| {
        counters.read(NOW, 1, 0, false, false);
        let read = counters.last_progress() == NOW;
        counters.wrote(NOW, false);
        (read, counters.last_progress() == NOW)
    };
    let quick = counters(Protocol::Http2, 500);
    quick.mark_slow_reader();
    assert_eq!(chats(&quick), (true, true));
    let busy = counters(Protocol::Http2, 500);
    busy.begin();
    assert_eq!(chats(&busy), (false, false));
    busy.read(NOW, 1, 0, false, true);
    assert_eq!(busy.last_progress(), NOW);
    let slow = served(Protocol::Http2, 500);
    slow.is_untaken(true);
    slow.mark_slow_reader();
    assert_eq!(chats(&slow), (false, false));
    // Once slow, always slow: what the client has taken it may still have to read.
    slow.is_untaken(false);
    slow.mark_slow_reader();
    assert_eq!(chats(&slow), (false, false));
}

#[test]
fn news_is_told_once() {
    let counters = counters(Protocol::Http1, 500);
    assert!(counters.cannot_write());
    assert!(!counters.cannot_write());
    assert_eq!(counters.state(), ConnState::StalledReader);
    counters.flushed();
    assert_eq!(counters.state(), ConnState::Silent);
    assert!(counters.cannot_write());
    counters.wrote(NOW, false);
    assert_eq!(counters.state(), ConnState::Silent);
    assert!(!counters.is_closing());
    assert!(counters.begin_close(NOW));
    assert!(!counters.begin_close(NOW));
    assert!(counters.is_closing());
}

#[test]
fn a_client_that_takes_bytes_moves_the_clock_of_its_state() {
    let reader = counters(Protocol::Http1, 500);
    reader.took_some(NOW - 10, true);
    assert_eq!(reader.last_progress(), NOW - 10);
    let parting = counters(Protocol::AwaitingClose, 190);
    let unread = PolicyInput {
        all_acknowledged: false,
        ..running()
    };
    assert_eq!(close_action(&parting, unread), wait(10));
    parting.took_some(NOW, true);
    assert_eq!(close_action(&parting, unread), wait(10));
    parting.took_some(NOW, false);
    assert_eq!(close_action(&parting, unread), wait(200));
    assert_eq!(parting.last_progress(), NOW - 190);
}

#[test]
fn the_state_is_that_of_the_work_under_way() {
    let counters = counters(Protocol::Http1, 0);
    counters.begin();
    counters.begin();
    assert_eq!(counters.state(), ConnState::Working);
    counters.body_is_awaited(true);
    assert_eq!(
        counters.state(),
        ConnState::Working,
        "the other one can go on"
    );
    counters.body_is_awaited(true);
    assert_eq!(counters.state(), ConnState::StalledUpload);
    counters.body_is_awaited(false);
    counters.answer_is_held(true);
    assert_eq!(counters.state(), ConnState::StalledReader);
    counters.answer_is_held(false);
    counters.half_closed(NOW);
    assert_eq!(counters.state(), ConnState::HalfClosed);
    counters.body_is_awaited(false);
    counters.end();
    counters.end();
    assert_eq!(
        counters.state(),
        ConnState::Idle,
        "closing its side does not count as work"
    );
}

#[test]
fn without_work_the_state_is_that_of_the_protocol() {
    assert_eq!(
        ConnCounters::new(NOW, Protocol::TlsHandshake).state(),
        ConnState::TlsHandshake
    );
    assert_eq!(counters(Protocol::Detecting, 0).state(), ConnState::Silent);
    assert_eq!(served(Protocol::Http1, 0).state(), ConnState::Idle);
    assert_eq!(
        counters(Protocol::WebSocket, 0).state(),
        ConnState::WebSocket
    );
    assert_eq!(counters(Protocol::Upgraded, 0).state(), ConnState::Upgraded);
    assert_eq!(
        counters(Protocol::AwaitingClose, 0).state(),
        ConnState::AwaitingClose
    );
    let http2 = served(Protocol::Http2, 0);
    assert_eq!(http2.state(), ConnState::IdleHttp2);
    http2.is_untaken(true);
    assert_eq!(http2.state(), ConnState::StalledReader);
    let http1 = served(Protocol::Http1, 0);
    http1.is_untaken(true);
    assert_eq!(http1.state(), ConnState::Idle);
}

#[test]
fn an_idle_connection_is_kept_for_the_keep_alive() {
    let limits = Limits::default();
    let idle = served(Protocol::Http1, 1_000);
    assert_eq!(
        idle.idle_until(&limits, Lifetime::UNLIMITED),
        Some(NOW - 1_000 + 75_000)
    );
    assert_eq!(
        counters(Protocol::Http1, 0).idle_until(&limits, Lifetime::UNLIMITED),
        None
    );
    // A client that has never sent a byte has as long as for a head.
    assert_eq!(
        close_action(&counters(Protocol::Http1, 29_999), running()),
        wait(1)
    );
    assert_eq!(
        close_action(&counters(Protocol::Http1, 30_000), running()),
        CloseAction::Close
    );
    for idle in [
        served(Protocol::Http1, 74_999),
        served(Protocol::Http2, 74_999),
    ] {
        assert_eq!(close_action(&idle, running()), wait(1));
    }
    for idle in [
        served(Protocol::Http1, 75_000),
        served(Protocol::Http2, 75_000),
    ] {
        assert_eq!(close_action(&idle, running()), CloseAction::Close);
    }
}

#[test]
fn while_the_server_runs_each_state_has_its_limit() {
    let handshake = ConnCounters::new(NOW - 9_999, Protocol::TlsHandshake);
    assert_eq!(close_action(&handshake, running()), wait(1));
    let handshake = ConnCounters::new(NOW - 10_000, Protocol::TlsHandshake);
    assert_eq!(close_action(&handshake, running()), CloseAction::Abort);
    for protocol in [Protocol::WebSocket, Protocol::Upgraded] {
        assert_eq!(
            close_action(&counters(protocol, 99_000), running()),
            FOREVER
        );
    }
    let upload = |quiet| {
        let counters = counters(Protocol::Http1, quiet);
        counters.begin();
        counters.body_is_awaited(true);
        close_action(&counters, running())
    };
    assert_eq!(
        (upload(59_999), upload(60_000)),
        (wait(1), CloseAction::Abort)
    );
    let turning = PolicyInput {
        stage: DrainStage::Announced,
        ..running()
    };
    assert_eq!(
        close_action(&counters(Protocol::Http1, 1_000), turning),
        wait(29_000)
    );
}

#[test]
fn a_closed_side_counts_from_the_first_look_and_from_the_last_byte() {
    let working = |quiet, closed: &[u64]| {
        let counters = counters(Protocol::Http1, quiet);
        counters.begin();
        closed.iter().for_each(|at| counters.half_closed(*at));
        counters
    };
    let early = working(9_000, &[NOW - 5_000, NOW]);
    assert_eq!(close_action(&early, running()), wait(55_000));
    assert_eq!(close_action(&early, linger(500)), wait(1_500));
    assert_eq!(close_action(&early, linger(2_000)), CloseAction::Abort);
    let late = working(1_000, &[NOW - 5_000]);
    assert_eq!(close_action(&late, running()), wait(59_000));
    // At the very start of the clock it is closed as well.
    assert_eq!(working(0, &[0]).state(), ConnState::HalfClosed);
}

#[test]
fn a_client_with_the_final_bytes_has_a_moment_to_close() {
    // Idle since before the linger, and all of it taken.
    let parting = |quiet, input| close_action(&counters(Protocol::AwaitingClose, quiet), input);
    let idle = counters(Protocol::AwaitingClose, 0);
    idle.progress.store(NOW - 600, Relaxed);
    assert_eq!(close_action(&idle, linger(599)), wait(50));
    assert_eq!(
        close_action(&idle, linger(600)),
        wait(200),
        "active in the linger"
    );
    let unread = PolicyInput {
        all_acknowledged: false,
        ..linger(0)
    };
    assert_eq!(close_action(&idle, unread), wait(200));
    // Whatever the drain leaves.
    let short = PolicyInput {
        most: ms(20),
        ..linger(0)
    };
    assert_eq!(parting(15, short), wait(5));
    assert_eq!(parting(20, short), CloseAction::Abort);
    let call = |left| PolicyInput {
        until_final_cutoff: ms(left),
        ..linger(0)
    };
    assert_eq!(parting(1, call(7)), wait(7));
    assert_eq!(parting(1, call(900)), wait(49));
    assert_eq!(parting(1, call(0)), CloseAction::Abort);
}

#[test]
fn in_the_linger_only_stalls_have_a_limit() {
    for idle in [
        counters(Protocol::Http1, 9_000),
        served(Protocol::Http1, 9_000),
        served(Protocol::Http2, 9_000),
        counters(Protocol::Upgraded, 9_000),
        ConnCounters::new(NOW - 9_000, Protocol::TlsHandshake),
    ] {
        assert_eq!(close_action(&idle, linger(400)), FOREVER);
    }
    let stalled = counters(Protocol::Http1, 1_500);
    stalled.cannot_write();
    assert_eq!(close_action(&stalled, linger(1_000)), wait(1_000));
    assert_eq!(close_action(&stalled, linger(1_700)), wait(500));
    let short = PolicyInput {
        most: ms(600),
        ..linger(1_000)
    };
    assert_eq!(
        close_action(&stalled, short),
        wait(200),
        "twice what a state may have"
    );
}

#[test]
fn a_websocket_says_goodbye_itself_or_we_do_and_then_it_has_the_patience() {
    let socket = counters(Protocol::WebSocket, 9_000);
    assert!(!socket.closes_websocket());
    assert_eq!(close_action(&socket, linger(99)), wait(1));
    assert_eq!(
        close_action(&socket, linger(100)),
        CloseAction::CloseWebSocket
    );
    let short = PolicyInput {
        most: ms(40),
        ..linger(30)
    };
    assert_eq!(close_action(&socket, short), wait(10));
    socket.close_websocket(NOW - 300);
    assert!(socket.closes_websocket());
    assert_eq!(close_action(&socket, linger(100)), wait(700));
    assert_eq!(close_action(&socket, closing(100)), wait(700));
    socket.close_websocket(NOW - 1_000);
    assert_eq!(close_action(&socket, linger(100)), CloseAction::Abort);
}

#[test]
fn after_the_linger_whatever_does_not_work_ends() {
    assert_eq!(
        close_action(&counters(Protocol::Http1, 0), closing(0)),
        CloseAction::Close
    );
    let half_head = counters(Protocol::Http1, 0);
    half_head.read(NOW, 5, 0, false, true);
    assert_eq!(close_action(&half_head, closing(400)), wait(600));
    assert_eq!(close_action(&half_head, closing(1_000)), CloseAction::Close);
    let short = PolicyInput {
        most: ms(500),
        ..closing(400)
    };
    assert_eq!(close_action(&half_head, short), wait(100));
    for other in [
        counters(Protocol::Upgraded, 0),
        served(Protocol::Http2, 0),
        ConnCounters::new(NOW, Protocol::TlsHandshake),
    ] {
        assert_eq!(close_action(&other, closing(400)), wait(600));
        assert_eq!(close_action(&other, closing(1_000)), CloseAction::Abort);
    }
    let idle_grace = PolicyInput {
        idle_grace: ms(150),
        ..closing(400)
    };
    assert_eq!(
        close_action(&served(Protocol::Http1, 149), idle_grace),
        wait(1)
    );
    assert_eq!(
        close_action(&served(Protocol::Http1, 150), idle_grace),
        CloseAction::Close
    );
    let working = counters(Protocol::Http1, 0);
    working.begin();
    assert_eq!(close_action(&working, closing(9_000)), FOREVER);
}

#[test]
fn a_slow_http2_reader_is_waited_for_while_it_makes_room() {
    let slow = |quiet| {
        let counters = served(Protocol::Http2, quiet);
        counters.is_untaken(true);
        counters.mark_slow_reader();
        counters.is_untaken(false);
        counters
    };
    assert_eq!(close_action(&slow(300), closing(900)), wait(700));
    assert_eq!(close_action(&slow(5_000), closing(900)), wait(100));
    assert_eq!(
        close_action(&slow(5_000), closing(1_000)),
        CloseAction::Abort
    );
}

/// In a hand-off a connection moves when it is between two requests, in every stage of the drain.
#[test]
fn what_is_between_two_requests_moves_to_the_new_process() {
    for stage in [linger(0), closing(0), closing(5_000)] {
        let moves = |counters: &ConnCounters| {
            let input = PolicyInput {
                has_successor: true,
                ..stage
            };
            let action = counters.close_action(&Limits::default(), input);
            assert_ne!(
                counters.close_action(&Limits::default(), stage),
                CloseAction::Move,
                "there is no new process"
            );
            action == CloseAction::Move
        };
        let detecting = counters(Protocol::Detecting, 0);
        assert!(moves(&detecting), "silent");
        detecting.read(NOW, 2, 0, false, true);
        assert!(moves(&detecting), "two bytes");
        assert!(moves(&counters(Protocol::Http1, 0)), "silent");
        let idle = served(Protocol::Http1, 0);
        assert!(moves(&idle), "idle");
        idle.read(NOW, 20, 0, false, true);
        assert!(moves(&idle), "half a head");
        idle.begin();
        assert!(!moves(&idle), "working");
        idle.end();
        idle.cannot_write();
        assert!(!moves(&idle), "its answer is not out");
        idle.flushed();
        idle.read(NOW, 5, 0, true, true);
        assert!(!moves(&idle), "in a body that no handler reads");
        let closing = served(Protocol::Http1, 0);
        closing.begin_close(NOW);
        assert!(!moves(&closing), "its close has begun");
        for other in [
            Protocol::TlsHandshake,
            Protocol::Http2,
            Protocol::WebSocket,
            Protocol::Upgraded,
            Protocol::AwaitingClose,
        ] {
            assert!(!moves(&counters(other, 0)), "{other:?}");
        }
    }
    let serving = PolicyInput {
        has_successor: true,
        ..running()
    };
    let idle = served(Protocol::Http1, 0);
    assert_ne!(
        idle.close_action(&Limits::default(), serving),
        CloseAction::Move,
        "before the stop"
    );
}

/// The handler of a WebSocket that may move is given the time to leave it.
#[test]
fn a_websocket_that_may_move_is_told_to_go_when_its_handler_has_had_its_time() {
    let socket = counters(Protocol::WebSocket, 0);
    let grace = |input| match close_action(&socket, input) {
        CloseAction::Wait(Some(left)) => left,
        other => panic!("{other:?}"),
    };
    assert_eq!(grace(linger(0)), WS_HANDLER_GRACE);
    let may_move = PolicyInput {
        has_successor: true,
        most: ms(5_000),
        ..linger(0)
    };
    assert_eq!(grace(may_move), ms(5_000));
    let late = PolicyInput {
        lingering_for: ms(5_000),
        ..may_move
    };
    assert_eq!(close_action(&socket, late), CloseAction::CloseWebSocket);
}

/// What a connection has been through elsewhere counts here.
#[test]
fn a_connection_brings_its_past() {
    let carried = counters(Protocol::Detecting, 0);
    let past = CarriedCounters {
        served: 7,
        age_ms: 90_000,
        idle_ms: 60_000,
        head_ms: 20_000,
    };
    carried.carried(NOW, past);
    assert_eq!(carried.served(), 7);
    assert!(!carried.has_heads_waiting());
    assert_eq!(carried.last_progress(), NOW - 60_000);
    carried.enter(Protocol::Http1, NOW);
    assert_eq!(carried.state(), ConnState::Idle);
    // The default is 75 s.
    let left = Duration::from_secs(15);
    assert_eq!(
        carried.close_action(&Limits::default(), running()),
        CloseAction::Wait(Some(left))
    );
    // Half a head came with it: 20 of its 30 s are over.
    carried.read(NOW, 9, 0, false, true);
    carried.head_was_carried(NOW - past.head_ms, NOW - past.idle_ms);
    assert_eq!(carried.head_began(), Some(NOW - past.head_ms));
    assert_eq!(
        carried.close_action(&Limits::default(), running()),
        CloseAction::Wait(Some(Duration::from_secs(10)))
    );
}

/// In a lame-duck period that tells clients one after the other, a WebSocket ends at its turn; without that it stays.
#[test]
fn a_websocket_ends_at_its_turn() {
    let at = |counters: &ConnCounters, turn_left: Option<Duration>, leaves_early| {
        let input = PolicyInput {
            stage: DrainStage::Announced,
            turn_left,
            leaves_early,
            ..running()
        };
        counters.close_action(&Limits::default(), input)
    };
    let socket = counters(Protocol::WebSocket, 0);
    assert_eq!(at(&socket, None, false), CloseAction::Wait(None));
    let left = Some(Duration::from_millis(700));
    assert_eq!(at(&socket, left, true), CloseAction::Wait(left));
    assert_eq!(at(&socket, None, true), CloseAction::CloseWebSocket);
    socket.close_websocket(NOW - 400);
    let left = Some(Duration::from_millis(600));
    assert_eq!(at(&socket, None, true), CloseAction::Wait(left));
    socket.close_websocket(NOW - 1_000);
    assert_eq!(at(&socket, None, true), CloseAction::Abort);
    let tunnel = counters(Protocol::Upgraded, 0);
    assert_eq!(
        at(&tunnel, None, true),
        CloseAction::Wait(None),
        "it has no word for it"
    );
}

/// An HTTP/2 connection that has only WebSockets is not idle, and does not hold a stop.
#[test]
fn streams_that_are_tunnels_stay_and_end_after_the_linger() {
    let counters = served(Protocol::Http2, 0);
    counters.begin();
    counters.tunnels(true);
    assert_eq!(counters.state(), ConnState::Upgraded);
    assert_eq!(close_action(&counters, running()), CloseAction::Wait(None));
    assert_eq!(
        close_action(&counters, linger(400)),
        CloseAction::Wait(None)
    );
    assert_eq!(close_action(&counters, closing(1_000)), CloseAction::Abort);
    // Another stream has a handler at work, or waits for its client.
    counters.begin();
    assert_eq!(counters.state(), ConnState::Working);
    assert_eq!(
        close_action(&counters, closing(1_000)),
        CloseAction::Wait(None)
    );
    counters.body_is_awaited(true);
    assert_eq!(counters.state(), ConnState::StalledUpload);
    counters.body_is_awaited(false);
    counters.end();
    counters.tunnels(false);
    counters.end();
    assert_eq!(counters.state(), ConnState::IdleHttp2);
}
