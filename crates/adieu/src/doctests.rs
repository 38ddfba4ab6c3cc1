//! The guide's pages as doc tests, so that their code compiles and their numbers are true.
//!
//! The README's example has a test of its own, `tests/readme.rs`, because it needs a stand-in for a database.

macro_rules! pages {
    ($($(#[$condition:meta])? $name:ident = $page:literal;)*) => {
        $($(#[$condition])? #[doc = include_str!(concat!("../../../docs/", $page))] pub struct $name;)*
    };
}

pages! {
    Contract = "contract.md";
    PhasesAndBudget = "phases-and-budget.md";
    Tasks = "tasks.md";
    Components = "components.md";
    Resources = "resources.md";
    Failures = "failures.md";
    Report = "report.md";
    Reload = "reload.md";
    #[cfg(feature = "net")]
    Handoff = "handoff.md";
    #[cfg(feature = "schedule")]
    Schedules = "schedules.md";
    #[cfg(all(feature = "otel", feature = "axum"))]
    Telemetry = "telemetry.md";
    #[cfg(feature = "admin")]
    Health = "health.md";
    #[cfg(all(feature = "axum", feature = "tls"))]
    Servers = "servers.md";
    #[cfg(feature = "state")]
    State = "state.md";
    #[cfg(feature = "state")]
    Workers = "workers.md";
    #[cfg(all(feature = "schedule", feature = "postgres"))]
    OneToMany = "one-to-many.md";
    #[cfg(feature = "postgres")]
    Queues = "queues.md";
    #[cfg(feature = "state")]
    Pollers = "pollers.md";
    #[cfg(all(feature = "axum", feature = "testing"))]
    Testing = "testing.md";
    #[cfg(all(feature = "axum", feature = "schedule", feature = "testing"))]
    FromAsyncio = "from-asyncio.md";
    TaskTracker = "tasktracker.md";
    #[cfg(all(feature = "axum", feature = "admin"))]
    Axum = "axum.md";
    #[cfg(all(feature = "axum", feature = "admin"))]
    Kubernetes = "kubernetes.md";
    #[cfg(all(feature = "http", unix))]
    Tonic = "tonic.md";
}
