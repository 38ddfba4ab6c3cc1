//! Whoever stands in the listener's queue at the signal has sent a request already.

use std::time::Duration;

use tokio::time::timeout;

use super::{Spec, Trying};
use crate::discover::Speaks;
use crate::finding::Finding;
use crate::flight::Flight;
use crate::process::Signal;
use crate::report::{Fate, Group};
use crate::stage::{PATIENCE, Stage};
use crate::threshold::Threshold;

pub(crate) const SPEC: Spec = Spec {
    id: "backlog-served",
    group: Group::Drain,
    quick: false,
    why: "Connections in the listener's queue are made and have sent their requests; closing the listener over them \
          resets them all.",
    how: "The program is held with SIGSTOP while sixteen connections are made and send a request each, which the kernel \
          accepts into the queue. Then the stop signal is sent and the program goes on. Every request must be answered.",
    applies: "Programs that speak HTTP without TLS: a TLS handshake needs the program.",
    threshold: |_| Threshold::Count(0, "requests lost"),
    hints: &[
        (
            "any",
            "on the stop accept until the queue is empty, and only then close the listener",
        ),
        (
            "axum / hyper",
            "adieu's `app.listen` empties the queue; `axum::serve` does not",
        ),
        (
            "Go, Node, uvicorn",
            "no setting does it: start it with `adieu run -- …`, which lets the queue empty before the \
             program hears of the stop; or let systemd hold the socket",
        ),
    ],
    run: |stage| Box::pin(check(stage)) as Trying<'_>,
};

const CONNECTIONS: usize = 16;

async fn check(stage: &mut Stage<'_>) -> Result<Finding, crate::CannotDrill> {
    if stage.found.speaks != Speaks::Http {
        return Ok(Finding::skipped(super::NO_HTTP));
    }
    let run = stage.start().await?;
    if run.place.tls {
        return Ok(Finding::skipped(
            "a TLS handshake cannot happen while the program is held",
        ));
    }
    run.let_arrive().await;
    run.subject.signal_all(Signal::STOP).await;
    let request = run.place.request();
    let mut flights = Vec::new();
    while flights.len() < CONNECTIONS {
        // A queue that is full is no fault of the stop.
        match timeout(Duration::from_secs(1), Flight::begin(&run.place, &request)).await {
            Ok(Ok(flight)) => flights.push(flight),
            Ok(Err(_)) | Err(_) => break,
        }
    }
    let count = flights.len();
    let signal = run.stop();
    run.subject.signal_all(Signal::CONT).await;
    if count == 0 {
        return Ok(Finding::skipped(
            "no connection fits into the listener's queue",
        ));
    }
    let mut evidence = Vec::new();
    let mut by_time = true;
    for (flight, number) in flights.into_iter().zip(1..) {
        let landed = flight.land(stage.idle_stop() + PATIENCE).await;
        let fate = landed.fate();
        if fate.lost() || fate == Fate::ServerError {
            by_time &= fate == Fate::TimedOut;
            evidence.push(format!(
                "connection {number} of {count} in the queue: {}",
                fate.words()
            ));
        }
    }
    stage.see_out(&run, signal).await;
    let lost = evidence.len();
    let measured = format!("{lost} of {count} lost");
    if lost as u64 > stage.threshold.count() {
        let mut finding = Finding::failed(format!(
            "{lost} of {count} requests in the listener's queue were lost"
        ));
        finding.by_time = by_time;
        return Ok(finding
            .shown(evidence.into_iter().take(5))
            .measured(measured));
    }
    Ok(Finding::passed(format!(
        "all {count} requests in the listener's queue were answered"
    ))
    .measured(measured))
}
