//! Random orders, with many parts: a script of numbers, each of which chooses one of the moves possible then.

use std::time::Duration;

use adieu_lifecycle::{Moment, Role, Terms};
use proptest::prelude::*;

use crate::ahead;
use crate::world::{Move, Scenario, World};

fn role() -> impl Strategy<Value = Role> {
    prop_oneof![
        3 => Just(Role::Work),
        3 => Just(Role::Resource),
        1 => Just(Role::Hook(Moment::Shutdown)),
        1 => Just(Role::Hook(Moment::Cleanup)),
        1 => Just(Role::Hook(Moment::Exit)),
    ]
}

prop_compose! {
    fn terms()(grace in 1_u64..60_000, lame_duck in 0_u64..20_000, hurry in 1_u64..10_000) -> Terms {
        Terms {
            grace: Duration::from_millis(grace),
            lame_duck: Duration::from_millis(lame_duck),
            hurry: Duration::from_millis(hurry),
        }
    }
}

prop_compose! {
    fn scenario()(
        terms in terms(),
        parts in prop::collection::vec((role(), prop::option::weighted(0.3, 1_u64..30_000)), 0..10),
        children in 0_usize..4,
        (pauses, oversleeps) in (0_u8..4, prop_oneof![3 => Just(0_u8), 1 => Just(2)]),
        bounds in prop_oneof![3 => Just(0_u8), 1 => Just(1)],
        (stubborn, signals, failures) in (any::<bool>(), any::<bool>(), any::<bool>()),
    ) -> Scenario {
        let limited = |(role, limit): (Role, Option<u64>)| (role, limit.map(Duration::from_millis));
        Scenario {
            terms,
            parts: parts.into_iter().map(limited).collect(),
            children,
            pauses,
            oversleeps,
            bounds,
            stubborn,
            signals,
            failures,
        }
    }
}

/// Follows the script as long as something may happen. A number chooses among all moves; without a bias most
/// scripts would be stopped before their service has started.
fn follow(scenario: &Scenario, script: &[u16], mut each: impl FnMut(&World, Move)) -> World {
    let mut world = World::new(scenario);
    for (place, &number) in script.iter().enumerate() {
        let mut moves = world.moves(scenario);
        if place < script.len() / 3 && moves.len() > 1 {
            moves.retain(|next| *next != Move::Stop);
        }
        let Some(&next) = moves.get(usize::from(number) % moves.len().max(1)) else {
            break;
        };
        world.apply(scenario, next);
        each(&world, next);
    }
    world
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn every_promise_holds_and_the_end_comes_from_anywhere(
        scenario in scenario(),
        script in prop::collection::vec(any::<u16>(), 0..120),
    ) {
        let mut way = Vec::new();
        let mut broken = None;
        follow(&scenario, &script, |world, next| {
            way.push(next);
            // The look ahead keeps the same books, so what it finds includes what is wrong already.
            let ahead = ahead::check(&scenario, world);
            if broken.is_none() && !ahead.auditor.breaches.is_empty() {
                broken = Some((way.clone(), ahead.auditor.breaches));
            }
        });
        prop_assert!(broken.is_none(), "{broken:?}");
    }
}
