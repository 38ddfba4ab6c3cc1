//! Whatever happens on a connection, in whatever order: work that goes on is left alone, everything else has a
//! bound.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Copy, Debug)]
enum Event {
    Enter(Protocol),
    Read { bytes: usize, heads: u32 },
    Wrote,
    CannotWrite,
    Flushed,
    Begin,
    End,
    BodyAwaited(bool),
    AnswerHeld(bool),
    Pass(u64),
    Turn,
}

fn event() -> impl Strategy<Value = Event> {
    use Protocol::{AwaitingClose, Detecting, Http1, Http2, Upgraded, WebSocket};
    let protocol = prop::sample::select(vec![
        Detecting,
        Http1,
        Http2,
        WebSocket,
        Upgraded,
        AwaitingClose,
    ]);
    prop_oneof![
        1 => protocol.prop_map(Event::Enter),
        4 => (1_usize..2_000, 0_u32..3).prop_map(|(bytes, heads)| Event::Read { bytes, heads }),
        4 => Just(Event::Wrote),
        2 => Just(Event::CannotWrite),
        2 => Just(Event::Flushed),
        5 => Just(Event::Begin),
        4 => Just(Event::End),
        3 => any::<bool>().prop_map(Event::BodyAwaited),
        3 => any::<bool>().prop_map(Event::AnswerHeld),
        4 => (1_u64..3_000).prop_map(Event::Pass),
        1 => Just(Event::Turn),
    ]
}

/// A connection and what is true of it, told in the simplest way.
struct World {
    counters: ConnCounters,
    limits: Limits,
    now: u64,
    stage: DrainStage,
    announced: [u64; 4],
    /// For each request in flight: whether its body is awaited, and whether its answer is held up.
    requests: Vec<(bool, bool)>,
    blocked: bool,
    /// A quarter of what the drain has.
    most: Duration,
    idle_grace: Duration,
    moved: u64,
}

impl World {
    fn new() -> Self {
        let counters = ConnCounters::new(1_000, Protocol::TlsHandshake);
        counters.enter(Protocol::Http1, 1_000);
        Self {
            counters,
            limits: Limits::default(),
            now: 1_000,
            stage: DrainStage::Serving,
            announced: [1_000; 4],
            requests: Vec::new(),
            blocked: false,
            most: Duration::MAX / 4,
            idle_grace: Duration::ZERO,
            moved: 1_000,
        }
    }

    fn turn(&mut self) {
        self.stage = match self.stage {
            DrainStage::Serving => DrainStage::Announced,
            DrainStage::Announced => DrainStage::Lingering,
            DrainStage::Lingering | DrainStage::Closing => DrainStage::Closing,
        };
        self.announced[self.stage as usize] = self.now;
    }

    fn happen(&mut self, event: Event) {
        match event {
            // Protocols do not change under a request, but for the end of all.
            Event::Enter(protocol) if self.requests.is_empty() => {
                self.counters.enter(protocol, self.now)
            }
            Event::Enter(_) => {}
            Event::Read { bytes, heads } => {
                self.counters.read(self.now, bytes, heads, false, true);
                self.moved = self.now;
            }
            Event::Wrote => {
                self.counters.wrote(self.now, true);
                (self.moved, self.blocked) = (self.now, false);
            }
            Event::CannotWrite => {
                self.counters.cannot_write();
                self.blocked = true;
            }
            Event::Flushed => {
                self.counters.flushed();
                self.blocked = false;
            }
            Event::Begin => {
                self.counters.begin();
                self.requests.push((false, false));
            }
            Event::End => {
                if let Some((awaited, held)) = self.requests.pop() {
                    if awaited {
                        self.counters.body_is_awaited(false);
                    }
                    if held {
                        self.counters.answer_is_held(false);
                    }
                    self.counters.end();
                }
            }
            Event::BodyAwaited(now) => {
                // A body is not awaited any more once the answer has begun.
                if let Some((awaited, held)) = self.requests.last_mut()
                    && !*held
                    && *awaited != now
                {
                    *awaited = now;
                    self.counters.body_is_awaited(now);
                }
            }
            Event::AnswerHeld(now) => {
                if let Some((awaited, held)) = self.requests.last_mut()
                    && !*awaited
                    && *held != now
                {
                    *held = now;
                    self.counters.answer_is_held(now);
                }
            }
            Event::Pass(millis) => self.now += millis,
            Event::Turn => self.turn(),
        }
    }

    fn close_action(&self) -> CloseAction {
        let ago = |stage: DrainStage| {
            let passed = self.now - self.announced[stage as usize];
            Duration::from_millis(if self.stage >= stage { passed } else { 0 })
        };
        let input = PolicyInput {
            now_ms: self.now,
            stage: self.stage,
            lingering_for: ago(DrainStage::Lingering),
            closing_for: ago(DrainStage::Closing),
            all_acknowledged: !self.blocked,
            most: self.most,
            idle_grace: self.idle_grace,
            until_final_cutoff: Duration::MAX,
            lifetime: Lifetime::UNLIMITED,
            has_successor: false,
            turn_left: None,
            leaves_early: false,
        };
        self.counters.close_action(&self.limits, input)
    }

    fn speaks_http(&self) -> bool {
        matches!(
            self.counters.protocol(),
            Protocol::Detecting | Protocol::Http1 | Protocol::Http2
        )
    }

    fn a_handler_can_go_on(&self) -> bool {
        !self.blocked && self.requests.contains(&(false, false))
    }
}

proptest! {
    #[test]
    fn a_request_that_goes_on_is_left_alone(events in prop::collection::vec(event(), 1..60)) {
        let mut world = World::new();
        for event in events {
            world.happen(event);
            if !world.speaks_http() || world.requests.is_empty() {
                continue;
            }
            let close_action = world.close_action();
            if world.a_handler_can_go_on() {
                prop_assert_eq!(close_action, CloseAction::Wait(None));
            } else if world.now - world.moved < 2_000 {
                prop_assert!(matches!(close_action, CloseAction::Wait(Some(_))), "{:?}", close_action);
            }
        }
    }

    #[test]
    fn whatever_does_not_work_has_a_bound_in_a_stop(
        events in prop::collection::vec(event(), 1..60),
        most in 10_u64..5_000,
    ) {
        let mut world = World::new();
        world.most = Duration::from_millis(most);
        for event in events {
            world.happen(event);
        }
        while world.stage < DrainStage::Closing {
            world.turn();
        }
        if world.counters.state() == ConnState::Working {
            return Ok(());
        }
        // Every wait is followed by another look, as the minder does it. The bound is the longest of the limits of
        // a stop, and for a WebSocket two after one another.
        let (closing, mut looks) = (world.now, 0);
        let end = loop {
            match world.close_action() {
                CloseAction::Wait(None) => prop_assert!(false, "waits forever in {:?}", world.counters.state()),
                CloseAction::Wait(Some(left)) => world.now += u64::try_from(left.as_millis()).unwrap().max(1),
                CloseAction::CloseWebSocket => world.counters.close_websocket(world.now),
                CloseAction::Close | CloseAction::Abort => break world.now,
                CloseAction::Move => panic!("there is no new process"),
            }
            looks += 1;
            prop_assert!(looks < 10, "never comes to an end");
        };
        // Half of the drain at most, so that what follows has its time.
        let bound = (2 * most).min(2_000);
        prop_assert!(end - closing <= bound, "{} ms", end - closing);
    }

    #[test]
    fn nothing_is_cut_before_its_limit_while_running(events in prop::collection::vec(event(), 1..60)) {
        let mut world = World::new();
        for event in events {
            if !matches!(event, Event::Turn) {
                world.happen(event);
            }
        }
        let quiet = Duration::from_millis(world.now - world.moved);
        let close_action = world.close_action();
        if world.speaks_http() && quiet < world.limits.head && close_action != CloseAction::Close {
            prop_assert!(matches!(close_action, CloseAction::Wait(_)), "{:?} after {:?}", close_action, quiet);
        }
    }
}

#[test]
fn half_a_head_has_its_own_limit_on_a_first_and_on_a_reused_connection() {
    let mut world = World::new();
    for reused in [false, true] {
        if reused {
            world.happen(Event::Begin);
            world.happen(Event::End);
        }
        world.happen(Event::Read {
            bytes: 20,
            heads: 0,
        });
        assert_eq!(world.counters.state(), ConnState::HalfHead);
        world.happen(Event::Pass(29_900));
        // A byte now and then does not buy more time.
        world.happen(Event::Read { bytes: 1, heads: 0 });
        assert!(matches!(world.close_action(), CloseAction::Wait(Some(_))));
        world.happen(Event::Pass(100));
        assert_eq!(world.close_action(), CloseAction::Close);
    }
}

/// It had a minute for a pause when it made one, and has the time of a stop from the stop on.
#[test]
fn a_pause_before_the_stop_is_no_stall_in_it() {
    let mut world = World::new();
    world.happen(Event::Begin);
    world.happen(Event::BodyAwaited(true));
    world.happen(Event::Pass(50_000));
    for _ in 0..2 {
        world.happen(Event::Turn);
    }
    assert_eq!(world.stage, DrainStage::Lingering);
    assert_eq!(
        world.close_action(),
        CloseAction::Wait(Some(world.limits.stall_in_stop))
    );
    world.happen(Event::Pass(2_000));
    assert_eq!(world.close_action(), CloseAction::Abort);
}

/// It may wait for its response, or be gone; the server cannot tell.
#[test]
fn a_client_that_has_closed_its_side_is_not_waited_for_for_ever() {
    let mut world = World::new();
    world.happen(Event::Begin);
    world.happen(Event::Pass(600_000));
    assert_eq!(world.close_action(), CloseAction::Wait(None));
    world.counters.half_closed(world.now);
    assert_eq!(
        world.close_action(),
        CloseAction::Wait(Some(world.limits.stall))
    );
    world.happen(Event::Pass(59_000));
    // A client that takes bytes is there.
    world.happen(Event::Wrote);
    world.happen(Event::Pass(59_000));
    world.counters.half_closed(world.now);
    assert!(matches!(world.close_action(), CloseAction::Wait(Some(_))));
    world.happen(Event::Turn);
    world.happen(Event::Turn);
    assert_eq!(
        world.close_action(),
        CloseAction::Wait(Some(world.limits.stall_in_stop))
    );
    world.happen(Event::Pass(2_000));
    assert_eq!(world.close_action(), CloseAction::Abort);
}

#[test]
fn a_spare_connection_is_told_apart_from_one_about_to_send_a_request() {
    let mut world = World::new();
    assert!(
        !world
            .counters
            .awaits_first_request(world.now + FIRST_REQUEST_WAIT)
    );
    assert!(
        world
            .counters
            .awaits_first_request(world.now + FIRST_REQUEST_WAIT + 1)
    );
    let soon = Duration::from_millis(FIRST_REQUEST_WAIT + 1);
    assert_eq!(world.counters.first_request_due_in(world.now), Some(soon));
    assert_eq!(
        world
            .counters
            .first_request_due_in(world.now + FIRST_REQUEST_WAIT + 1),
        None
    );
    world.happen(Event::Begin);
    assert!(
        !world
            .counters
            .awaits_first_request(world.now + FIRST_REQUEST_WAIT + 1)
    );
}

#[test]
fn an_http2_client_that_ignores_our_hanging_up_is_cut() {
    let mut world = World::new();
    world.happen(Event::Enter(Protocol::Http2));
    world.happen(Event::Pass(75_000));
    assert_eq!(world.close_action(), CloseAction::Close);
    assert!(world.counters.begin_close(world.now));
    assert_eq!(
        world.close_action(),
        CloseAction::Wait(Some(world.limits.patience))
    );
    // The client goes on writing, which does not keep the connection open.
    world.happen(Event::Pass(900));
    world.counters.wrote(world.now, true);
    world.happen(Event::Pass(100));
    assert_eq!(world.close_action(), CloseAction::Abort);
}

#[test]
fn an_idle_client_with_the_final_bytes_has_less_time_to_close() {
    let mut world = World::new();
    world.happen(Event::Pass(1));
    world.happen(Event::CannotWrite);
    world.happen(Event::Enter(Protocol::AwaitingClose));
    world.happen(Event::Pass(150));
    assert_eq!(
        world.close_action(),
        CloseAction::Wait(Some(Duration::from_millis(50)))
    );
    world.happen(Event::Flushed);
    assert_eq!(world.close_action(), CloseAction::Abort);
    world.counters.took_some(world.now, true);
    assert_eq!(world.close_action(), CloseAction::Abort);
    world.counters.took_some(world.now, false);
    assert_eq!(
        world.close_action(),
        CloseAction::Wait(Some(CLOSE_WAIT_IDLE))
    );
}

#[test]
fn a_client_active_after_the_stop_began_may_write_once_more() {
    let mut world = World::new();
    world.happen(Event::Pass(1));
    for _ in 0..2 {
        world.happen(Event::Turn);
    }
    world.happen(Event::Pass(300));
    world.happen(Event::Wrote);
    world.happen(Event::Enter(Protocol::AwaitingClose));
    assert_eq!(world.close_action(), CloseAction::Wait(Some(CLOSE_WAIT)));
    world.happen(Event::Pass(200));
    assert_eq!(world.close_action(), CloseAction::Abort);
}

/// Its answer began before the stop and ended after the linger.
#[test]
fn a_client_answered_a_moment_ago_may_send_one_more_request() {
    let mut world = World::new();
    world.idle_grace = Duration::from_millis(150);
    world.happen(Event::Read {
        bytes: 20,
        heads: 1,
    });
    world.happen(Event::Begin);
    for _ in 0..3 {
        world.happen(Event::Turn);
        world.happen(Event::Pass(500));
    }
    world.happen(Event::Wrote);
    world.happen(Event::End);
    assert_eq!(
        world.close_action(),
        CloseAction::Wait(Some(Duration::from_millis(150)))
    );
    world.happen(Event::Pass(150));
    assert_eq!(world.close_action(), CloseAction::Close);
}
