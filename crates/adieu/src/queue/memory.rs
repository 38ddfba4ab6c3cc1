//! A queue in the memory of this process.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use adieu_core::{Delivery, Queue, QueueError, ShutdownSignal};
use tokio::sync::Notify;
use tokio::time::Instant;

/// A queue in the memory of this process: for tests, and for jobs that may be lost with it. Clones share it.
///
/// It keeps every promise of a [`Queue`], leases included, so that a test on a paused clock sees what an engine would
/// do.
#[derive(Clone)]
pub struct MemoryQueue {
    shared: Arc<MemoryState>,
}

struct MemoryState {
    lease: Duration,
    jobs: Mutex<JobTable>,
    changed: Notify,
}

#[derive(Default)]
struct JobTable {
    last: u64,
    ready: VecDeque<StoredJob>,
    /// By the time they are ready.
    later: BTreeMap<(Instant, u64), StoredJob>,
    /// By job and attempt, with the end of the lease.
    leased: HashMap<MemoryReceipt, (Instant, StoredJob)>,
    dead: Vec<(String, Vec<u8>, String)>,
}

struct StoredJob {
    number: u64,
    payload: Vec<u8>,
    /// Attempts so far.
    attempts: u32,
    /// Deliveries so far: fences the receipts.
    deliveries: u64,
}

/// Names a delivery of a [`MemoryQueue`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemoryReceipt {
    number: u64,
    delivery: u64,
}

impl MemoryQueue {
    /// An empty queue.
    #[must_use]
    pub fn new(lease: Duration) -> Self {
        let shared = MemoryState {
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
        let entry = StoredJob {
            number: jobs.last,
            payload: payload.into(),
            attempts: 0,
            deliveries: 0,
        };
        jobs.ready.push_back(entry);
        drop(jobs);
        self.shared.changed.notify_waiters();
    }

    /// How many jobs are not done: waiting, put off or leased.
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

    /// How many jobs a fetch could take at this moment.
    #[must_use]
    pub fn ready(&self) -> usize {
        let mut jobs = self.jobs();
        jobs.make_due_ready();
        jobs.ready.len()
    }

    /// The dead letters: id, payload and reason of each.
    #[must_use]
    pub fn dead(&self) -> Vec<(String, Vec<u8>, String)> {
        self.jobs().dead.clone()
    }

    fn jobs(&self) -> MutexGuard<'_, JobTable> {
        let jobs = self.shared.jobs.lock();
        jobs.unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the lease that this receipt names.
    fn settle(&self, receipt: MemoryReceipt) -> Result<StoredJob, QueueError> {
        let entry = self.jobs().leased.remove(&receipt);
        entry.map(|(_, entry)| entry).ok_or_else(QueueError::lost)
    }
}

impl JobTable {
    /// Moves what has become due, and gives the time of the next that will.
    fn make_due_ready(&mut self) -> Option<Instant> {
        let now = Instant::now();
        while let Some(first) = self
            .later
            .first_entry()
            .filter(|first| first.key().0 <= now)
        {
            self.ready.push_back(first.remove());
        }
        let over: Vec<MemoryReceipt> = self
            .leased
            .iter()
            .filter(|(_, (end, _))| *end <= now)
            .map(|(receipt, _)| *receipt)
            .collect();
        for receipt in over {
            self.ready
                .extend(self.leased.remove(&receipt).map(|(_, entry)| entry));
        }
        let leases = self.leased.values().map(|(end, _)| *end);
        leases.chain(self.later.keys().map(|(due, _)| *due)).min()
    }

    fn lease_out(&mut self, mut entry: StoredJob, end: Instant) -> Delivery<MemoryReceipt> {
        entry.attempts += 1;
        entry.deliveries += 1;
        let receipt = MemoryReceipt {
            number: entry.number,
            delivery: entry.deliveries,
        };
        let (id, payload) = (entry.number.to_string(), entry.payload.clone());
        let delivery = Delivery::new(receipt, id, payload, entry.attempts);
        self.leased.insert(receipt, (end, entry));
        delivery
    }
}

impl Queue for MemoryQueue {
    type Receipt = MemoryReceipt;

    fn lease(&self) -> Duration {
        self.shared.lease
    }

    async fn fetch(
        &self,
        most: usize,
        stop: &dyn ShutdownSignal,
    ) -> Result<Vec<Delivery<MemoryReceipt>>, QueueError> {
        loop {
            // Made before the look: it completes for every change from here on.
            let changed = self.shared.changed.notified();
            let due = {
                let mut jobs = self.jobs();
                let due = jobs.make_due_ready();
                let count = most.min(jobs.ready.len());
                if count > 0 {
                    let end = Instant::now() + self.shared.lease;
                    let taken: Vec<StoredJob> = jobs.ready.drain(..count).collect();
                    return Ok(taken
                        .into_iter()
                        .map(|entry| jobs.lease_out(entry, end))
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

    async fn ack(&self, job: &MemoryReceipt) -> Result<(), QueueError> {
        self.settle(*job).map(drop)
    }

    async fn extend(&self, receipts: &[MemoryReceipt]) -> Result<(), QueueError> {
        let end = Instant::now() + self.shared.lease;
        let mut jobs = self.jobs();
        for receipt in receipts {
            if let Some((lease, _)) = jobs.leased.get_mut(receipt) {
                *lease = end;
            }
        }
        Ok(())
    }

    async fn give_back(&self, receipts: &[MemoryReceipt]) -> Result<(), QueueError> {
        for receipt in receipts {
            if let Ok(mut entry) = self.settle(*receipt) {
                entry.attempts -= 1;
                self.jobs().ready.push_front(entry);
            }
        }
        self.shared.changed.notify_waiters();
        Ok(())
    }

    async fn retry(
        &self,
        job: &MemoryReceipt,
        after: Duration,
        counted: bool,
    ) -> Result<(), QueueError> {
        let mut entry = self.settle(*job)?;
        entry.attempts -= u32::from(!counted);
        let due = Instant::now() + after;
        self.jobs().later.insert((due, entry.number), entry);
        self.shared.changed.notify_waiters();
        Ok(())
    }

    async fn bury(&self, job: &MemoryReceipt, reason: &str) -> Result<(), QueueError> {
        let entry = self.settle(*job)?;
        let letter = (entry.number.to_string(), entry.payload, reason.to_owned());
        self.jobs().dead.push(letter);
        Ok(())
    }
}
