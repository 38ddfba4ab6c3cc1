//! Where and why a request died: the attempt that failed, held against what its instance went through.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use adieu_load::{Loss, Outcome};

use super::traffic::{LastAttempt, NoAttempt, SentRequest};
use crate::threshold::show;

/// What became of one instance that was replaced.
#[derive(Clone, Debug)]
pub(super) struct Replaced {
    pub(super) id: u32,
    /// When the platform decided, and told the balancer.
    pub(super) told: Instant,
    /// When the stop signal was sent.
    pub(super) signal: Instant,
    /// When the balancer sent nothing new to it any more.
    pub(super) removed: Instant,
    /// When it was gone.
    pub(super) ended: Instant,
    /// Whether it had to be killed at the end of the grace period.
    pub(super) killed: bool,
}

/// Why an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cause {
    /// The balancer had no instance.
    NoInstance,
    /// A real balancer wrote no line about it.
    Balancer,
    /// It was sent to an instance that did not listen any more.
    Closed,
    /// The instance closed a keep-alive connection while a request was on its way.
    KeptConnection,
    /// The connection was made, and reset before the instance accepted it, or as it ended.
    AcceptQueue,
    /// One of the two before, and a real balancer does not tell which.
    Broken,
    /// The instance was killed at the end of the grace period.
    Deadline,
    /// The instance said so itself with a 5xx.
    ServerError,
    /// The response began and broke off.
    Truncated,
    /// No response came in time.
    TimedOut,
    /// The instance was not being replaced.
    Healthy,
}

impl Cause {
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::NoInstance => "the balancer had no instance to send it to",
            Self::Balancer => "lost at the balancer itself, whose log does not have it",
            Self::Closed => "sent to an instance that had closed its listener",
            Self::KeptConnection => "a keep-alive connection was closed under it",
            Self::AcceptQueue => "its new connection was reset before a byte of the response",
            Self::Broken => "the balancer's connection to it broke before a byte of the response",
            Self::Deadline => "cut by SIGKILL at the end of the grace period",
            Self::ServerError => "answered with a 5xx by an instance that was stopping",
            Self::Truncated => "its response broke off",
            Self::TimedOut => "no response came in time",
            Self::Healthy => "lost at an instance that was not told to stop",
        }
    }

    /// Whether it would not have happened, had the instance served on until the balancer was done with it.
    pub(super) const fn is_of_the_routes(self) -> bool {
        matches!(
            self,
            Self::Closed
                | Self::KeptConnection
                | Self::AcceptQueue
                | Self::Broken
                | Self::ServerError
        )
    }
}

/// Whether the client got what it asked for.
pub(super) const fn is_lost(request: &SentRequest) -> bool {
    !matches!(request.outcome, Outcome::Answered | Outcome::Retry)
}

pub(super) fn cause(request: &SentRequest, replaced: &[Replaced]) -> Cause {
    let attempt = match &request.last {
        Ok(attempt) => attempt,
        Err(NoAttempt::NoInstance) => return Cause::NoInstance,
        Err(NoAttempt::NotInLog) => return Cause::Balancer,
    };
    let Some(instance) = replaced.iter().find(|it| it.id == attempt.instance) else {
        return Cause::Healthy;
    };
    if attempt.ended < instance.told {
        return Cause::Healthy;
    }
    // What is in flight when the process is killed breaks at that moment.
    let at_the_end = attempt.ended + Duration::from_millis(20) >= instance.ended;
    match attempt.outcome {
        Outcome::Lost(Loss::TimedOut) => Cause::TimedOut,
        Outcome::Lost(_) | Outcome::Unsent
            if instance.killed && at_the_end && attempt.began <= instance.ended =>
        {
            Cause::Deadline
        }
        Outcome::Lost(Loss::Truncated) => Cause::Truncated,
        Outcome::Lost(_) | Outcome::Unsent => match attempt.reused {
            Some(true) => Cause::KeptConnection,
            Some(false) => Cause::AcceptQueue,
            None => Cause::Broken,
        },
        Outcome::Failed(_) => Cause::ServerError,
        Outcome::Refused | Outcome::Answered | Outcome::Retry => Cause::Closed,
    }
}

/// A line for each cause and instance: how many, when after the signal, and what the balancer thought.
pub(super) fn told(requests: &[SentRequest], replaced: &[Replaced]) -> Vec<String> {
    let mut groups: BTreeMap<(Cause, u32), Vec<&LastAttempt>> = BTreeMap::new();
    let mut nowhere: BTreeMap<Cause, usize> = BTreeMap::new();
    for request in requests.iter().filter(|request| is_lost(request)) {
        let cause = cause(request, replaced);
        match &request.last {
            Ok(attempt) => groups
                .entry((cause, attempt.instance))
                .or_default()
                .push(attempt),
            Err(_) => *nowhere.entry(cause).or_default() += 1,
        }
    }
    let mut lines = Vec::new();
    for (cause, count) in nowhere {
        lines.push(format!("{count} lost: {}", cause.words()));
    }
    for ((cause, id), attempts) in groups {
        let mut line = format!("{} lost: {}", attempts.len(), cause.words());
        let Some(instance) = replaced.iter().find(|it| it.id == id) else {
            lines.push(format!("{line} (instance {id})"));
            continue;
        };
        let ends = attempts.iter().map(|attempt| attempt.ended);
        let after = |at: Instant| match at.checked_duration_since(instance.signal) {
            Some(after) => format!("{} after", show(after)),
            None => format!("{} before", show(instance.signal - at)),
        };
        if let (Some(first), Some(last)) = (ends.clone().min(), ends.max()) {
            line.push_str(&format!(
                ", {} to {} its stop signal (instance {id}); the balancer sent to it until {}",
                after(first),
                after(last),
                after(instance.removed)
            ));
        }
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(
        at: Instant,
        ms: u64,
        reused: impl Into<Option<bool>>,
        outcome: Outcome,
    ) -> SentRequest {
        let ended = at + Duration::from_millis(ms);
        SentRequest {
            due: ended,
            ended,
            outcome,
            weight: 1,
            tries: 1,
            last: Ok(LastAttempt {
                instance: 1,
                began: ended,
                ended,
                reused: reused.into(),
                outcome,
            }),
        }
    }

    #[test]
    fn each_loss_has_the_cause_that_its_instance_tells() {
        let told = Instant::now();
        let at = |ms| told + Duration::from_millis(ms);
        let mut one = Replaced {
            id: 1,
            told,
            signal: at(100),
            removed: at(2_000),
            ended: at(500),
            killed: false,
        };
        let reset = Outcome::Lost(Loss::Reset);
        let closed = Outcome::Lost(Loss::Closed);
        for (ms, reused, outcome, expected) in [
            (600, false, Outcome::Refused, Cause::Closed),
            (200, true, closed, Cause::KeptConnection),
            (200, false, reset, Cause::AcceptQueue),
            (200, false, Outcome::Failed(503), Cause::ServerError),
            (200, false, Outcome::Lost(Loss::Truncated), Cause::Truncated),
            (200, false, Outcome::Lost(Loss::TimedOut), Cause::TimedOut),
        ] {
            let request = failed(told, ms, reused, outcome);
            assert_eq!(cause(&request, &[one.clone()]), expected, "{outcome:?}");
        }
        one.killed = true;
        let cut = failed(told, 500, true, reset);
        assert_eq!(cause(&cut, &[one.clone()]), Cause::Deadline);
        let unknown = failed(told, 200, None, closed);
        assert_eq!(cause(&unknown, &[one.clone()]), Cause::Broken);
        let mut other = failed(told, 200, false, reset);
        if let Ok(last) = &mut other.last {
            last.instance = 2;
        }
        assert_eq!(cause(&other, &[one.clone()]), Cause::Healthy);
        other.last = Err(NoAttempt::NoInstance);
        assert_eq!(cause(&other, &[one.clone()]), Cause::NoInstance);
        other.last = Err(NoAttempt::NotInLog);
        assert_eq!(cause(&other, &[one.clone()]), Cause::Balancer);
        let lines = super::told(&[failed(told, 600, false, Outcome::Refused)], &[one]);
        assert_eq!(
            lines,
            [
                "1 lost: sent to an instance that had closed its listener, 500 ms after to 500 ms after its stop signal \
              (instance 1); the balancer sent to it until 1.90 s after"
            ]
        );
    }
}
