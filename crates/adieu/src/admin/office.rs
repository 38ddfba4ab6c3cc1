//! What the admin port keeps in the service: the checks, and the ports that are open.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;

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

    #[cfg(unix)]
    pub(crate) fn has_checks(&self) -> bool {
        !lock(&self.checks).is_empty()
    }

    /// Asks every check; says whether all pass. Once the stop is announced there is none left to fail.
    ///
    /// Dropped half-way, the one that is asked is cancelled.
    #[cfg(unix)]
    pub(crate) async fn all_pass(&self, runtime: &Handle) -> bool {
        for check in self.checks() {
            let answer = check.ask(runtime).await;
            if answer.is_some_and(|answer| answer.problem.is_some()) {
                return false;
            }
        }
        true
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
