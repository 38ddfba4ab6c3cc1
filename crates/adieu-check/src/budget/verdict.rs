//! The stop against what the platform waits, and the number to change.

use super::bound::{Bound, seconds};
use super::tree::{BudgetNode, Origin, Shape};

/// How long a platform waits between SIGTERM and SIGKILL.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Patience {
    /// The platform as it is called.
    pub platform: &'static str,
    /// The setting that says how long; empty where nothing changes it.
    pub setting: &'static str,
    /// How long; without a limit where the platform never kills.
    pub bound: Bound,
    /// Where that is said.
    pub origin: Origin,
    /// The most that the platform lets one set, in seconds.
    pub most: Option<u64>,
    /// What stands behind a number of seconds: compose takes `30s`.
    pub unit: &'static str,
}

/// What comes of a stop on a platform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// It is over in time.
    Fits {
        /// What is left, in milliseconds.
        spare: u64,
    },
    /// It may be killed.
    TooLong {
        /// By how much it is too long, in milliseconds.
        by: u64,
    },
    /// Something in it has no limit, so it may be killed whatever the platform waits.
    NoLimit,
    /// A length in it cannot be read; what is known of it fits.
    NotClear,
    /// No file of the project says where it runs.
    NotDeployed,
}

impl Verdict {
    /// Holds a stop against a platform.
    #[must_use]
    pub fn of(stop: Bound, patience: Option<Bound>) -> Verdict {
        let waits = match patience.map(|patience| (patience, patience.known())) {
            None => return Verdict::NotDeployed,
            // The platform never kills, or its number cannot be read.
            Some((patience, None)) => {
                return if !stop.is_limited() {
                    Verdict::NoLimit
                } else if patience.is_limited() || !stop.is_clear() {
                    Verdict::NotClear
                } else {
                    Verdict::Fits { spare: u64::MAX }
                };
            }
            Some((_, Some(waits))) => waits,
        };
        if !stop.is_limited() {
            Verdict::NoLimit
        } else if stop.at_least() > waits {
            Verdict::TooLong {
                by: stop.at_least() - waits,
            }
        } else if stop.is_clear() {
            Verdict::Fits {
                spare: waits - stop.at_least(),
            }
        } else {
            Verdict::NotClear
        }
    }
}

/// The number to change, and to what, in one line; nothing where none helps or none needs to.
pub(crate) fn advice(stop: &BudgetNode, patience: Option<&Patience>) -> Option<String> {
    let verdict = Verdict::of(stop.bound(), patience.map(|patience| patience.bound));
    match verdict {
        Verdict::TooLong { by } => {
            let needed = whole_seconds_over(stop.bound().at_least());
            let patience = patience?;
            if !patience.setting.is_empty() && patience.most.is_none_or(|most| needed <= most) {
                return Some(set(patience, needed));
            }
            let node = stop.longest_setting()?;
            let least = node.bound().at_least().checked_sub(by)? / 1_000;
            // A limit that counts twice has to give only half.
            (least > 0).then(|| {
                let setting = node.setting.as_deref().unwrap_or_default();
                format!(
                    "set `{setting}` to {least}{}, because {} waits no longer",
                    at(&node.origin),
                    patience.platform
                )
            })
        }
        Verdict::NoLimit => no_limit(stop, patience),
        Verdict::NotClear | Verdict::Fits { .. } | Verdict::NotDeployed => None,
    }
}

/// `set `stop_grace_period` to 46s (compose.yaml:5)`
fn set(patience: &Patience, seconds: u64) -> String {
    let Patience { setting, unit, .. } = patience;
    format!("set `{setting}` to {seconds}{unit}{}", at(&patience.origin))
}

fn no_limit(stop: &BudgetNode, patience: Option<&Patience>) -> Option<String> {
    let [first, others @ ..] = &*stop.unlimited() else {
        return None;
    };
    let waits = patience.and_then(|patience| patience.bound.known());
    // What the rest takes, and a second to spare, comes off what the platform waits.
    let left = waits
        .map(|waits| waits.saturating_sub(stop.bound().at_least()) / 1_000)
        .map(|left| left.saturating_sub(1));
    let value = match (left, others) {
        (Some(left @ 1..), []) => Some(left),
        _ => None,
    };
    let more = match others.len() {
        0 => String::new(),
        more => format!("; {more} more without a limit"),
    };
    Some(match (&first.setting, value) {
        (Some(setting), Some(value)) => {
            format!("set `{setting}` to {value}{}{more}", at(&first.origin))
        }
        (Some(setting), None) => {
            format!("set `{setting}`{}{more}", at(&first.origin))
        }
        (None, Some(value)) => format!(
            "put a limit of at most {value} s round {}{}{more}",
            first.what,
            at(&first.origin)
        ),
        (None, None) => format!(
            "put a limit round {}{}{more}",
            first.what,
            at(&first.origin)
        ),
    })
}

/// ` (compose.yaml:5)`, where a file says it.
fn at(origin: &Origin) -> String {
    match origin {
        Origin::Said { path, place } | Origin::Assumed { path, place, .. } => {
            format!(" ({path}:{})", place.line)
        }
        Origin::Default {
            at: Some((path, line)),
            ..
        } => format!(" ({path}:{line})"),
        Origin::Default { at: None, .. } | Origin::Parts => String::new(),
    }
}

/// The fewest whole seconds that are longer.
fn whole_seconds_over(millis: u64) -> u64 {
    millis / 1_000 + 1
}

/// What comes of it, in words.
pub(crate) fn said(verdict: Verdict, stop: Bound, patience: Option<&Patience>) -> String {
    let platform = patience.map_or("", |patience| patience.platform);
    let waits = patience.map_or(Bound::ZERO, |patience| patience.bound);
    match verdict {
        Verdict::Fits { spare: u64::MAX } => {
            format!("takes {stop} at most, and {platform} never kills it")
        }
        Verdict::Fits { spare } => format!(
            "takes {stop} at most, and {platform} waits {waits}: {} to spare",
            seconds(spare)
        ),
        Verdict::TooLong { by } => format!(
            "takes up to {}, and {platform} kills after {waits}: {} too long",
            seconds(stop.at_least()),
            seconds(by)
        ),
        Verdict::NoLimit if waits.is_limited() && patience.is_some() => {
            format!("has no limit, and {platform} kills after {waits}")
        }
        Verdict::NoLimit => "has no limit".to_owned(),
        Verdict::NotClear if stop.is_clear() => {
            format!("takes {stop} at most, and how long {platform} waits cannot be read")
        }
        Verdict::NotClear => {
            format!("is {stop} as far as it can be read, and {platform} waits {waits}")
        }
        Verdict::NotDeployed if !stop.is_limited() => {
            "has no limit, and no file says how long it is given".to_owned()
        }
        Verdict::NotDeployed => {
            format!("takes {stop} at most, and no file says how long it is given")
        }
    }
}

/// A stop that begins with what the platform does before it sends the signal, in the same time.
pub(crate) fn after(before: Option<BudgetNode>, stop: BudgetNode) -> BudgetNode {
    match before {
        Some(before) => BudgetNode::new("stop", Origin::Parts, Shape::Series(vec![before, stop])),
        None => stop,
    }
}

#[cfg(test)]
mod tests {
    use super::{Patience, Verdict, advice};
    use crate::budget::bound::Bound;
    use crate::budget::tree::{BudgetNode, Origin, Shape};
    use crate::finding::Place;

    fn said(line: u32) -> Origin {
        Origin::Said {
            path: "compose.yaml".into(),
            place: Place::line(line),
        }
    }

    fn compose(bound: Bound) -> Patience {
        Patience {
            platform: "docker compose",
            setting: "stop_grace_period",
            bound,
            origin: said(5),
            most: None,
            unit: "s",
        }
    }

    fn takes(setting: &str, bound: Bound) -> BudgetNode {
        let mut node = BudgetNode::new(setting, said(9), Shape::Takes(bound));
        node.setting = Some(setting.to_owned());
        node
    }

    #[test]
    fn every_pair_has_its_verdict() {
        let of = |stop, waits| Verdict::of(stop, Some(waits));
        let (ten, thirty) = (Bound::seconds(10), Bound::seconds(30));
        assert_eq!(of(ten, thirty), Verdict::Fits { spare: 20_000 });
        assert_eq!(of(ten, ten), Verdict::Fits { spare: 0 });
        assert_eq!(of(thirty, ten), Verdict::TooLong { by: 20_000 });
        assert_eq!(of(Bound::UNLIMITED, ten), Verdict::NoLimit);
        assert_eq!(of(Bound::UNLIMITED, Bound::UNLIMITED), Verdict::NoLimit);
        assert_eq!(of(Bound::UNCLEAR, ten), Verdict::NotClear);
        assert_eq!(of(ten, Bound::UNCLEAR), Verdict::NotClear);
        assert_eq!(of(ten, Bound::UNLIMITED), Verdict::Fits { spare: u64::MAX });
        // What is known of it is too long whatever the rest is.
        assert_eq!(
            of(Bound::UNCLEAR.then(thirty), ten),
            Verdict::TooLong { by: 20_000 }
        );
        assert_eq!(Verdict::of(ten, None), Verdict::NotDeployed);
    }

    #[test]
    fn the_platform_is_given_a_second_more_than_the_stop() {
        let stop = takes("--graceful-timeout", Bound::millis(45_100));
        let advice = advice(&stop, Some(&compose(Bound::seconds(10))));
        assert_eq!(
            advice.as_deref(),
            Some("set `stop_grace_period` to 46s (compose.yaml:5)")
        );
    }

    #[test]
    fn where_the_platform_cannot_wait_longer_the_program_must_be_quicker() {
        let heroku = Patience {
            platform: "Heroku",
            setting: "",
            most: Some(30),
            unit: "",
            ..compose(Bound::seconds(30))
        };
        let stop = BudgetNode::new(
            "stop",
            Origin::Parts,
            Shape::Series(vec![
                BudgetNode::new("poll", said(1), Shape::Takes(Bound::millis(200))),
                takes("--graceful-timeout", Bound::seconds(45)),
            ]),
        );
        let advice = advice(&stop, Some(&heroku));
        assert_eq!(
            advice.as_deref(),
            Some("set `--graceful-timeout` to 29 (compose.yaml:9), because Heroku waits no longer")
        );
    }

    #[test]
    fn what_has_no_limit_is_given_what_the_rest_leaves() {
        let drain = takes("--timeout-graceful-shutdown", Bound::UNLIMITED);
        let close = BudgetNode::new("close", said(7), Shape::Takes(Bound::seconds(4)));
        let stop = BudgetNode::new(
            "stop",
            Origin::Parts,
            Shape::Series(vec![drain.clone(), close]),
        );
        let advised = advice(&stop, Some(&compose(Bound::seconds(10))));
        assert_eq!(
            advised.as_deref(),
            Some("set `--timeout-graceful-shutdown` to 5 (compose.yaml:9)")
        );
        let hook = BudgetNode::new("`pool.close()`", said(20), Shape::Takes(Bound::UNLIMITED));
        let two = BudgetNode::new(
            "stop",
            Origin::Parts,
            Shape::Series(vec![hook.clone(), drain]),
        );
        let advised = advice(&two, Some(&compose(Bound::seconds(10))));
        assert_eq!(
            advised.as_deref(),
            Some("put a limit round `pool.close()` (compose.yaml:20); 1 more without a limit")
        );
        let alone = advice(&hook, Some(&compose(Bound::seconds(10))));
        assert_eq!(
            alone.as_deref(),
            Some("put a limit of at most 9 s round `pool.close()` (compose.yaml:20)")
        );
    }

    #[test]
    fn what_fits_needs_no_advice() {
        assert_eq!(
            advice(
                &takes("x", Bound::seconds(3)),
                Some(&compose(Bound::seconds(10)))
            ),
            None
        );
    }
}
