//! What becomes of a job after an attempt. No clock, no queue: a decision.

use std::time::Duration;

use crate::util::retry::{Advice, Backoff};

/// When to give a job up, and how long to wait before the next attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RetryPolicy {
    pub(crate) attempts: u32,
    pub(crate) backoff: Backoff,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Settlement {
    Done,
    Retry { after: Duration, counted: bool },
    DeadLetter,
}

impl RetryPolicy {
    /// Whether a job that arrives is not to be begun any more: its last attempts ended without a word, perhaps with
    /// the process. One that kills its worker must not kill them all.
    pub(crate) const fn is_exhausted(self, attempt: u32) -> bool {
        attempt > self.attempts
    }

    /// After the `attempt`-th attempt, counted from 1; `failed` has what its error advised.
    pub(crate) fn decide(self, attempt: u32, failed: Option<Advice>) -> Settlement {
        let usual = || self.backoff.wait(attempt);
        match failed {
            None => Settlement::Done,
            Some(Advice::Permanent) => Settlement::DeadLetter,
            Some(Advice::RetryAfter(after)) => Settlement::Retry {
                after: after.unwrap_or_else(usual),
                counted: false,
            },
            Some(Advice::Again) if attempt >= self.attempts => Settlement::DeadLetter,
            Some(Advice::Again) => Settlement::Retry {
                after: usual(),
                counted: true,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> RetryPolicy {
        RetryPolicy {
            attempts: 3,
            backoff: Backoff {
                first: Duration::from_secs(1),
                longest: Duration::from_secs(60),
            },
        }
    }

    #[test]
    fn what_succeeds_is_done_whichever_attempt_it_was() {
        for attempt in [1, 3, 4, u32::MAX] {
            assert_eq!(limits().decide(attempt, None), Settlement::Done);
        }
    }

    #[test]
    fn what_fails_comes_again_later_each_time_and_is_dead_after_the_last_attempt() {
        for (attempt, least) in [(1, 500), (2, 1_000)] {
            let Settlement::Retry { after, counted } =
                limits().decide(attempt, Some(Advice::Again))
            else {
                panic!("attempt {attempt} of 3 is not the last");
            };
            assert!(
                counted && after >= Duration::from_millis(least),
                "{after:?}"
            );
        }
        assert_eq!(
            limits().decide(3, Some(Advice::Again)),
            Settlement::DeadLetter
        );
        assert_eq!(
            limits().decide(1, Some(Advice::Permanent)),
            Settlement::DeadLetter
        );
    }

    #[test]
    fn what_asks_for_patience_is_never_dead_of_it() {
        let after = Duration::from_secs(7);
        let again = Settlement::Retry {
            after,
            counted: false,
        };
        assert_eq!(
            limits().decide(3, Some(Advice::RetryAfter(Some(after)))),
            again
        );
        let judged = limits().decide(3, Some(Advice::RetryAfter(None)));
        assert!(matches!(judged, Settlement::Retry { counted: false, .. }));
    }

    #[test]
    fn what_was_begun_too_often_is_not_begun_again() {
        assert!(!limits().is_exhausted(3));
        assert!(limits().is_exhausted(4));
    }
}
