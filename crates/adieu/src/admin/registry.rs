//! What the admin port keeps in the service: the checks, and the ports that are open.

use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use adieu_lifecycle::{Outcome, Time};
#[cfg(unix)]
use tokio::runtime::Handle;

use super::check::Check;
use crate::error::Error;
use crate::report::{ComponentKind, ComponentReport};
use crate::runtime::extension::Extension;
use crate::runtime::shared::ServiceShared;
use crate::util::latch::Latch;

#[derive(Default)]
pub(crate) struct AdminRegistry {
    checks: Mutex<Vec<Arc<Check>>>,
    ports: Mutex<Vec<Port>>,
}

/// A port that was opened.
#[derive(Clone)]
struct Port {
    address: String,
    place: &'static Location<'static>,
    born: Time,
    /// Open once the socket is closed.
    closed: Arc<Latch>,
}

/// What a port is called in plan and report. It is not a component of the stop.
const NAME: &str = "admin";

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Extension for AdminRegistry {
    #[cfg(feature = "tonic")]
    fn asks_whether_ready(
        &self,
        core: &Arc<ServiceShared>,
    ) -> Option<crate::component::BoxFuture<bool>> {
        let (checks, runtime) = (self.checks(), core.runtime.clone());
        let asking = async move {
            for check in &checks {
                let answer = check.ask(&runtime).await;
                if answer.is_none_or(|answer| answer.problem.is_some()) {
                    return false;
                }
            }
            true
        };
        (!self.checks().is_empty())
            .then(|| -> crate::component::BoxFuture<bool> { Box::pin(asking) })
    }

    /// Ports stand behind everything else.
    fn add_to_plan(&self, names: &mut Vec<Arc<str>>) {
        names.extend(lock(&self.ports).iter().map(|_| Arc::from(NAME)));
    }

    fn add_to_report(&self, now: Time, reports: &mut Vec<ComponentReport>) {
        reports.extend(self.reports(now));
    }
}

impl ServiceShared {
    pub(crate) fn admin(&self) -> &AdminRegistry {
        self.extensions.get()
    }
}

impl AdminRegistry {
    /// Adds a check. The first one spawns a task that drops the code of all checks when the stop is announced: what they
    /// hold, a clone of a pool say, must not outlive its turn to close.
    pub(super) fn add(&self, core: &Arc<ServiceShared>, check: Check) -> Result<(), Error> {
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
                core.announced.wait().await;
                for check in core.admin().checks() {
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

    /// Counts a port in. The gate is to be opened when its socket is closed.
    pub(super) fn opened(
        &self,
        address: String,
        place: &'static Location<'static>,
        born: Time,
    ) -> Arc<Latch> {
        let closed = Arc::<Latch>::default();
        lock(&self.ports).push(Port {
            address,
            place,
            born,
            closed: Arc::clone(&closed),
        });
        closed
    }

    /// The ports for the report. They answer until the process, or the scope, ends: whatever the stop has come to,
    /// nothing is lost with them.
    fn reports(&self, now: Time) -> Vec<ComponentReport> {
        let report = |port: &Port| ComponentReport {
            name: NAME.to_owned(),
            kind: ComponentKind::Admin,
            outcome: Outcome::Closed,
            place: port.place.to_string(),
            age: now.saturating_sub(port.born),
            ending: Duration::ZERO,
            restarts: 0,
            failure: None,
            blocking: false,
            notes: vec![format!("on {}, closed last", port.address)],
        };
        lock(&self.ports).iter().map(report).collect()
    }

    /// Completes when every port is closed. Cancel-safe.
    pub(crate) async fn closed(&self) {
        let ports = lock(&self.ports).clone();
        for port in ports {
            port.closed.wait().await;
        }
    }
}
