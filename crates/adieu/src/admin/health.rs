//! How the service is: live, ready, and why not.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

use adieu_lifecycle::{Exit, Phase};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::check::{Check, CheckResult};
use crate::net::{ServerProbe, ServerStats};
use crate::reload::Reloaded;
use crate::report::{ComponentKind, ComponentStatus, ReportBuilder, millis};
use crate::runtime::shared::{ComponentEntry, ServiceShared};

/// The service as those who ask see it.
#[derive(Clone)]
pub(super) struct View {
    pub(super) core: Arc<ServiceShared>,
    pub(super) ledger: Arc<Mutex<ReportBuilder>>,
}

pub(super) struct PartState {
    pub(super) name: Arc<str>,
    pub(super) kind: ComponentKind,
    pub(super) condition: ComponentStatus,
    pub(super) restarts: u32,
    pub(super) stats: Option<ServerStats>,
}

/// Why the service is not ready. In words that may be shown to strangers: names, and no error texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unready {
    Starting,
    Stopping,
    Part(Arc<str>),
    Check(String),
}

impl std::fmt::Display for Unready {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Starting => f.write_str("starting"),
            Self::Stopping => f.write_str("stopping"),
            Self::Part(name) => write!(f, "`{name}` is starting"),
            Self::Check(name) => write!(f, "check `{name}` fails"),
        }
    }
}

/// The answer to "are you ready?", with what every check said.
pub(super) struct Readiness {
    pub(super) unready: Vec<Unready>,
    pub(super) checks: Vec<(Arc<Check>, Option<CheckResult>)>,
    /// Checks that were not wanted, and not asked.
    pub(super) excluded: Vec<Arc<Check>>,
}

fn server_probe(component: &ComponentEntry) -> Option<&ServerProbe> {
    let probe: &dyn Any = component.probe.as_deref()?;
    probe.downcast_ref()
}

impl View {
    pub(super) fn ledger<T>(&self, read: impl FnOnce(&ReportBuilder) -> T) -> T {
        read(&self.ledger.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What every part is doing, in the order of registration.
    pub(super) fn parts(&self) -> Vec<PartState> {
        let parts = self.core.parts();
        let state = |part: &ComponentEntry| PartState {
            name: Arc::clone(&part.name),
            kind: part.kind,
            condition: part.status(),
            restarts: part.restarts,
            stats: server_probe(part).map(ServerProbe::stats),
        };
        parts.iter().map(state).collect()
    }

    /// Asks everything that readiness depends on. While the service starts or stops, the answer is clear without
    /// the checks, and what they look at may not be open.
    ///
    /// Dropped half-way, the running checks are cancelled.
    pub(super) async fn readiness(&self) -> Readiness {
        self.readiness_of(|_| true).await
    }

    /// Asks only the checks whose names are wanted.
    ///
    /// Dropped half-way, the running checks are cancelled.
    pub(super) async fn readiness_of(&self, wants: impl Fn(&str) -> bool) -> Readiness {
        let core = &self.core;
        let mut unready = self.unready_parts();
        let checks = core.admin().checks();
        let (checks, excluded): (Vec<_>, Vec<_>) =
            checks.into_iter().partition(|check| wants(&check.name));
        let answers = if unready.is_empty() {
            self.ask_all(&checks).await
        } else {
            checks.iter().map(|check| check.last()).collect()
        };
        let checks: Vec<_> = checks.into_iter().zip(answers).collect();
        if unready.is_empty() {
            let failing = checks.iter().filter(|(_, answer)| {
                answer
                    .as_ref()
                    .is_none_or(|answer| answer.problem.is_some())
            });
            unready.extend(failing.map(|(check, _)| Unready::Check(check.name.to_string())));
        }
        // The stop may have come while the checks were asked; an old "ready" would send clients here.
        if core.is_stopping() {
            unready = vec![Unready::Stopping];
        }
        Readiness {
            unready,
            checks,
            excluded,
        }
    }

    fn unready_parts(&self) -> Vec<Unready> {
        if self.core.is_stopping() {
            return vec![Unready::Stopping];
        }
        if !self.core.running.is_open() {
            return vec![Unready::Starting];
        }
        let starting = self
            .parts()
            .into_iter()
            .filter(|part| part.condition == ComponentStatus::Starting);
        starting.map(|part| Unready::Part(part.name)).collect()
    }

    /// All at once, so that the slowest says how long it takes.
    async fn ask_all(&self, checks: &[Arc<Check>]) -> Vec<Option<CheckResult>> {
        let mut asking = JoinSet::new();
        for (number, check) in checks.iter().enumerate() {
            let (check, runtime) = (Arc::clone(check), self.core.runtime.clone());
            asking.spawn_on(
                async move { (number, check.ask(&runtime).await) },
                &self.core.runtime,
            );
        }
        let mut answers = vec![None; checks.len()];
        while let Some(answered) = asking.join_next().await {
            if let Ok((number, answer)) = answered {
                answers[number] = answer;
            }
        }
        answers
    }

    fn phase(&self) -> Option<Phase> {
        self.ledger(ReportBuilder::phase)
    }

    /// `starting`, `running`, `stopping`.
    fn stage(&self) -> &'static str {
        if self.core.is_stopping() {
            "stopping"
        } else if self.core.running.is_open() {
            "running"
        } else {
            "starting"
        }
    }

    pub(super) fn health(&self, readiness: &Readiness) -> Value {
        let parts: Vec<_> = self.parts().iter().map(part).collect();
        let checks: Vec<_> = readiness
            .checks
            .iter()
            .map(|(check, answer)| {
                json!({
                    "name": check.name,
                    "ok": answer.as_ref().map(|answer| answer.problem.is_none()),
                    "problem": answer.as_ref().and_then(|answer| answer.problem.as_deref()),
                    "took_ms": answer.as_ref().map(|answer| millis(answer.took)),
                    "age_ms": answer.as_ref().map(|answer| millis(answer.at.elapsed())),
                })
            })
            .collect();
        let reasons: Vec<_> = readiness.unready.iter().map(ToString::to_string).collect();
        let mut health = json!({
            "service": &*self.core.name,
            "live": true,
            "ready": reasons.is_empty(),
            "reasons": reasons,
            "stage": self.stage(),
            "phase": self.phase().map(Phase::name),
            "cause": self.core.cause.get().map(ToString::to_string),
            "uptime_ms": millis(self.core.now()),
            "parts": parts,
            "checks": checks,
        });
        if let Some(reloads) = self.core.reloads().summary() {
            health["reload"] = reload(&reloads);
        }
        #[cfg(unix)]
        if let Some(last) = self.core.handoff().last() {
            health["handoff"] = json!({
                "outcome": last.outcome,
                "pid": last.pid,
                "why": last.why,
                "age_ms": millis(last.at.elapsed()),
            });
        }
        health
    }

    pub(super) fn plan(&self) -> Value {
        let plan = self.core.plan();
        let phases: Vec<_> = plan
            .phases
            .iter()
            .map(|(phase, slice, parts)| {
                let parts: Vec<&str> = parts.iter().map(|part| &**part).collect();
                json!({"phase": phase.name(), "budget_ms": millis(*slice), "parts": parts})
            })
            .collect();
        json!({"service": &*self.core.name, "grace_ms": millis(plan.grace), "phases": phases})
    }

    /// The report so far: what has no outcome yet has none here either.
    pub(super) fn report(&self) -> Value {
        let conditions = self.parts();
        let now = self.core.now();
        let snapshot = self.core.snapshot(now);
        let report = self.ledger(|ledger| ledger.report(snapshot, now, Exit::Clean));
        let mut value = report.to_value();
        let ended = self.core.exit_code();
        if ended.is_none() {
            value["exit_code"] = Value::Null;
            value["exit"] = Value::Null;
        }
        value["ended"] = ended.is_some().into();
        value["stage"] = self.stage().into();
        let listed = value["parts"].as_array_mut().into_iter().flatten();
        // Behind the parts stand the admin ports, one of which is answering.
        let conditions = conditions.iter().map(|state| state.condition);
        for (listed, condition) in
            listed.zip(conditions.chain(std::iter::repeat(ComponentStatus::Ready)))
        {
            if !matches!(condition, ComponentStatus::Over(_)) {
                listed["outcome"] = Value::Null;
                listed["state"] = condition.name().into();
            }
        }
        value
    }
}

fn reload(reloads: &Reloaded) -> Value {
    let sources: Vec<&str> = reloads.sources.iter().map(|name| &**name).collect();
    let last = reloads.last.as_ref().map(|last| {
        let refused = last.refused.as_ref();
        json!({
            "outcome": if refused.is_some() { "refused" } else { "applied" },
            "refused_by": refused.map(|(part, _)| &**part),
            "failure": refused.map(|(_, failure)| failure),
            "age_ms": millis(last.at.elapsed()),
        })
    });
    json!({
        "sources": sources,
        "applied": reloads.applied,
        "refused": reloads.refused,
        "last": last,
    })
}

fn part(part: &PartState) -> Value {
    let mut value = json!({
        "name": &*part.name,
        "kind": part.kind.name(),
        "state": part.condition.name(),
        "restarts": part.restarts,
    });
    if let Some(stats) = part.stats {
        value["connections"] = stats.connections.into();
        value["requests"] = stats.requests.into();
    }
    value
}
