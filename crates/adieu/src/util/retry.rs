//! After a failure: how long to wait, and whether trying again is of any use.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use crate::util::duration::FOREVER;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// How long to wait before trying again: `first`, then twice as long each time, at most `longest`.
///
/// Each wait is shortened by up to a half at random, so that replicas which failed together do not come back
/// together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The wait after the first failure.
    pub first: Duration,
    /// The longest wait.
    pub longest: Duration,
}

impl Default for Backoff {
    /// 100 ms doubling to 30 s.
    fn default() -> Self {
        Self {
            first: Duration::from_millis(100),
            longest: Duration::from_secs(30),
        }
    }
}

impl Backoff {
    /// The wait after so many failures in a row, before chance shortens it.
    fn full(self, failures: u32) -> Duration {
        let longest = self.longest.min(FOREVER);
        let doubled = 2_u32.checked_pow(failures.saturating_sub(1));
        doubled
            .and_then(|times| self.first.checked_mul(times))
            .map_or(longest, |wait| wait.min(longest))
    }

    /// The wait after so many failures in a row.
    pub(crate) fn wait(self, failures: u32) -> Duration {
        self.full(failures).mul_f64(1.0 - jitter() / 2.0)
    }
}

/// A random number from 0 to 1. The hasher's keys are random, which is enough to spread replicas out.
pub(crate) fn jitter() -> f64 {
    let random = RandomState::new().hash_one(0) >> 32;
    u32::try_from(random).map_or(0.5, |random| f64::from(random) / f64::from(u32::MAX))
}

/// An error that will pass: try again, and do not count it against the job or update that is being handled.
///
/// For an API that is away or asks for patience. Return it as any other error:
///
/// ```
/// # use std::time::Duration;
/// # fn ask() -> Result<(), (u16, Duration)> { Ok(()) }
/// fn send() -> adieu::Result {
///     match ask() {
///         Ok(()) => Ok(()),
///         Err((429, retry_after)) => Err(adieu::retry::RetryAfter::after(retry_after, "the API asks for patience"))?,
///         Err((500.., _)) => Err(adieu::retry::RetryAfter::soon("the API is down"))?,
///         Err((400, _)) => Err(adieu::retry::Permanent::new("the API does not take this"))?,
///         Err((status, _)) => Err(format!("the API answers {status}"))?,
///     }
/// }
/// ```
#[derive(Debug)]
pub struct RetryAfter {
    after: Option<Duration>,
    cause: BoxError,
}

impl RetryAfter {
    /// To be tried again by the usual [`Backoff`].
    pub fn soon(cause: impl Into<BoxError>) -> Self {
        let (after, cause) = (None, cause.into());
        Self { after, cause }
    }

    /// To be tried again after this time, and not earlier.
    pub fn after(wait: Duration, cause: impl Into<BoxError>) -> Self {
        let (after, cause) = (Some(wait.min(FOREVER)), cause.into());
        Self { after, cause }
    }
}

impl fmt::Display for RetryAfter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause.fmt(f)
    }
}

impl std::error::Error for RetryAfter {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.source()
    }
}

/// An error that trying again does not mend: a job that makes no sense, a token that was revoked.
#[derive(Debug)]
pub struct Permanent {
    cause: BoxError,
}

impl Permanent {
    /// Not to be tried again.
    pub fn new(cause: impl Into<BoxError>) -> Self {
        let cause = cause.into();
        Self { cause }
    }
}

impl fmt::Display for Permanent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cause.fmt(f)
    }
}

impl std::error::Error for Permanent {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.source()
    }
}

/// What an error asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advice {
    /// Nothing was said: it counts.
    Again,
    /// It does not count; after this time, if one was said.
    RetryAfter(Option<Duration>),
    Permanent,
}

impl Advice {
    pub(crate) fn of(error: &BoxError) -> Self {
        match (error.downcast_ref::<RetryAfter>(), error.is::<Permanent>()) {
            (Some(later), _) => Self::RetryAfter(later.after),
            (None, true) => Self::Permanent,
            (None, false) => Self::Again,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn the_wait_doubles_up_to_the_longest() {
        let backoff = Backoff {
            first: millis(100),
            longest: millis(700),
        };
        let waits: Vec<_> = (1..6).map(|failures| backoff.full(failures)).collect();
        assert_eq!(waits, [100, 200, 400, 700, 700].map(millis));
        assert_eq!(backoff.full(u32::MAX), millis(700));
        for failures in 1..6 {
            let (wait, full) = (backoff.wait(failures), backoff.full(failures));
            assert!(full / 2 <= wait && wait <= full, "{wait:?} of {full:?}");
        }
    }

    #[test]
    fn extremes_are_no_overflow() {
        let backoff = Backoff {
            first: Duration::MAX,
            longest: Duration::MAX,
        };
        assert_eq!(backoff.full(40), FOREVER);
        assert!(
            Backoff {
                first: Duration::ZERO,
                longest: Duration::ZERO
            }
            .wait(9)
            .is_zero()
        );
    }

    #[test]
    fn advice_is_found_in_what_question_marks_made_of_it() {
        fn later() -> crate::Result {
            Err(RetryAfter::after(millis(5), "busy"))?
        }
        let error = later().unwrap_err();
        assert_eq!(Advice::of(&error), Advice::RetryAfter(Some(millis(5))));
        assert_eq!(error.to_string(), "busy");
        assert_eq!(
            Advice::of(&RetryAfter::soon("x").into()),
            Advice::RetryAfter(None)
        );
        assert_eq!(Advice::of(&Permanent::new("x").into()), Advice::Permanent);
        assert_eq!(Advice::of(&"x".into()), Advice::Again);
    }
}
