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

    /// What is left when somebody is in a hurry: no announcement, no drain, short slices for the rest, and
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
    /// nobody in time, the phases to come share it.
    pub(super) fn entered(&self, phase: Phase, now: Time) -> Self {
        match phase {
            // The drain has all that the later ones are not promised.
            Phase::Announce | Phase::Drain => self.clone(),
            Phase::Cancel => self.caught_up(phase, Phase::Drain, now),
            Phase::Release => self.caught_up(phase, Phase::Cancel, now),
            Phase::Save => self.caught_up(phase, Phase::Release, now),
        }
    }

    /// What is left when somebody in `phase` still waits for a turn at `now`, and the phase should be over.
    pub(super) fn overrun(&self, phase: Phase, now: Time) -> Self {
        if now <= self.limit(phase) {
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

/// Turns inside a phase: half of the time is there for whoever needs it, the other half is kept back in
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

    /// The same turns in less time. Everything from `now` on shrinks alike, so that no turn ends later than
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
            // At its very limit a phase is over, and not late yet.
            let is_over = now == budget.limit(Phase::ALL[first]);
            for late in [budget.entered(Phase::ALL[first], now), budget.overrun(Phase::ALL[first], now)] {
                let mut before = now;
                for &phase in &Phase::ALL[first..] {
                    let had = budget.slice(phase, Duration::ZERO) > Duration::ZERO;
                    let limit = late.limit(phase);
                    prop_assert!(limit > before || limit == before && (!had || is_over));
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
}
