//! What the admin port keeps in the service: the checks, and the ports that are open.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::check::Check;
use crate::core::Core;
use crate::error::Error;
use crate::gate::Gate;

#[derive(Default)]
pub(crate) struct Office {
    checks: Mutex<Vec<Arc<Check>>>,
    /// A gate for each port, open once its socket is closed.
    ports: Mutex<Vec<Arc<Gate>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Office {
    /// Adds a check. The first one posts somebody who lets go of all checks when the stop is announced: what they
    /// hold, a clone of a pool say, must not outlive its turn to close.
    pub(super) fn add(&self, core: &Arc<Core>, check: Check) -> Result<(), Error> {
        let mut checks = lock(&self.checks);
        if let Some(first) = checks.iter().find(|other| other.name == check.name) {
            return Err(Error::config(format!(
                "two checks are named `{}`: the first at {}, another at {}; give one of them a new name",
                check.name, first.place, check.place
            )));
        }
        if checks.is_empty() {
            let core = Arc::clone(core);
            core.runtime.clone().spawn(async move {
                core.announced.pass().await;
                for check in core.office.checks() {
                    check.forget();
                }
            });
        }
        checks.push(Arc::new(check));
        Ok(())
    }

    pub(super) fn checks(&self) -> Vec<Arc<Check>> {
        lock(&self.checks).clone()
    }

    pub(super) fn opened(&self) -> Arc<Gate> {
        let closed = Arc::<Gate>::default();
        lock(&self.ports).push(Arc::clone(&closed));
        closed
    }

    /// Completes when every port is closed. Cancel-safe.
    pub(crate) async fn closed(&self) {
        let ports = lock(&self.ports).clone();
        for port in ports {
            port.pass().await;
        }
    }
}
