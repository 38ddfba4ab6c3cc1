//! The jobs that a consumer has leased: fetched and not settled.
//!
//! Every job that was fetched is here from the fetch on, under a [`DeliveryGuard`]. A guard is settled, or it
//! is dropped: then the job is an orphan, to be given back. So no job can be forgotten.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

pub(crate) struct LeaseTable<R> {
    leased: Mutex<Leased<R>>,
    changed: Notify,
    /// Leases are renewed when a third of them is over: there is time for a second try.
    renewal: Duration,
}

struct Leased<R> {
    jobs: HashMap<u64, (R, Instant)>,
    orphans: Vec<R>,
    next: u64,
    closed: bool,
    /// The maintenance of the leases will wake by itself, no later than the next renewal is due.
    is_timer_set: bool,
}

/// What the maintenance of the leases has to do next.
pub(crate) enum LeaseAction<R> {
    GiveBack(Vec<R>),
    Renew(Vec<R>),
    WaitUntil(Option<Instant>),
    /// No job is leased, and none will be.
    Finished,
}

impl<R: Clone> LeaseTable<R> {
    pub(crate) fn new(lease: Duration) -> Self {
        let leased = Leased {
            jobs: HashMap::new(),
            orphans: Vec::new(),
            next: 0,
            closed: false,
            is_timer_set: false,
        };
        Self {
            leased: Mutex::new(leased),
            changed: Notify::new(),
            renewal: lease / 3,
        }
    }

    fn leased(&self) -> MutexGuard<'_, Leased<R>> {
        self.leased.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A job that was fetched.
    pub(crate) fn insert(self: &Arc<Self>, receipt: R) -> DeliveryGuard<R> {
        let mut leased = self.leased();
        leased.next += 1;
        let key = leased.next;
        let renew_at = Instant::now() + self.renewal;
        leased.jobs.insert(key, (receipt.clone(), renew_at));
        let is_timer_set = leased.is_timer_set;
        drop(leased);
        if !is_timer_set {
            self.changed.notify_one();
        }
        DeliveryGuard {
            table: Arc::clone(self),
            key,
            receipt,
        }
    }

    /// Nothing will be taken any more.
    pub(crate) fn close(&self) {
        self.leased().closed = true;
        self.changed.notify_one();
    }

    fn remove(&self, key: u64, orphan: bool) {
        let mut leased = self.leased();
        let Some((receipt, _)) = leased.jobs.remove(&key) else {
            return;
        };
        if orphan {
            leased.orphans.push(receipt);
        }
        let is_news = orphan || (leased.closed && leased.jobs.is_empty());
        drop(leased);
        if is_news {
            self.changed.notify_one();
        }
    }

    /// What to do now. What is to be renewed counts as renewed.
    pub(crate) fn next_action(&self) -> LeaseAction<R> {
        let mut leased = self.leased();
        leased.is_timer_set = false;
        if !leased.orphans.is_empty() {
            return LeaseAction::GiveBack(std::mem::take(&mut leased.orphans));
        }
        if leased.jobs.is_empty() {
            return match leased.closed {
                true => LeaseAction::Finished,
                false => LeaseAction::WaitUntil(None),
            };
        }
        let now = Instant::now();
        let mut due = Vec::new();
        let mut next = None;
        for (receipt, renew_at) in leased.jobs.values_mut() {
            if *renew_at <= now {
                *renew_at = now + self.renewal;
                due.push(receipt.clone());
            }
            next = Some(next.map_or(*renew_at, |next: Instant| next.min(*renew_at)));
        }
        if !due.is_empty() {
            return LeaseAction::Renew(due);
        }
        leased.is_timer_set = true;
        LeaseAction::WaitUntil(next)
    }

    /// Completes when the next action may be another. For one caller.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }
}

/// One leased job. Dropped without [`DeliveryGuard::settle`], the job is given back.
pub(crate) struct DeliveryGuard<R: Clone> {
    table: Arc<LeaseTable<R>>,
    key: u64,
    receipt: R,
}

impl<R: Clone> DeliveryGuard<R> {
    pub(crate) const fn receipt(&self) -> &R {
        &self.receipt
    }

    /// The job was settled at the queue.
    pub(crate) fn settle(self) {
        self.table.remove(self.key, false);
    }
}

impl<R: Clone> Drop for DeliveryGuard<R> {
    fn drop(&mut self) {
        // Does nothing if it was settled.
        self.table.remove(self.key, true);
    }
}
