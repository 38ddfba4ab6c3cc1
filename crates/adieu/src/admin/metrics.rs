//! Prometheus text: the program's own metrics through the `metrics` facade, and those of the service.
//!
//! The service's own numbers are read when `/metrics` is asked for, and cost nothing otherwise.

use std::sync::{Arc, OnceLock};

use adieu_lifecycle::{Exit, Outcome, Phase};
use metrics::{counter, describe_counter, describe_gauge, gauge, with_local_recorder};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use super::health::View;
use super::recorder::Collector;
use crate::report::{ComponentStatus, ReportBuilder};

/// Where the program's metrics are, once a service collects them; `None` if another recorder does.
static OURS: OnceLock<Option<PrometheusHandle>> = OnceLock::new();

/// Collects the program's metrics from now on, unless another recorder does already, which it says.
pub(super) fn install() -> bool {
    OURS.get_or_init(|| {
        let (collector, handle) = Collector::new();
        metrics::set_global_recorder(collector)
            .ok()
            .map(|()| handle)
    })
    .is_some()
}

/// All metrics as text. `others` is what the program adds by itself.
pub(super) fn render(view: &View, others: Option<&str>) -> String {
    let own = PrometheusBuilder::new().build_recorder();
    let handle = own.handle();
    // A recorder of the moment: states that have passed leave no trace in it, and two services in one process
    // do not show each other's.
    with_local_recorder(&own, || record(view));
    let mut text = handle.render();
    if let Some(Some(program)) = OURS.get() {
        text.push_str(&program.render());
    }
    text.push_str(others.unwrap_or_default());
    text
}

fn record(view: &View) {
    let core = &view.core;
    let service = core.name.to_string();
    let number = |name: &'static str, help: &'static str, value: f64| {
        describe_gauge!(name, help);
        gauge!(name, "service" => service.clone()).set(value);
    };
    number(
        "adieu_uptime_seconds",
        "Time since the service was created.",
        core.now().as_secs_f64(),
    );
    number(
        "adieu_grace_seconds",
        "How long a stop may take.",
        core.terms.grace.as_secs_f64(),
    );
    number(
        "adieu_stopping",
        "1 once the stop was requested.",
        flag(core.is_stopping()),
    );
    number(
        "adieu_running",
        "1 once setup has returned.",
        flag(core.running.is_open()),
    );
    number(
        "adieu_work_alive",
        "Tracked work alive: tasks, blocking code, connections, streams.",
        core.tasks.alive() as f64,
    );
    describe_counter!(
        "adieu_blocked_total",
        "How often tasks blocked their thread for longer than the watchdog's limit."
    );
    counter!("adieu_blocked_total", "service" => service.clone())
        .absolute(view.ledger(ReportBuilder::blocks));
    record_phase(view, &service);
    record_parts(view, &service);
    record_checks(view, &service);
    if core.cause.get().is_some() {
        record_stop(view, &service);
    }
}

fn record_phase(view: &View, service: &str) {
    let now = view.ledger(ReportBuilder::phase);
    describe_gauge!("adieu_stop_phase", "1 for the phase the stop is in.");
    for phase in Phase::ALL {
        gauge!("adieu_stop_phase", "service" => service.to_owned(), "phase" => phase.name())
            .set(flag(now == Some(phase)));
    }
}

fn record_parts(view: &View, service: &str) {
    describe_gauge!("adieu_parts", "Parts of the service by state.");
    describe_gauge!("adieu_connections", "Clients connected to a server.");
    describe_gauge!("adieu_requests_in_flight", "Requests being answered.");
    describe_counter!(
        "adieu_restarts_total",
        "How often a task was started again."
    );
    let parts = view.parts();
    for state in ComponentStatus::NAMES {
        let count = parts.iter().filter(|part| part.condition.name() == state);
        gauge!("adieu_parts", "service" => service.to_owned(), "state" => state)
            .set(count.count() as f64);
    }
    for part in &parts {
        let labels = [
            ("service", service.to_owned()),
            ("part", part.name.to_string()),
        ];
        if let Some(stats) = part.stats {
            gauge!("adieu_connections", &labels).set(stats.connections as f64);
            gauge!("adieu_requests_in_flight", &labels).set(stats.requests as f64);
        }
        if part.kind == crate::report::ComponentKind::Task {
            counter!("adieu_restarts_total", &labels).absolute(part.restarts.into());
        }
    }
}

/// How long the stop has taken so far, and how each component has ended. The port answers to the end, so the last scrape has
/// most of it.
fn record_stop(view: &View, service: &str) {
    describe_gauge!("adieu_stop_duration_seconds", "Time since the stop began.");
    describe_gauge!(
        "adieu_stop_phase_duration_seconds",
        "How long a phase of the stop has taken so far."
    );
    describe_gauge!(
        "adieu_part_stop_duration_seconds",
        "How long a part took to end, from the beginning of the stop or of its close."
    );
    describe_counter!(
        "adieu_forced_total",
        "Parts that were cancelled or abandoned."
    );
    let now = view.core.now();
    let snapshot = view.core.snapshot(now);
    let report = view.ledger(|ledger| ledger.report(snapshot, now, Exit::Clean));
    gauge!("adieu_stop_duration_seconds", "service" => service.to_owned())
        .set(report.took().as_secs_f64());
    for phase in report.phases() {
        let labels = [
            ("service", service.to_owned()),
            ("phase", phase.phase.to_string()),
        ];
        gauge!("adieu_stop_phase_duration_seconds", &labels).set(phase.took.as_secs_f64());
    }
    // In the same order: what is in the report besides parts comes after them.
    for (part, state) in report.parts().iter().zip(view.parts()) {
        let ComponentStatus::Over(outcome) = state.condition else {
            continue;
        };
        let labels = [
            ("service", service.to_owned()),
            ("part", part.name.clone()),
            ("kind", part.kind.to_string()),
            ("outcome", outcome.to_string()),
        ];
        gauge!("adieu_part_stop_duration_seconds", &labels).set(part.ending.as_secs_f64());
        if matches!(outcome, Outcome::Cancelled | Outcome::Abandoned) {
            counter!("adieu_forced_total", &labels[..2]).absolute(1);
        }
    }
}

/// What the checks last said; `/readyz` asks them anew.
fn record_checks(view: &View, service: &str) {
    describe_gauge!("adieu_check_ok", "1 if the check's last answer was good.");
    for check in view.core.admin().checks() {
        if let Some(last) = check.last() {
            gauge!("adieu_check_ok", "service" => service.to_owned(), "check" => check.name.to_string())
                .set(flag(last.problem.is_none()));
        }
    }
}

const fn flag(set: bool) -> f64 {
    if set { 1.0 } else { 0.0 }
}

/// What a program with a recorder of its own adds to `/metrics`.
pub(super) type Others = Arc<dyn Fn() -> String + Send + Sync>;
