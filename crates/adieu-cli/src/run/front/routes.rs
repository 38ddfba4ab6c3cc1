//! Which processes of the command take requests, and what waits while there is none.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::upstream::{InFlight, Upstream};

/// Requests that wait for a process at a time.
const MOST_WAITING: usize = 4_096;

pub(super) struct Routes {
    table: watch::Sender<RouteTable>,
    waiting: AtomicUsize,
}

#[derive(Default)]
struct RouteTable {
    /// Those that take requests: one for each worker that is ready.
    upstreams: Vec<Arc<Upstream>>,
    /// No process comes any more.
    is_stopping: bool,
    /// Where the next request looks first, of those that are equally busy.
    turn: usize,
}

/// Why there is none for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unrouted {
    Stopping,
    /// None was ready in time.
    Late,
    /// Too many requests wait.
    Crowd,
}

impl Routes {
    pub(super) fn new() -> Self {
        Self {
            table: watch::Sender::default(),
            waiting: 0.into(),
        }
    }

    /// From now on requests go to this process, in the place of the one that its worker had.
    pub(super) fn set(&self, upstream: &Arc<Upstream>) {
        self.table.send_modify(|table| {
            table.upstreams.retain(|it| it.worker != upstream.worker);
            table.upstreams.push(Arc::clone(upstream));
        });
    }

    /// No more requests go to this process.
    pub(super) fn remove(&self, upstream: &Arc<Upstream>) {
        self.table
            .send_modify(|table| table.upstreams.retain(|it| !Arc::ptr_eq(it, upstream)));
    }

    /// A request for which there is no process does not wait from now on.
    pub(super) fn stop_waiting(&self) {
        self.table.send_modify(|table| table.is_stopping = true);
    }

    /// The least busy process that has not refused this request, which counts as in flight there. Waits for one until this
    /// time. Cancel-safe.
    pub(super) async fn pick(
        &self,
        refused: &[Arc<Upstream>],
        until: Instant,
    ) -> Result<InFlight, Unrouted> {
        if let Some(found) = self.pick_now(refused) {
            return found;
        }
        let _waiting = Waiting::begin(&self.waiting).ok_or(Unrouted::Crowd)?;
        let mut changed = self.table.subscribe();
        loop {
            // Looked at after it was subscribed to: no change is missed.
            changed.borrow_and_update();
            if let Some(found) = self.pick_now(refused) {
                return found;
            }
            match timeout_at(until, changed.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return Err(Unrouted::Stopping),
                Err(_) => return Err(Unrouted::Late),
            }
        }
    }

    /// Counted while the table is locked: a process that is replaced right after is not told to end before it has answered.
    fn pick_now(&self, refused: &[Arc<Upstream>]) -> Option<Result<InFlight, Unrouted>> {
        let mut found = None;
        self.table.send_if_modified(|table| {
            found = table.pick(refused);
            // Nothing that is waited for.
            false
        });
        found
    }
}

impl RouteTable {
    fn pick(&mut self, refused: &[Arc<Upstream>]) -> Option<Result<InFlight, Unrouted>> {
        let count = self.upstreams.len();
        self.turn = self.turn.wrapping_add(1);
        let in_turn = (0..count).map(|step| &self.upstreams[self.turn.wrapping_add(step) % count]);
        let fit = in_turn.filter(|it| !refused.iter().any(|refused| Arc::ptr_eq(it, refused)));
        match fit.min_by_key(|it| it.load()) {
            Some(upstream) => Some(Ok(upstream.begin())),
            None if self.is_stopping => Some(Err(Unrouted::Stopping)),
            None => None,
        }
    }
}

struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn begin(count: &'a AtomicUsize) -> Option<Self> {
        let waiting = Self(count);
        (count.fetch_add(1, Ordering::Relaxed) < MOST_WAITING).then_some(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::placeholder::Placeholder;
    use super::*;

    fn upstream(worker: usize) -> Arc<Upstream> {
        Arc::new(Upstream::new(Placeholder::Port, None, worker, 1).unwrap())
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(10)
    }

    #[tokio::test]
    async fn requests_are_spread_over_the_least_busy() {
        let routes = Routes::new();
        let all = [upstream(1), upstream(2), upstream(3)];
        all.iter().for_each(|it| routes.set(it));
        let mut under_way = Vec::new();
        for _ in 0..9 {
            under_way.push(routes.pick(&[], soon()).await.ok().unwrap());
        }
        assert_eq!(all.each_ref().map(|it| it.load()), [3, 3, 3]);
        under_way.retain(|it| !Arc::ptr_eq(it.upstream(), &all[1]));
        let next = routes.pick(&[], soon()).await.ok().unwrap();
        assert!(Arc::ptr_eq(next.upstream(), &all[1]));
        let refused = [Arc::clone(&all[1])];
        let next = routes.pick(&refused, soon()).await.ok().unwrap();
        assert!(!Arc::ptr_eq(next.upstream(), &all[1]));
    }

    #[tokio::test]
    async fn a_worker_has_one_process_at_a_time() {
        let routes = Routes::new();
        let (old, new) = (upstream(1), upstream(1));
        routes.set(&old);
        let on_old = routes.pick(&[], soon()).await.ok().unwrap();
        routes.set(&new);
        for _ in 0..3 {
            let next = routes.pick(&[], soon()).await.ok().unwrap();
            assert!(Arc::ptr_eq(next.upstream(), &new));
        }
        assert_eq!(old.load(), 1);
        drop(on_old);
        assert_eq!(old.load(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_waits_for_a_process_and_not_forever() {
        let routes = Arc::new(Routes::new());
        let late = routes.pick(&[], soon()).await;
        assert_eq!(late.err(), Some(Unrouted::Late));
        let waits = tokio::spawn({
            let routes = Arc::clone(&routes);
            async move { routes.pick(&[], soon()).await.is_ok() }
        });
        tokio::task::yield_now().await;
        routes.set(&upstream(1));
        assert!(waits.await.unwrap());
    }

    #[tokio::test]
    async fn a_stop_ends_the_wait_and_not_the_service() {
        let routes = Routes::new();
        let only = upstream(1);
        routes.set(&only);
        routes.stop_waiting();
        assert!(routes.pick(&[], soon()).await.is_ok());
        routes.remove(&only);
        let stopped = routes.pick(&[], soon()).await;
        assert_eq!(stopped.err(), Some(Unrouted::Stopping));
    }

    #[tokio::test(start_paused = true)]
    async fn requests_over_the_limit_do_not_wait() {
        let routes = Arc::new(Routes::new());
        let waiting: Vec<_> = (0..MOST_WAITING)
            .map(|_| {
                let routes = Arc::clone(&routes);
                tokio::spawn(async move { routes.pick(&[], soon()).await.err() })
            })
            .collect();
        while routes.waiting.load(Ordering::Relaxed) < MOST_WAITING {
            tokio::task::yield_now().await;
        }
        let crowd = routes.pick(&[], soon()).await;
        assert_eq!(crowd.err(), Some(Unrouted::Crowd));
        for wait in waiting {
            assert_eq!(wait.await.unwrap(), Some(Unrouted::Late));
        }
        assert_eq!(routes.waiting.load(Ordering::Relaxed), 0);
    }
}
