//! One client: connects, speaks, and connects again, until it is refused.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use crate::load::{Mode, Protocol};
use crate::outcome::Outcome;
use crate::request_span::RequestSpan;
use crate::tally::Tally;
use crate::target::Target;

/// What all clients of a load share.
pub(crate) struct LoadState {
    answers: AtomicU64,
    /// The smallest number that a caller waits for.
    wanted: AtomicU64,
    reached: Notify,
    /// How many were opened or tried.
    connections: AtomicU32,
}

impl Default for LoadState {
    fn default() -> Self {
        Self {
            answers: AtomicU64::new(0),
            wanted: AtomicU64::new(u64::MAX),
            reached: Notify::new(),
            connections: AtomicU32::new(0),
        }
    }
}

impl LoadState {
    // Both sides write one word and then read the other's. In one total order at least one of them sees what
    // the other wrote, so that no waiter misses an answer that was counted already.
    pub(crate) fn note_answer(&self) {
        let answers = self.answers.fetch_add(1, SeqCst) + 1;
        if answers >= self.wanted.load(SeqCst) {
            self.reached.notify_waiters();
        }
    }

    pub(crate) async fn answered(&self, count: u64) {
        loop {
            let reached = self.reached.notified();
            self.wanted.fetch_min(count, SeqCst);
            if self.answers.load(SeqCst) >= count {
                return;
            }
            reached.await;
        }
    }
}

pub(crate) struct Client {
    pub(crate) target: Target,
    pub(crate) protocol: Protocol,
    pub(crate) mode: Mode,
    pub(crate) patience: Duration,
    /// The state of a small generator of random numbers; never zero.
    pub(crate) rng: u64,
    pub(crate) shared: Arc<LoadState>,
    pub(crate) ending: watch::Receiver<bool>,
    pub(crate) tally: Tally,
    /// How many of the last requests are kept as spans.
    pub(crate) kept: usize,
    /// The number of the present connection.
    pub(crate) connection: u32,
    /// When the present request, or the connection for it, was begun.
    pub(crate) began: Instant,
}

/// A server that breaks so many connections in a row will break the next one too.
const MOST_BROKEN: u32 = 5;

impl Client {
    pub(crate) async fn run(mut self) -> Tally {
        let mut broken = 0;
        while broken < MOST_BROKEN && !self.is_ending() {
            let sent = self.tally.sent();
            self.connection = self.shared.connections.fetch_add(1, Relaxed);
            self.began = Instant::now();
            match timeout(self.patience, self.target.connect()).await {
                Ok(Ok(connection)) => match self.protocol.clone() {
                    Protocol::Http1 { request, last } => {
                        self.drive_http1(connection, &request, &last).await;
                    }
                    Protocol::Http2 { uri, streams } => {
                        self.drive_http2(connection, &uri, streams).await;
                    }
                    Protocol::Lines { goodbye } => {
                        self.drive_echo(connection, goodbye.as_deref()).await;
                    }
                },
                Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    self.count(Outcome::Refused);
                    break;
                }
                Ok(Err(error)) => {
                    self.count(Outcome::Unsent);
                    self.tally.remember(|| format!("connecting: {error}"));
                }
                Err(_) => {
                    self.count(Outcome::Unsent);
                    self.tally.remember(|| "connecting: no answer".to_owned());
                }
            }
            broken = if self.tally.sent() > sent {
                0
            } else {
                broken + 1
            };
        }
        self.tally
    }

    pub(crate) fn is_ending(&self) -> bool {
        *self.ending.borrow()
    }

    fn count(&mut self, outcome: Outcome) {
        self.tally.count(outcome);
        if self.kept > 0 {
            let span = RequestSpan {
                began: self.began,
                ended: Instant::now(),
                connection: self.connection,
                outcome,
            };
            self.tally.keep(span, self.kept);
        }
    }

    /// Counts a request; `evidence` says what was seen of a lost one.
    pub(crate) fn settle(&mut self, outcome: Outcome, evidence: impl FnOnce() -> String) {
        self.count(outcome);
        match outcome {
            Outcome::Answered => self.shared.note_answer(),
            Outcome::Lost(_) | Outcome::Unsent | Outcome::Failed(_) => {
                self.tally.remember(|| format!("{outcome}: {}", evidence()));
            }
            Outcome::Retry | Outcome::Refused => {}
        }
    }

    /// Whether the connection is to be kept after the next request.
    pub(crate) const fn keeps(&mut self) -> bool {
        match self.mode {
            Mode::KeepAlive => true,
            Mode::Fresh => false,
            Mode::Mixed => {
                self.rng ^= self.rng << 13;
                self.rng ^= self.rng >> 7;
                self.rng ^= self.rng << 17;
                self.rng & 1 == 0
            }
        }
    }
}
