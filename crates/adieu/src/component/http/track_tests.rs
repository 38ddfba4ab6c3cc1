//! Whatever happens on a connection, in whatever order: work that goes on is left alone, everything else has a
//! bound.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Copy, Debug)]
enum Event {
    Enter(Stage),
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
    use Stage::{Detecting, Http1, Http2, Parting, Upgraded, WebSocket};
    let stage = prop::sample::select(vec![Detecting, Http1, Http2, WebSocket, Upgraded, Parting]);
    prop_oneof![
        1 => stage.prop_map(Event::Enter),
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
    track: Track,
    limits: Limits,
    now: u64,
    tide: Tide,
    turned: [u64; 4],
    /// For each request under way: whether its body is awaited, and whether its answer is held up.
    requests: Vec<(bool, bool)>,
    blocked: bool,
    /// A quarter of what the drain has.
    most: Duration,
    afterthought: Duration,
    moved: u64,
}

impl World {
    fn new() -> Self {
        let track = Track::new(1_000, Stage::Handshake);
        track.enter(Stage::Http1, 1_000);
        Self {
            track,
            limits: Limits::default(),
            now: 1_000,
            tide: Tide::Flow,
            turned: [1_000; 4],
            requests: Vec::new(),
            blocked: false,
            most: Duration::MAX / 4,
            afterthought: Duration::ZERO,
            moved: 1_000,
        }
    }

    fn turn(&mut self) {
        self.tide = match self.tide {
            Tide::Flow => Tide::Turning,
            Tide::Turning => Tide::Linger,
            Tide::Linger | Tide::Ebb => Tide::Ebb,
        };
        self.turned[self.tide as usize] = self.now;
    }

    fn happen(&mut self, event: Event) {
        match event {
            // Protocols do not change under a request, but for the end of all.
            Event::Enter(stage) if self.requests.is_empty() => self.track.enter(stage, self.now),
            Event::Enter(_) => {}
            Event::Read { bytes, heads } => {
                self.track.read(self.now, bytes, heads, false, true);
                self.moved = self.now;
            }
            Event::Wrote => {
                self.track.wrote(self.now, true);
                (self.moved, self.blocked) = (self.now, false);
            }
            Event::CannotWrite => {
                self.track.cannot_write();
                self.blocked = true;
            }
            Event::Flushed => {
                self.track.flushed();
                self.blocked = false;
            }
            Event::Begin => {
                self.track.begin();
                self.requests.push((false, false));
            }
            Event::End => {
                if let Some((awaited, held)) = self.requests.pop() {
                    if awaited {
                        self.track.body_is_awaited(false);
                    }
                    if held {
                        self.track.answer_is_held(false);
                    }
                    self.track.end();
                }
            }
            Event::BodyAwaited(now) => {
                // A body is not awaited any more once the answer is under way.
                if let Some((awaited, held)) = self.requests.last_mut()
                    && !*held
                    && *awaited != now
                {
                    *awaited = now;
                    self.track.body_is_awaited(now);
                }
            }
            Event::AnswerHeld(now) => {
                if let Some((awaited, held)) = self.requests.last_mut()
                    && !*awaited
                    && *held != now
                {
                    *held = now;
                    self.track.answer_is_held(now);
                }
            }
            Event::Pass(millis) => self.now += millis,
            Event::Turn => self.turn(),
        }
    }

    fn verdict(&self) -> Verdict {
        let ago = |tide: Tide| {
            let passed = self.now - self.turned[tide as usize];
            Duration::from_millis(if self.tide >= tide { passed } else { 0 })
        };
        let moment = Moment {
            now_ms: self.now,
            tide: self.tide,
            since_linger: ago(Tide::Linger),
            since_ebb: ago(Tide::Ebb),
            all_taken: !self.blocked,
            most: self.most,
            afterthought: self.afterthought,
            until_last_call: Duration::MAX,
        };
        self.track.verdict(&self.limits, moment)
    }

    fn speaks_http(&self) -> bool {
        matches!(
            self.track.stage(),
            Stage::Detecting | Stage::Http1 | Stage::Http2
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
            let verdict = world.verdict();
            if world.a_handler_can_go_on() {
                prop_assert_eq!(verdict, Verdict::Wait(None));
            } else if world.now - world.moved < 2_000 {
                prop_assert!(matches!(verdict, Verdict::Wait(Some(_))), "{:?}", verdict);
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
        while world.tide < Tide::Ebb {
            world.turn();
        }
        if world.track.state() == State::Working {
            return Ok(());
        }
        // Every wait is followed by another look, as the minder does it. The bound is the longest of the limits of
        // a stop, and for a WebSocket two after one another.
        let (ebb, mut looks) = (world.now, 0);
        let end = loop {
            match world.verdict() {
                Verdict::Wait(None) => prop_assert!(false, "waits for ever in {:?}", world.track.state()),
                Verdict::Wait(Some(left)) => world.now += u64::try_from(left.as_millis()).unwrap().max(1),
                Verdict::CloseWebSocket => world.track.close_websocket(world.now),
                Verdict::HangUp | Verdict::Cut => break world.now,
            }
            looks += 1;
            prop_assert!(looks < 10, "never comes to an end");
        };
        // Half of the drain at most, so that what follows has its time.
        let bound = (2 * most).min(2_000);
        prop_assert!(end - ebb <= bound, "{} ms", end - ebb);
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
        let verdict = world.verdict();
        if world.speaks_http() && quiet < world.limits.head && verdict != Verdict::HangUp {
            prop_assert!(matches!(verdict, Verdict::Wait(_)), "{:?} after {:?}", verdict, quiet);
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
        assert_eq!(world.track.state(), State::HalfHead);
        world.happen(Event::Pass(29_900));
        // A byte now and then does not buy more time.
        world.happen(Event::Read { bytes: 1, heads: 0 });
        assert!(matches!(world.verdict(), Verdict::Wait(Some(_))));
        world.happen(Event::Pass(100));
        assert_eq!(world.verdict(), Verdict::HangUp);
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
    assert_eq!(world.tide, Tide::Linger);
    assert_eq!(
        world.verdict(),
        Verdict::Wait(Some(world.limits.stall_in_stop))
    );
    world.happen(Event::Pass(2_000));
    assert_eq!(world.verdict(), Verdict::Cut);
}

/// It may wait for its answer, or not be there any more; nobody can tell.
#[test]
fn a_client_that_has_closed_its_side_is_not_waited_for_for_ever() {
    let mut world = World::new();
    world.happen(Event::Begin);
    world.happen(Event::Pass(600_000));
    assert_eq!(world.verdict(), Verdict::Wait(None));
    world.track.half_closed(world.now);
    assert_eq!(world.verdict(), Verdict::Wait(Some(world.limits.stall)));
    world.happen(Event::Pass(59_000));
    // Whoever takes bytes is there.
    world.happen(Event::Wrote);
    world.happen(Event::Pass(59_000));
    world.track.half_closed(world.now);
    assert!(matches!(world.verdict(), Verdict::Wait(Some(_))));
    world.happen(Event::Turn);
    world.happen(Event::Turn);
    assert_eq!(
        world.verdict(),
        Verdict::Wait(Some(world.limits.stall_in_stop))
    );
    world.happen(Event::Pass(2_000));
    assert_eq!(world.verdict(), Verdict::Cut);
}

#[test]
fn who_has_connected_in_advance_is_told_apart_from_who_is_about_to_ask() {
    let mut world = World::new();
    assert!(!world.track.hesitates(world.now + HESITATION));
    assert!(world.track.hesitates(world.now + HESITATION + 1));
    let soon = Duration::from_millis(HESITATION + 1);
    assert_eq!(world.track.hesitates_in(world.now), Some(soon));
    assert_eq!(world.track.hesitates_in(world.now + HESITATION + 1), None);
    world.happen(Event::Begin);
    assert!(!world.track.hesitates(world.now + HESITATION + 1));
}

#[test]
fn an_http2_client_that_ignores_our_hanging_up_is_cut() {
    let mut world = World::new();
    world.happen(Event::Enter(Stage::Http2));
    world.happen(Event::Pass(75_000));
    assert_eq!(world.verdict(), Verdict::HangUp);
    assert!(world.track.hang_up(world.now));
    assert_eq!(world.verdict(), Verdict::Wait(Some(world.limits.patience)));
    // It chats on, which is no reason to stay.
    world.happen(Event::Pass(900));
    world.track.wrote(world.now, true);
    world.happen(Event::Pass(100));
    assert_eq!(world.verdict(), Verdict::Cut);
}

#[test]
fn who_was_idle_and_has_our_last_word_has_less_time_left_to_close() {
    let mut world = World::new();
    world.happen(Event::Pass(1));
    world.happen(Event::CannotWrite);
    world.happen(Event::Enter(Stage::Parting));
    world.happen(Event::Pass(150));
    assert_eq!(
        world.verdict(),
        Verdict::Wait(Some(Duration::from_millis(50)))
    );
    world.happen(Event::Flushed);
    assert_eq!(world.verdict(), Verdict::Cut);
    world.track.took_some(world.now, true);
    assert_eq!(world.verdict(), Verdict::Cut);
    world.track.took_some(world.now, false);
    assert_eq!(world.verdict(), Verdict::Wait(Some(PARTED)));
}

#[test]
fn who_was_active_after_the_stop_began_may_write_once_more_before_it_looks() {
    let mut world = World::new();
    world.happen(Event::Pass(1));
    for _ in 0..2 {
        world.happen(Event::Turn);
    }
    world.happen(Event::Pass(300));
    world.happen(Event::Wrote);
    world.happen(Event::Enter(Stage::Parting));
    assert_eq!(world.verdict(), Verdict::Wait(Some(PARTING)));
    world.happen(Event::Pass(200));
    assert_eq!(world.verdict(), Verdict::Cut);
}

/// Its answer began before the stop and ended after the linger.
#[test]
fn who_was_answered_a_moment_ago_may_ask_once_more() {
    let mut world = World::new();
    world.afterthought = Duration::from_millis(150);
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
        world.verdict(),
        Verdict::Wait(Some(Duration::from_millis(150)))
    );
    world.happen(Event::Pass(150));
    assert_eq!(world.verdict(), Verdict::HangUp);
}
