//! What a consumer has in hand: jobs that were fetched and are not settled.
//!
//! Every job that was fetched is here from the fetch on, under a [`Grip`]. A grip is either settled, or dropped, by
//! whatever way: then the job is an orphan, to be given back. So there is no way to forget one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

pub(crate) struct Hand<R> {
    held: Mutex<Held<R>>,
    changed: Notify,
    /// Leases are renewed when a third of them is over: there is time for a second try.
    renewal: Duration,
}

struct Held<R> {
    jobs: HashMap<u64, (R, Instant)>,
    orphans: Vec<R>,
    next: u64,
    closed: bool,
    /// Whoever looks after the hand will look by itself, no later than the next renewal is due.
    watched: bool,
}

/// What the one who looks after the hand has to do next.
pub(crate) enum Chore<R> {
    GiveBack(Vec<R>),
    Renew(Vec<R>),
    WaitUntil(Option<Instant>),
    /// Nothing is in hand, and nothing will be.
    Nothing,
}

impl<R: Clone> Hand<R> {
    pub(crate) fn new(lease: Duration) -> Self {
        let held = Held {
            jobs: HashMap::new(),
            orphans: Vec::new(),
            next: 0,
            closed: false,
            watched: false,
        };
        Self {
            held: Mutex::new(held),
            changed: Notify::new(),
            renewal: lease / 3,
        }
    }

    fn held(&self) -> MutexGuard<'_, Held<R>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A job that was fetched.
    pub(crate) fn take(self: &Arc<Self>, receipt: R) -> Grip<R> {
        let mut held = self.held();
        held.next += 1;
        let key = held.next;
        let renew_at = Instant::now() + self.renewal;
        held.jobs.insert(key, (receipt.clone(), renew_at));
        let watched = held.watched;
        drop(held);
        if !watched {
            self.changed.notify_one();
        }
        Grip {
            hand: Arc::clone(self),
            key,
            receipt,
        }
    }

    /// Nothing will be taken any more.
    pub(crate) fn close(&self) {
        self.held().closed = true;
        self.changed.notify_one();
    }

    fn let_go(&self, key: u64, orphan: bool) {
        let mut held = self.held();
        let Some((receipt, _)) = held.jobs.remove(&key) else {
            return;
        };
        if orphan {
            held.orphans.push(receipt);
        }
        let matters = orphan || (held.closed && held.jobs.is_empty());
        drop(held);
        if matters {
            self.changed.notify_one();
        }
    }

    /// What to do now. What is to be renewed counts as renewed.
    pub(crate) fn chore(&self) -> Chore<R> {
        let mut held = self.held();
        held.watched = false;
        if !held.orphans.is_empty() {
            return Chore::GiveBack(std::mem::take(&mut held.orphans));
        }
        if held.jobs.is_empty() {
            return match held.closed {
                true => Chore::Nothing,
                false => Chore::WaitUntil(None),
            };
        }
        let now = Instant::now();
        let mut due = Vec::new();
        let mut next = None;
        for (receipt, renew_at) in held.jobs.values_mut() {
            if *renew_at <= now {
                *renew_at = now + self.renewal;
                due.push(receipt.clone());
            }
            next = Some(next.map_or(*renew_at, |next: Instant| next.min(*renew_at)));
        }
        if !due.is_empty() {
            return Chore::Renew(due);
        }
        held.watched = true;
        Chore::WaitUntil(next)
    }

    /// Completes when there may be a new chore. For one caller.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }
}

/// One job in hand. Dropped without [`Grip::settle`], the job is given back.
pub(crate) struct Grip<R: Clone> {
    hand: Arc<Hand<R>>,
    key: u64,
    receipt: R,
}

impl<R: Clone> Grip<R> {
    pub(crate) const fn receipt(&self) -> &R {
        &self.receipt
    }

    /// The queue was told what became of it.
    pub(crate) fn settle(self) {
        self.hand.let_go(self.key, false);
    }
}

impl<R: Clone> Drop for Grip<R> {
    fn drop(&mut self) {
        // Does nothing if it was settled.
        self.hand.let_go(self.key, true);
    }
}
