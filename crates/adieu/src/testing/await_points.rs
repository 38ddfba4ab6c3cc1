//! Counts await points, and stops the service at a chosen one.

use std::sync::{Arc, Mutex, PoisonError};

use adieu_lifecycle::StopSignal;

use crate::runtime::shared::ServiceShared;

/// The await points of one service.
#[derive(Default)]
pub(crate) struct AwaitPoints(Mutex<Counting>);

#[derive(Default)]
struct Counting {
    passed: u64,
    stop_at: Option<u64>,
    stopped_in: Option<String>,
}

impl AwaitPoints {
    /// Counts those of this service from here on.
    pub(crate) fn observe(core: &ServiceShared) -> Arc<Self> {
        let points = Arc::new(Self::default());
        let theirs = Arc::clone(&points);
        let observer = move |core: &ServiceShared, id| theirs.await_point(core, id);
        let _ = core.await_point_observer.set(Box::new(observer));
        points
    }

    /// Stops the service at its n-th await point, counted from 1.
    pub(crate) fn stop_at(&self, point: u64) {
        self.counting(|counting| counting.stop_at = Some(point));
    }

    /// How many await points were passed.
    pub(crate) fn passed(&self) -> u64 {
        self.counting(|counting| counting.passed)
    }

    /// Who was waiting when the stop came.
    pub(crate) fn stopped_in(&self) -> Option<String> {
        self.counting(|counting| counting.stopped_in.clone())
    }

    fn counting<T>(&self, change: impl FnOnce(&mut Counting) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A task, or `setup`, is about to wait.
    fn await_point(&self, core: &ServiceShared, id: u64) {
        let reached = self.counting(|counting| {
            counting.passed += 1;
            counting.stop_at == Some(counting.passed)
        });
        if reached {
            let who = core
                .who(id)
                .map_or_else(|| "?".to_owned(), |(name, _)| name);
            self.counting(|counting| counting.stopped_in = Some(who));
            core.stop_on_signal(StopSignal::Terminate);
        }
    }
}
