//! What a service hardly ever meets: an answer that comes late, and a platform that ends the process sooner.

use std::sync::Arc;
use std::time::Duration;

use adieu_lifecycle::{Event, Outcome, Phase, StopSignal};

use crate::report::Report;

/// Stops a scope with one piece of work that needs three seconds more; says something to its driver one second
/// into the drain.
async fn stopped(said: Event) -> Report {
    let stage = crate::scope("told")
        .grace(Duration::from_secs(100))
        .begin()
        .expect("a scope");
    let core = Arc::clone(&stage.core);
    stage
        .run(async move |app| {
            app.task("worker", |stop| async move {
                stop.requested().await;
                tokio::time::sleep(Duration::from_secs(1)).await;
                core.tell(said);
                tokio::time::sleep(Duration::from_secs(2)).await;
            });
            app.shutdown_handle().stop("the test");
            Ok(())
        })
        .await
}

fn took(report: &Report, phase: Phase) -> Duration {
    let mut phases = report.phases().iter();
    let found = phases.find(|it| it.phase == phase);
    found.map(|it| it.took).expect("every phase was reached")
}

#[tokio::test(start_paused = true)]
async fn an_idle_event_is_ignored_while_a_task_lives() {
    let report = stopped(Event::Idle).await;
    assert_eq!(report.part("worker").unwrap().outcome, Outcome::Finished);
    assert_eq!(took(&report, Phase::Drain), Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn a_platform_that_ends_the_process_sooner_is_in_the_report() {
    let report = stopped(Event::Within(Duration::from_secs(10))).await;
    assert_eq!(report.grace, Duration::from_secs(11));
    assert_eq!(report.part("worker").unwrap().outcome, Outcome::Finished);
}

/// The report says what was promised, and the exit code that it was cut short.
#[tokio::test(start_paused = true)]
async fn a_second_signal_does_not_change_the_grace_in_the_report() {
    let report = stopped(Event::Hurry(StopSignal::Interrupt)).await;
    assert_eq!(report.grace, Duration::from_secs(100));
    assert_eq!(report.exit_code(), 130);
}
