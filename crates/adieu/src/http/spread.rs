//! When in the lame-duck period a connection's client is asked to go elsewhere: evenly over a time, and not all at once. No clock: the
//! caller passes the time in.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::lifetime::fraction;

/// Gives the connections of a server their turns.
pub(super) struct Turns(AtomicU64);

/// How long after the announcement of the stop its client is asked to go elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TurnToGo(Duration);

impl Turns {
    /// Servers that stop together do not go through the same turns.
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(RandomState::new().hash_one(())))
    }

    /// The turn of one more connection. Those of any number of connections in a row lie evenly.
    pub(super) fn next(&self, spread: Duration) -> TurnToGo {
        if spread.is_zero() {
            return TurnToGo(Duration::ZERO);
        }
        TurnToGo::of(spread, self.0.fetch_add(1, Relaxed))
    }
}

impl TurnToGo {
    fn of(spread: Duration, number: u64) -> Self {
        let millis = (spread.as_millis() * u128::from(fraction(number))) >> 32;
        Self(Duration::from_millis(
            u64::try_from(millis).unwrap_or(u64::MAX),
        ))
    }

    /// How long it may stay, so long after the announcement; nothing once it is its turn.
    pub(super) fn left(self, announced_for: Duration) -> Option<Duration> {
        let left = self.0.checked_sub(announced_for)?;
        (!left.is_zero()).then_some(left)
    }

    /// How long after the announcement that is.
    pub(super) const fn after(self) -> Duration {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(10);

    #[test]
    fn turns_lie_evenly_however_many_there_are() {
        for count in [1, 2, 3, 10, 100, 1_000_u64] {
            for first in [0, 12_345, u64::MAX - 50] {
                let mut turns: Vec<_> = (0..count)
                    .map(|index| TurnToGo::of(WINDOW, first.wrapping_add(index)).after())
                    .collect();
                turns.push(Duration::ZERO);
                turns.push(WINDOW);
                turns.sort();
                assert!(turns[turns.len() - 2] < WINDOW);
                let gaps = turns.windows(2).map(|pair| pair[1] - pair[0]);
                let widest = gaps.max().expect("there are gaps");
                // Even ones would be the window divided by the count. Multiples of the golden ratio stay below three of them.
                let most = WINDOW.as_millis() * 3 / u128::from(count) + 2;
                assert!(
                    widest.as_millis() <= most,
                    "{count} from {first}: {widest:?}"
                );
            }
        }
    }

    #[test]
    fn it_stays_until_its_turn() {
        let turn = TurnToGo(Duration::from_millis(400));
        assert_eq!(turn.left(Duration::ZERO), Some(Duration::from_millis(400)));
        assert_eq!(
            turn.left(Duration::from_millis(399)),
            Some(Duration::from_millis(1))
        );
        assert_eq!(turn.left(Duration::from_millis(400)), None);
        assert_eq!(turn.left(WINDOW), None);
    }

    #[test]
    fn without_a_spread_it_is_the_turn_of_all_at_once() {
        let turns = Turns::new();
        assert_eq!(turns.next(Duration::ZERO).left(Duration::ZERO), None);
        assert_eq!(turns.next(Duration::ZERO), turns.next(Duration::ZERO));
        assert_ne!(turns.next(WINDOW), turns.next(WINDOW));
        let longest = TurnToGo::of(Duration::MAX, u64::MAX / 3);
        assert!(longest.after() < Duration::MAX);
    }
}
