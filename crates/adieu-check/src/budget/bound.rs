//! How long something takes at most, and how such lengths add up.

use std::fmt;

/// The most time something takes, in milliseconds, as far as it is known.
///
/// `at_least` is the part that is known. A bound that is not clear takes that and an unknown time more; one without a limit
/// takes as long as what it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bound {
    at_least: u64,
    is_clear: bool,
    is_limited: bool,
}

impl Bound {
    /// No time at all.
    pub const ZERO: Bound = Bound::millis(0);

    /// Waits for something that nothing ends.
    pub const UNLIMITED: Bound = Bound {
        at_least: 0,
        is_clear: true,
        is_limited: false,
    };

    /// Ends, at a time that only running the program would tell.
    pub const UNCLEAR: Bound = Bound {
        at_least: 0,
        is_clear: false,
        is_limited: true,
    };

    /// At most this long.
    #[must_use]
    pub const fn millis(millis: u64) -> Bound {
        Bound {
            at_least: millis,
            is_clear: true,
            is_limited: true,
        }
    }

    /// At most this long.
    #[must_use]
    pub const fn seconds(seconds: u64) -> Bound {
        Bound::millis(seconds.saturating_mul(1_000))
    }

    /// The part that is known, in milliseconds.
    #[must_use]
    pub const fn at_least(self) -> u64 {
        self.at_least
    }

    /// Whether every length in it is known, however long it is.
    #[must_use]
    pub const fn is_clear(self) -> bool {
        self.is_clear
    }

    /// Whether it ends.
    #[must_use]
    pub const fn is_limited(self) -> bool {
        self.is_limited
    }

    /// The whole length; nothing where it is not clear or has no limit.
    #[must_use]
    pub const fn known(self) -> Option<u64> {
        if self.is_clear && self.is_limited {
            Some(self.at_least)
        } else {
            None
        }
    }

    /// One after the other.
    #[must_use]
    pub const fn then(self, next: Bound) -> Bound {
        Bound {
            at_least: self.at_least.saturating_add(next.at_least),
            is_clear: self.is_clear && next.is_clear,
            is_limited: self.is_limited && next.is_limited,
        }
    }

    /// Both at once, until the last has ended.
    #[must_use]
    pub const fn beside(self, other: Bound) -> Bound {
        Bound {
            at_least: if self.at_least > other.at_least {
                self.at_least
            } else {
                other.at_least
            },
            is_clear: self.is_clear && other.is_clear,
            is_limited: self.is_limited && other.is_limited,
        }
    }

    /// Cut off at a limit, which must not be longer than what it cuts off to make a difference.
    #[must_use]
    pub const fn within(self, limit: Bound) -> Bound {
        match (self.known(), limit.known()) {
            (Some(own), Some(limit)) => Bound::millis(if own < limit { own } else { limit }),
            // What is known to end needs no limit to be known.
            (Some(_), None) => self,
            // It may use all of the limit.
            (None, Some(_)) => limit,
            (None, None) => Bound {
                at_least: if limit.is_clear { self.at_least } else { 0 },
                is_clear: limit.is_clear && self.is_clear,
                is_limited: self.is_limited || limit.is_limited,
            },
        }
    }

    /// Again and again.
    #[must_use]
    pub const fn times(self, count: u64) -> Bound {
        if count == 0 {
            return Bound::ZERO;
        }
        Bound {
            at_least: self.at_least.saturating_mul(count),
            ..self
        }
    }

    /// As often as only running the program would tell.
    #[must_use]
    pub const fn some_times(self) -> Bound {
        match self.known() {
            Some(0) => self,
            _ => Bound {
                is_clear: false,
                ..self
            },
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match (self.is_limited, self.is_clear, self.at_least) {
            (false, ..) => "no limit".to_owned(),
            (true, false, 0) => "not clear".to_owned(),
            (true, false, known) => format!("over {}", seconds(known)),
            (true, true, known) => seconds(known),
        };
        f.pad(&text)
    }
}

/// `0.2 s`, `30 s`
pub(crate) fn seconds(millis: u64) -> String {
    if millis.is_multiple_of(1_000) {
        format!("{} s", millis / 1_000)
    } else {
        let tenths = millis.div_ceil(100);
        format!("{}.{} s", tenths / 10, tenths % 10)
    }
}

#[cfg(test)]
mod tests {
    use super::Bound;

    /// One of each kind, and pairs whose order matters.
    fn some() -> Vec<Bound> {
        vec![
            Bound::ZERO,
            Bound::millis(1),
            Bound::millis(250),
            Bound::seconds(10),
            Bound::seconds(30),
            Bound::millis(u64::MAX),
            Bound::UNCLEAR,
            Bound::UNCLEAR.then(Bound::seconds(3)),
            Bound::UNLIMITED,
            Bound::UNLIMITED.then(Bound::seconds(3)),
            Bound::UNLIMITED.then(Bound::UNCLEAR),
        ]
    }

    /// A real length that a bound allows: what is not known may be anything.
    fn allows(bound: Bound, millis: u64) -> bool {
        bound.known().is_none_or(|most| millis <= most)
    }

    /// Lengths that may really happen under a bound.
    fn lengths(bound: Bound) -> Vec<u64> {
        match bound.known() {
            Some(most) => vec![0, most / 2, most],
            None => vec![0, bound.at_least(), bound.at_least().saturating_add(7_000)],
        }
    }

    #[test]
    fn what_really_happens_is_never_longer_than_what_is_computed() {
        for a in some() {
            for b in some() {
                for own in lengths(a) {
                    for other in lengths(b) {
                        assert!(allows(a.then(b), own.saturating_add(other)), "{a:?} {b:?}");
                        assert!(allows(a.beside(b), own.max(other)), "{a:?} {b:?}");
                        assert!(allows(a.within(b), own.min(other)), "{a:?} {b:?}");
                    }
                    for count in 0..4 {
                        assert!(allows(a.times(count), own.saturating_mul(count)), "{a:?}");
                    }
                    assert!(a.some_times().known().is_none() || own == 0, "{a:?}");
                }
            }
        }
    }

    #[test]
    fn the_order_of_parts_does_not_matter() {
        for a in some() {
            for b in some() {
                assert_eq!(a.then(b), b.then(a));
                assert_eq!(a.beside(b), b.beside(a));
                for c in some() {
                    assert_eq!(a.then(b).then(c), a.then(b.then(c)));
                    assert_eq!(a.beside(b).beside(c), a.beside(b.beside(c)));
                }
            }
        }
    }

    #[test]
    fn a_limit_never_makes_it_longer() {
        for own in some() {
            for limit in some() {
                let cut = own.within(limit);
                assert!(
                    own.known()
                        .is_none_or(|own| cut.known().is_some_and(|cut| cut <= own))
                );
                assert!(
                    limit
                        .known()
                        .is_none_or(|most| cut.known().is_some_and(|cut| cut <= most))
                );
                assert_eq!(cut.is_limited(), own.is_limited() || limit.is_limited());
            }
        }
    }

    #[test]
    fn nothing_changes_what_it_is_added_to() {
        for bound in some() {
            assert_eq!(bound.then(Bound::ZERO), bound);
            assert_eq!(bound.beside(Bound::ZERO), bound);
            assert_eq!(bound.times(1), bound);
            assert_eq!(bound.times(0), Bound::ZERO);
        }
        assert_eq!(Bound::ZERO.some_times(), Bound::ZERO);
        assert_eq!(
            Bound::UNLIMITED.within(Bound::seconds(5)),
            Bound::seconds(5)
        );
    }

    #[test]
    fn lengths_are_said_as_people_say_them() {
        let of = |bound: Bound| bound.to_string();
        assert_eq!(of(Bound::seconds(30)), "30 s");
        assert_eq!(of(Bound::millis(250)), "0.3 s");
        assert_eq!(of(Bound::UNLIMITED.then(Bound::seconds(1))), "no limit");
        assert_eq!(of(Bound::UNCLEAR), "not clear");
        assert_eq!(of(Bound::UNCLEAR.then(Bound::seconds(4))), "over 4 s");
    }
}
