//! A queue in the memory of this process.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::contract::{Delivery, Queue};
use super::error::QueueError;
use crate::stop::Stop;

/// A queue in the memory of this process: for tests, and for jobs that may be lost with it. Clones share it.
///
/// It keeps every promise of a [`Queue`], leases included, so that a test on a paused clock sees what an engine would
/// do.
#[derive(Clone)]
pub struct MemoryQueue {
    shared: Arc<Shared>,
}

struct Shared {
    lease: Duration,
    jobs: Mutex<Jobs>,
    changed: Notify,
}

#[derive(Default)]
struct Jobs {
    last: u64,
    ready: VecDeque<Entry>,
    /// By the time they are ready.
    later: BTreeMap<(Instant, u64), Entry>,
    /// By job and attempt, with the end of the lease.
    leased: HashMap<Ticket, (Instant, Entry)>,
    dead: Vec<(String, Vec<u8>, String)>,
}

struct Entry {
    number: u64,
    payload: Vec<u8>,
    /// Attempts so far.
    attempts: u32,
    /// Deliveries so far: fences the receipts.
    deliveries: u64,
}

/// Names a delivery of a [`MemoryQueue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    number: u64,
    delivery: u64,
}

impl MemoryQueue {
    /// An empty queue.
    #[must_use]
    pub fn new(lease: Duration) -> Self {
        let shared = Shared {
            lease,
            jobs: Mutex::default(),
            changed: Notify::new(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Adds a job.
    pub fn push(&self, payload: impl Into<Vec<u8>>) {
        let mut jobs = self.jobs();
        jobs.last += 1;
        let entry = Entry {
            number: jobs.last,
            payload: payload.into(),
            attempts: 0,
            deliveries: 0,
        };
        jobs.ready.push_back(entry);
        drop(jobs);
        self.shared.changed.notify_waiters();
    }

    /// How many jobs are not done: waiting, put off or in somebody's hand.
    #[must_use]
    pub fn len(&self) -> usize {
        let jobs = self.jobs();
        jobs.ready.len() + jobs.later.len() + jobs.leased.len()
    }

    /// Whether every job is done or dead.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many jobs anybody could fetch at this moment.
    #[must_use]
    pub fn ready(&self) -> usize {
        let mut jobs = self.jobs();
        jobs.mature();
        jobs.ready.len()
    }

    /// The dead letters: id, payload and reason of each.
    #[must_use]
    pub fn dead(&self) -> Vec<(String, Vec<u8>, String)> {
        self.jobs().dead.clone()
    }

    fn jobs(&self) -> MutexGuard<'_, Jobs> {
        let jobs = self.shared.jobs.lock();
        jobs.unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a job from whoever holds the ticket.
    fn settle(&self, ticket: Ticket) -> Result<Entry, QueueError> {
        let entry = self.jobs().leased.remove(&ticket);
        entry.map(|(_, entry)| entry).ok_or_else(QueueError::lost)
    }
}

impl Jobs {
    /// Moves what has become due, and gives the time of the next that will.
    fn mature(&mut self) -> Option<Instant> {
        let now = Instant::now();
        while let Some(first) = self
            .later
            .first_entry()
            .filter(|first| first.key().0 <= now)
        {
            self.ready.push_back(first.remove());
        }
        let over: Vec<Ticket> = self
            .leased
            .iter()
            .filter(|(_, (end, _))| *end <= now)
            .map(|(ticket, _)| *ticket)
            .collect();
        for ticket in over {
            self.ready
                .extend(self.leased.remove(&ticket).map(|(_, entry)| entry));
        }
        let leases = self.leased.values().map(|(end, _)| *end);
        leases.chain(self.later.keys().map(|(due, _)| *due)).min()
    }

    fn lend(&mut self, mut entry: Entry, end: Instant) -> Delivery<Ticket> {
        entry.attempts += 1;
        entry.deliveries += 1;
        let receipt = Ticket {
            number: entry.number,
            delivery: entry.deliveries,
        };
        let delivery = Delivery {
            receipt,
            id: entry.number.to_string(),
            payload: entry.payload.clone(),
            attempt: entry.attempts,
        };
        self.leased.insert(receipt, (end, entry));
        delivery
    }
}

impl Queue for MemoryQueue {
    type Receipt = Ticket;

    fn lease(&self) -> Duration {
        self.shared.lease
    }

    async fn fetch(&self, most: usize, stop: &Stop) -> Result<Vec<Delivery<Ticket>>, QueueError> {
        loop {
            // Made before the look: it completes for every change from here on.
            let changed = self.shared.changed.notified();
            let due = {
                let mut jobs = self.jobs();
                let due = jobs.mature();
                let count = most.min(jobs.ready.len());
                if count > 0 {
                    let end = Instant::now() + self.shared.lease;
                    let taken: Vec<Entry> = jobs.ready.drain(..count).collect();
                    return Ok(taken
                        .into_iter()
                        .map(|entry| jobs.lend(entry, end))
                        .collect());
                }
                due
            };
            let waited = match due {
                Some(due) => stop
                    .until(tokio::time::timeout_at(due, changed))
                    .await
                    .map(drop),
                None => stop.until(changed).await,
            };
            if waited.is_none() {
                return Ok(Vec::new());
            }
        }
    }

    async fn ack(&self, job: &Ticket) -> Result<(), QueueError> {
        self.settle(*job).map(drop)
    }

    async fn extend(&self, tickets: &[Ticket]) -> Result<(), QueueError> {
        let end = Instant::now() + self.shared.lease;
        let mut jobs = self.jobs();
        for ticket in tickets {
            if let Some((lease, _)) = jobs.leased.get_mut(ticket) {
                *lease = end;
            }
        }
        Ok(())
    }

    async fn give_back(&self, tickets: &[Ticket]) -> Result<(), QueueError> {
        for ticket in tickets {
            if let Ok(mut entry) = self.settle(*ticket) {
                entry.attempts -= 1;
                self.jobs().ready.push_front(entry);
            }
        }
        self.shared.changed.notify_waiters();
        Ok(())
    }

    async fn retry(&self, job: &Ticket, after: Duration, counted: bool) -> Result<(), QueueError> {
        let mut entry = self.settle(*job)?;
        entry.attempts -= u32::from(!counted);
        let due = Instant::now() + after;
        self.jobs().later.insert((due, entry.number), entry);
        self.shared.changed.notify_waiters();
        Ok(())
    }

    async fn bury(&self, job: &Ticket, reason: &str) -> Result<(), QueueError> {
        let entry = self.settle(*job)?;
        let letter = (entry.number.to_string(), entry.payload, reason.to_owned());
        self.jobs().dead.push(letter);
        Ok(())
    }
}
