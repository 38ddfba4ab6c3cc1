//! The sum of all outcomes.

use std::fmt;
use std::ops::AddAssign;

use crate::outcome::{Loss, Outcome};
use crate::request_span::RequestSpan;

/// How many requests met which outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "a tally says whether something was lost"]
pub struct Tally {
    /// Whole answers.
    pub answered: u64,
    /// Whole answers that blame the server.
    pub failed: u64,
    /// Told to try again elsewhere.
    pub retry: u64,
    /// Connections refused.
    pub refused: u64,
    /// Connections that broke before a request was sent whole.
    pub unsent: u64,
    /// Lost to a reset before a byte of the answer.
    pub reset: u64,
    /// Lost to a close before a byte of the answer.
    pub closed: u64,
    /// Answers that began and did not end.
    pub truncated: u64,
    /// No answer in time.
    pub timed_out: u64,
    /// Goodbyes, for a server of lines.
    pub goodbyes: u64,
    /// What losses looked like, each look once.
    pub evidence: Vec<String>,
    /// The last requests of each client, if the load was to keep them.
    pub spans: Vec<RequestSpan>,
    /// Requests that are not among them because there were too many.
    pub omitted: u64,
}

const MOST_EVIDENCE: usize = 8;

impl Tally {
    /// Requests sent whole, whatever became of them.
    #[must_use]
    pub const fn sent(&self) -> u64 {
        self.answered + self.failed + self.retry + self.lost()
    }

    /// Requests sent whole on an open connection that got no whole answer.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.reset + self.closed + self.truncated + self.timed_out
    }

    pub(crate) fn count(&mut self, outcome: Outcome) {
        *match outcome {
            Outcome::Answered => &mut self.answered,
            Outcome::Failed(_) => &mut self.failed,
            Outcome::Retry => &mut self.retry,
            Outcome::Refused => &mut self.refused,
            Outcome::Unsent => &mut self.unsent,
            Outcome::Lost(Loss::Reset) => &mut self.reset,
            Outcome::Lost(Loss::Closed) => &mut self.closed,
            Outcome::Lost(Loss::Truncated) => &mut self.truncated,
            Outcome::Lost(Loss::TimedOut) => &mut self.timed_out,
        } += 1;
    }

    /// Keeps this request, and of all at least the last `most`. Half of twice as many go at a time, so that
    /// keeping costs the same however long a load lasts.
    pub(crate) fn keep(&mut self, span: RequestSpan, most: usize) {
        if self.spans.len() >= most * 2 {
            self.spans.drain(..most);
            self.omitted += most as u64;
        }
        self.spans.push(span);
    }

    pub(crate) fn remember(&mut self, evidence: impl FnOnce() -> String) {
        if self.evidence.len() < MOST_EVIDENCE {
            self.note(evidence());
        }
    }

    /// A hundred that look alike say no more than one.
    fn note(&mut self, line: String) {
        if self.evidence.len() < MOST_EVIDENCE && !self.evidence.contains(&line) {
            self.evidence.push(line);
        }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.answered += other.answered;
        self.failed += other.failed;
        self.retry += other.retry;
        self.refused += other.refused;
        self.unsent += other.unsent;
        self.reset += other.reset;
        self.closed += other.closed;
        self.truncated += other.truncated;
        self.timed_out += other.timed_out;
        self.goodbyes += other.goodbyes;
        for line in other.evidence {
            self.note(line);
        }
        self.spans.extend(other.spans);
        self.omitted += other.omitted;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} sent, {} answered, {} lost ({} reset, {} closed, {} truncated, {} timed out), {} told to retry, \
             {} failed, {} unsent, {} refused",
            self.sent(),
            self.answered,
            self.lost(),
            self.reset,
            self.closed,
            self.truncated,
            self.timed_out,
            self.retry,
            self.failed,
            self.unsent,
            self.refused,
        )?;
        for line in &self.evidence {
            write!(f, "\n  {line}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_that_look_alike_are_shown_once() {
        let mut sum = Tally::default();
        for client in 0..20 {
            let mut one = Tally::default();
            one.remember(|| "reset".to_owned());
            one.remember(|| format!("closed after {} bytes", client % 3));
            sum += one;
        }
        let looks = [
            "reset",
            "closed after 0 bytes",
            "closed after 1 bytes",
            "closed after 2 bytes",
        ];
        assert_eq!(sum.evidence, looks);
    }

    #[test]
    fn every_loss_is_in_the_sum_and_nothing_else_is() {
        let mut tally = Tally::default();
        for loss in [Loss::Reset, Loss::Closed, Loss::Truncated, Loss::TimedOut] {
            tally.count(Outcome::Lost(loss));
        }
        for other in [
            Outcome::Answered,
            Outcome::Failed(500),
            Outcome::Retry,
            Outcome::Refused,
            Outcome::Unsent,
        ] {
            tally.count(other);
        }
        assert_eq!((tally.lost(), tally.sent()), (4, 7));
    }

    #[test]
    fn the_last_requests_are_kept_and_the_others_counted() {
        let mut tally = Tally::default();
        let now = std::time::Instant::now();
        for connection in 0..100 {
            let outcome = Outcome::Answered;
            tally.keep(
                RequestSpan {
                    began: now,
                    ended: now,
                    connection,
                    outcome,
                },
                8,
            );
        }
        let last = tally.spans.last().expect("kept").connection;
        assert_eq!((last, tally.spans.len() as u64 + tally.omitted), (99, 100));
        assert!(
            (8..=16).contains(&tally.spans.len()),
            "{}",
            tally.spans.len()
        );
    }
}
