//! Counts await points, and stops the service at a chosen one.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Mutex, PoisonError};

use crate::core::Core;
use crate::lifecycle::StopSignal;

/// Sits in every service that is built with the kit, and does nothing until it is set.
#[derive(Default)]
pub(crate) struct Probe(Mutex<Counting>);

#[derive(Default)]
struct Counting {
    passed: u64,
    stop_at: Option<u64>,
    stopped_in: Option<String>,
}

impl Probe {
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

    /// Somebody waits.
    pub(crate) fn await_point(&self, core: &Core, id: u64) {
        let reached = self.counting(|counting| {
            counting.passed += 1;
            counting.stop_at == Some(counting.passed)
        });
        if reached {
            let who = core
                .who(id)
                .map_or_else(|| "?".to_owned(), |(name, _)| name);
            self.counting(|counting| counting.stopped_in = Some(who));
            core.signal(StopSignal::Terminate);
        }
    }
}

/// Counts the await points of `setup`.
pub(crate) async fn probed<F: Future>(core: &Core, future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|cx| {
        let polled = future.as_mut().poll(cx);
        if polled.is_pending() {
            core.probe.await_point(core, core.seat_of(None));
        }
        polled
    })
    .await
}
