//! One grace period, divided over the phases. The only place that divides time.
//!
//! Every phase has an absolute limit. A phase that ends early leaves its time to the next ones by itself,
//! because limits do not move; a phase that hangs is cut at its limit, so that every later phase keeps the
//! slice it was promised.

use std::time::Duration;

use super::state::{Phase, Time};

/// The limits of one stop, from its first moment to the end of the grace period.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Budget {
    limits: [Time; 5],
}

/// What a phase is promised: a share of the grace period, but no more than so much.
struct Promise {
    percent: u32,
    most: Duration,
}

const HOOKS: Promise = Promise {
    percent: 10,
    most: Duration::from_secs(2),
};
const CANCEL: Promise = Promise {
    percent: 10,
    most: Duration::from_secs(2),
};
const RELEASE: Promise = Promise {
    percent: 15,
    most: Duration::from_secs(4),
};
const SAVE: Promise = Promise {
    percent: 5,
    most: Duration::from_secs(1),
};

/// What a stop that was woken after its end still takes, so that what is open gets a turn at all. Less than the margin
/// after which the process is ended anyway.
const OVERTIME: Duration = Duration::from_millis(30);

impl Promise {
    fn of(&self, grace: Duration) -> Duration {
        (grace * self.percent / 100).min(self.most)
    }
}

/// Which phases have something to do, and how long the lame duck is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct Demand {
    pub(super) lame_duck: Duration,
    pub(super) shutdown_hooks: bool,
    pub(super) resources: bool,
}

impl Budget {
    /// The shortest grace period that leaves `drain` for announce and drain, whatever the later phases have to do: the
    /// inverse of the division.
    ///
    /// ```
    /// use adieu_lifecycle::Budget;
    /// use std::time::Duration;
    ///
    /// let seconds = Duration::from_secs;
    /// assert_eq!(Budget::grace_for(seconds(7)), seconds(10));
    /// assert_eq!(Budget::grace_for(seconds(60)), seconds(67));
    /// ```
    #[must_use]
    pub fn grace_for(drain: Duration) -> Duration {
        // By the grace from which each has its most; from there on it no longer grows.
        let mut later = [CANCEL, SAVE, RELEASE];
        later.sort_unstable_by_key(|it| it.most * 100 / it.percent);
        for capped in 0..later.len() {
            let (full, growing) = later.split_at(capped);
            let most: Duration = full.iter().map(|it| it.most).sum();
            let percent: u32 = growing.iter().map(|it| it.percent).sum();
            let grace = drain.saturating_add(most).saturating_mul(100) / (100 - percent);
            if growing.iter().all(|it| it.of(grace) < it.most) {
                return grace;
            }
        }
        drain.saturating_add(later.iter().map(|it| it.most).sum())
    }

    /// Divides `grace`, which begins at `start`.
    pub(super) fn divide(start: Time, grace: Duration, demand: Demand) -> Self {
        let announce = demand.lame_duck.max(if demand.shutdown_hooks {
            HOOKS.of(grace)
        } else {
            Duration::ZERO
        });
        let release = if demand.resources {
            RELEASE.of(grace)
        } else {
            Duration::ZERO
        };
        let end = start + grace;
        let save = end - SAVE.of(grace);
        let cancel = save - release;
        let drain = cancel - CANCEL.of(grace);
        Self {
            limits: [(start + announce).min(drain), drain, cancel, save, end],
        }
    }

    /// The budget after a second stop signal: no announcement, no drain, short slices for the rest, and
    /// no limit later than it was.
    pub(super) fn hurried(&self, now: Time, grace: Duration) -> Self {
        let grace = grace.min(self.end().saturating_sub(now));
        let mut limits = [now, now, now + grace / 4, now + grace * 3 / 4, now + grace];
        for (new, old) in limits.iter_mut().zip(self.limits) {
            *new = old.min(*new);
        }
        Self { limits }
    }

    /// What is left, divided anew as if the stop began now; no limit is later than it was.
    pub(super) fn divided_anew(&self, now: Time, left: Duration, demand: Demand) -> Self {
        let mut limits = Self::divide(now, left, demand).limits;
        for (new, old) in limits.iter_mut().zip(self.limits) {
            *new = old.min(*new);
        }
        Self { limits }
    }

    /// What is left when `phase` begins at `now`. If that is later than it should be, because a busy machine wakes
    /// the service late, the phases to come share it.
    pub(super) fn entered(&self, phase: Phase, now: Time) -> Self {
        match phase {
            // The drain has all that the later ones are not promised.
            Phase::Announce | Phase::Drain => self.clone(),
            Phase::Cancel => self.caught_up(phase, Phase::Drain, now),
            Phase::Release => self.caught_up(phase, Phase::Cancel, now),
            Phase::Save => self.caught_up(phase, Phase::Release, now),
        }
    }

    /// What is left when a part in `phase` still waits for its turn at `now`, and the phase should be over.
    ///
    /// At the very limit it depends on why the part waits. After a tick that came late (`overslept`) its turn was taken
    /// from it, and the phases to come share what is left. After one that came in time the part was not foreseen when the
    /// turns were shared out, and the phases to come keep what they were promised.
    pub(super) fn overrun(&self, phase: Phase, now: Time, overslept: bool) -> Self {
        let limit = self.limit(phase);
        if now < limit || (now == limit && !overslept) {
            return self.clone();
        }
        let mut late = self.entered(phase, now);
        if phase == Phase::Announce {
            // The drain lends some of its time.
            let lent = self.limit(Phase::Drain).saturating_sub(now) / 4;
            late.limits[0] = now + lent.max(OVERTIME);
        }
        late
    }

    /// The phases from this one on share what is left, each as much shorter as the others, so that none is lost.
    fn caught_up(&self, phase: Phase, before: Phase, now: Time) -> Self {
        let due = self.limit(before);
        let promised = self.end().saturating_sub(due).as_nanos().max(1);
        let left = self.end().saturating_sub(now).max(OVERTIME).as_nanos();
        let mut limits = self.limits;
        if now > due {
            for limit in &mut limits[phase as usize..] {
                let slice = limit.saturating_sub(due).as_nanos() * left / promised;
                *limit = now + Duration::from_nanos(u64::try_from(slice).unwrap_or(u64::MAX));
            }
        }
        Self { limits }
    }

    /// When `phase` must be over.
    #[must_use]
    pub const fn limit(&self, phase: Phase) -> Time {
        self.limits[phase as usize]
    }

    /// The end of the grace period.
    #[must_use]
    pub const fn end(&self) -> Time {
        self.limits[4]
    }

    /// How long `phase` may take if it begins when the one before reached its limit.
    #[must_use]
    pub fn slice(&self, phase: Phase, start: Time) -> Duration {
        let from = match phase as usize {
            0 => start,
            later => self.limits[later - 1],
        };
        self.limit(phase).saturating_sub(from)
    }

    /// Shares what is left of `phase` among parts that take their turns one after the other.
    pub(super) fn turns(&self, phase: Phase, now: Time, parts: usize) -> Turns {
        Turns::share(self.limit(phase), now, parts)
    }
}

/// Turns inside a phase: half of the time is there for any part that needs it, the other half is kept back in
/// equal reserves, so that even when every part hangs each one after it still has a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct Turns {
    limit: Time,
    reserve: Duration,
}

impl Turns {
    /// When the part whose turn it is must be done, with `after` parts still waiting behind it.
    pub(super) fn deadline(&self, after: usize) -> Time {
        let kept = self.reserve * u32::try_from(after).unwrap_or(u32::MAX);
        self.limit.saturating_sub(kept)
    }

    fn share(limit: Time, now: Time, parts: usize) -> Self {
        let parts = u32::try_from(parts.max(1)).unwrap_or(u32::MAX);
        Self {
            limit,
            reserve: limit.saturating_sub(now) / 2 / parts,
        }
    }

    /// These turns in less time. Everything from `now` on shrinks alike, so that no turn ends later than
    /// it would have and none is lost.
    pub(super) fn squeezed(&self, now: Time, limit: Time) -> Self {
        let before = self.limit.saturating_sub(now).as_nanos();
        let after = limit.saturating_sub(now).as_nanos();
        let reserve = match before {
            0 => 0,
            // Rounded up: a reserve too short would let the turns before it end later.
            _ => (self.reserve.as_nanos() * after).div_ceil(before),
        };
        Self {
            limit,
            reserve: Duration::from_nanos(u64::try_from(reserve).unwrap_or(u64::MAX)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn demand() -> impl Strategy<Value = (Duration, Demand)> {
        (1_u64..200_000, 0_u64..100, any::<bool>(), any::<bool>()).prop_map(
            |(grace, duck, hooks, resources)| {
                let grace = Duration::from_millis(grace);
                let lame_duck = grace * u32::try_from(duck).unwrap_or(0) / 100;
                (
                    grace,
                    Demand {
                        lame_duck,
                        shutdown_hooks: hooks,
                        resources,
                    },
                )
            },
        )
    }

    proptest! {
        #[test]
        fn a_grace_for_a_drain_leaves_exactly_that(drain in 1_u64..200_000) {
            let drain = Duration::from_millis(drain);
            let resources = Demand { resources: true, ..Demand::default() };
            let left = |grace| Budget::divide(Duration::ZERO, grace, resources).limit(Phase::Drain);
            let rounded = left(Budget::grace_for(drain)).abs_diff(drain);
            prop_assert!(rounded <= Duration::from_nanos(10), "{rounded:?}");
        }

        #[test]
        fn limits_never_go_back_and_end_with_the_grace((grace, demand) in demand(), start in 0_u64..1_000_000) {
            let start = Duration::from_millis(start);
            let budget = Budget::divide(start, grace, demand);
            let limits: Vec<_> = Phase::ALL.iter().map(|&phase| budget.limit(phase)).collect();
            prop_assert!(limits.is_sorted());
            prop_assert!(limits[0] >= start);
            prop_assert_eq!(budget.end(), start + grace);
        }

        #[test]
        fn every_later_phase_keeps_a_slice((grace, demand) in demand()) {
            let budget = Budget::divide(Duration::ZERO, grace, demand);
            prop_assert!(budget.slice(Phase::Cancel, Duration::ZERO) > Duration::ZERO);
            prop_assert!(budget.slice(Phase::Save, Duration::ZERO) > Duration::ZERO);
            if demand.resources {
                prop_assert!(budget.slice(Phase::Release, Duration::ZERO) > Duration::ZERO);
            }
        }

        #[test]
        fn every_turn_is_later_than_the_one_before(parts in 1_usize..50, left in 1_u64..60_000) {
            let grace = Duration::from_millis(left);
            let turns = Turns::share(grace, Duration::ZERO, parts);
            let deadlines: Vec<_> = (0..parts).rev().map(|after| turns.deadline(after)).collect();
            prop_assert!(deadlines.is_sorted());
            prop_assert!(deadlines[0] >= grace / 2);
            prop_assert_eq!(deadlines[parts - 1], grace);
        }

        #[test]
        fn hurry_makes_no_limit_later_and_keeps_the_slices(
            (grace, demand) in demand(), at in 0_u64..100, hurry in 1_u64..20_000,
        ) {
            let calm = Budget::divide(Duration::ZERO, grace, demand);
            let now = grace * u32::try_from(at).unwrap_or(0) / 100;
            let hurried = calm.hurried(now, Duration::from_millis(hurry));
            let limits: Vec<_> = Phase::ALL.iter().map(|&phase| hurried.limit(phase)).collect();
            prop_assert!(limits.is_sorted());
            prop_assert!(Phase::ALL.iter().all(|&phase| hurried.limit(phase) <= calm.limit(phase)));
            prop_assert!(hurried.end() <= now + Duration::from_millis(hurry));
            for phase in [Phase::Cancel, Phase::Release, Phase::Save] {
                let had = calm.slice(phase, Duration::ZERO) > Duration::ZERO && now < calm.limit(phase);
                prop_assert!(!had || hurried.limit(phase) > now);
            }
        }

        #[test]
        fn a_budget_divided_anew_ends_in_time_and_keeps_the_slices(
            (grace, demand) in demand(), at in 0_u64..100, left in 1_u64..=100,
        ) {
            let whole = Budget::divide(Duration::ZERO, grace, demand);
            let now = grace * u32::try_from(at).unwrap_or(0) / 100;
            let left = (grace - now) * u32::try_from(left).unwrap_or(0) / 100;
            let anew = whole.divided_anew(now, left, demand);
            let limits: Vec<_> = Phase::ALL.iter().map(|&phase| anew.limit(phase)).collect();
            prop_assert!(limits.is_sorted());
            prop_assert!(Phase::ALL.iter().all(|&phase| anew.limit(phase) <= whole.limit(phase)));
            prop_assert_eq!(anew.end(), now + left);
            for phase in [Phase::Drain, Phase::Cancel, Phase::Release, Phase::Save] {
                let had = whole.slice(phase, Duration::ZERO) > Duration::ZERO && now < whole.limit(phase);
                prop_assert!(!had || anew.limit(phase) > now);
            }
        }

        #[test]
        fn a_phase_that_begins_late_leaves_the_later_ones_their_share(
            (grace, demand) in demand(), late in 0_u64..3_000, first in 2_usize..5,
        ) {
            let budget = Budget::divide(Duration::ZERO, grace, demand);
            let due = budget.limit(Phase::ALL[first - 1]);
            prop_assert_eq!(&budget.entered(Phase::ALL[first], due), &budget);
            let now = due + Duration::from_millis(late);
            let phase = Phase::ALL[first];
            // At its very limit, a phase whose ticks came in time is over.
            prop_assert_eq!(&budget.overrun(phase, budget.limit(phase), false), &budget);
            for late in [budget.entered(phase, now), budget.overrun(phase, now, true)] {
                let mut before = now;
                for &phase in &Phase::ALL[first..] {
                    let had = budget.slice(phase, Duration::ZERO) > Duration::ZERO;
                    let limit = late.limit(phase);
                    prop_assert!(limit > before || limit == before && !had);
                    before = limit;
                }
                prop_assert!(late.end() <= budget.end().max(now + OVERTIME));
            }
        }

        #[test]
        fn squeezed_turns_end_sooner_and_in_order(
            parts in 1_usize..50, left in 1_000_u64..60_000, at in 0_u64..100, keep in 1_u64..=100,
        ) {
            let grace = Duration::from_millis(left);
            let turns = Turns::share(grace, Duration::ZERO, parts);
            let now = grace * u32::try_from(at).unwrap_or(0) / 100;
            let limit = now + (grace - now) * u32::try_from(keep).unwrap_or(0) / 100;
            let squeezed = turns.squeezed(now, limit);
            let to_come: Vec<_> = (0..parts).rev().filter(|&after| turns.deadline(after) > now).collect();
            let deadlines: Vec<_> = to_come.iter().map(|&after| squeezed.deadline(after)).collect();
            prop_assert!(deadlines.is_sorted_by(|before, after| before < after));
            prop_assert_eq!(deadlines.last(), Some(&limit));
            for (deadline, after) in deadlines.into_iter().zip(to_come) {
                prop_assert!(deadline <= turns.deadline(after));
            }
        }
    }

    #[test]
    fn the_default_grace_leaves_most_of_it_to_the_drain() {
        let demand = Demand {
            resources: true,
            ..Demand::default()
        };
        let budget = Budget::divide(Duration::ZERO, Duration::from_secs(25), demand);
        assert_eq!(budget.limit(Phase::Drain), Duration::from_millis(18_250));
        assert_eq!(budget.limit(Phase::Cancel), Duration::from_millis(20_250));
        assert_eq!(budget.limit(Phase::Release), Duration::from_secs(24));
        assert_eq!(budget.end(), Duration::from_secs(25));
    }

    /// A grace of a hundred seconds: the announcement until 2 s, the drain until 93, then 95, 99 and 100.
    fn hundred_seconds() -> Budget {
        let demand = Demand {
            shutdown_hooks: true,
            resources: true,
            ..Demand::default()
        };
        Budget::divide(Duration::ZERO, Duration::from_secs(100), demand)
    }

    #[test]
    fn a_hurry_longer_than_what_is_left_divides_what_is_left() {
        let hurried =
            hundred_seconds().hurried(Duration::from_secs(50), Duration::from_secs(1_000));
        let limits = [50_000, 50_000, 62_500, 87_500, 100_000].map(Duration::from_millis);
        // The announcement was over long before.
        assert_eq!(hurried.limits[0], Duration::from_secs(2));
        assert_eq!(hurried.limits[1..], limits[1..]);
    }

    #[test]
    fn an_announcement_that_overruns_borrows_a_quarter_of_the_drain() {
        let budget = hundred_seconds();
        let late = budget.overrun(Phase::Announce, Duration::from_secs(3), true);
        assert_eq!(late.limit(Phase::Announce), Duration::from_millis(25_500));
        assert_eq!(late.limits[1..], budget.limits[1..]);
        // No other phase borrows.
        let late = budget.overrun(Phase::Save, Duration::from_secs(101), true);
        assert_eq!(late.limits[..4], budget.limits[..4]);
    }

    #[test]
    fn a_phase_with_nothing_to_do_leaves_its_time_to_the_drain() {
        let grace = Duration::from_secs(100);
        let budget = Budget::divide(Duration::ZERO, grace, Demand::default());
        let limits = [0, 97, 99, 99, 100].map(Duration::from_secs);
        assert_eq!(budget.limits, limits);
    }

    #[test]
    fn phases_that_begin_a_second_late_share_the_six_that_are_left_of_seven() {
        let late = hundred_seconds().entered(Phase::Cancel, Duration::from_secs(94));
        let share = |slice: u64| Duration::from_nanos(slice * 6_000_000_000 / 7);
        let shares = [2, 6, 7].map(|slice| Duration::from_secs(94) + share(slice));
        assert_eq!(late.limits[2..], shares);
    }
}
